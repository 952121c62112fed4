//! What a node does with commands about the roster.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::name::LeaseId;
use crate::request::{BreakMode, Target};
use crate::terms::Mode;
use crate::time::Ttl;
use crate::vote::Vote;

const NOW: NodeTime = NodeTime { wall_micros: 10_000_000, life_millis: 10_000 };

fn settings() -> Settings {
    Settings { max_ttl_millis: 1_000, max_skew_micros: 300_000, key_template: "".into(), trusts_restarts: false }
}

fn address(server: u128) -> Arc<str> {
    alloc::format!("host{server}:6379/0").into()
}

fn seats(servers: &[u128]) -> Vec<(MemberId, Arc<str>)> {
    servers.iter().map(|server| (MemberId(*server), address(*server))).collect()
}

fn first() -> Roster {
    Roster::of_every_seat(ClusterId(7), 1, seats(&[1, 2, 3]), settings(), None).unwrap()
}

fn identify(run: &str, member: u128, life: u64) -> RosterCommand {
    RosterCommand::Identify {
        identity: Identity::of_run(run),
        member: MemberId(member),
        life: Life(life),
        floor_offset: 600_000,
    }
}

fn promise(generation: u64, round: u64) -> RosterCommand {
    let promise = Promise { generation, ballot: Ballot { round, bits: 0 } };
    RosterCommand::Promise { promise, electorate: Electorate::Members }
}

fn accept(roster: &Roster, round: u64) -> RosterCommand {
    RosterCommand::Accept(Proposal { ballot: Ballot { round, bits: 0 }, roster: Arc::new(roster.clone()) })
}

fn install(roster: &Roster) -> RosterCommand {
    RosterCommand::Install(Arc::new(roster.clone()))
}

fn claim(since: u64, millis: u64) -> RosterCommand {
    RosterCommand::Claim { life: Life(1), since, elapsed_micros: millis * 1_000 }
}

struct Node(Option<Membership>);

impl Node {
    fn blank() -> Self {
        Self(None)
    }

    /// Member 1, out of quarantine.
    fn voting(roster: &Roster) -> Self {
        let mut node = Self::blank();
        node.does(&identify("run", 1, 1));
        node.does(&install(roster));
        node.does(&claim(1, 1_100));
        assert!(node.stored().is_voting());
        node
    }

    fn does(&mut self, command: &RosterCommand) -> bool {
        apply_roster(&mut self.0, command, NOW).accepted
    }

    fn stored(&self) -> &Membership {
        self.0.as_ref().unwrap()
    }

    fn asks(&self, record: &mut Record, epoch: Epoch) -> Vote {
        let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
        let (attempt, holder, mode) = (LeaseId::from_bits(1), "".into(), Mode::EXCLUSIVE);
        let request = Request::Acquire { attempt, proposal: Fence::default(), ttl, holder, mode, waiter: None };
        vote(self.stored(), record, &request, epoch, NOW, |_| false).vote
    }
}

fn with(old: u128, new: u128) -> Change {
    Change::replace(MemberId(old), MemberId(new), address(new))
}

#[test]
fn the_first_id_of_a_blank_server_stays() {
    let mut node = Node::blank();
    assert!(!node.does(&promise(1, 1)), "a server without an id promises nothing");
    node.does(&identify("run", 1, 1));
    node.does(&identify("run", 2, 2));
    assert_eq!((node.stored().member, node.stored().life), (Some(MemberId(1)), Life(1)));
}

#[test]
fn another_run_gets_a_fresh_id_and_forgets_what_it_accepted() {
    let mut node = Node::voting(&first());
    node.does(&promise(2, 1));
    node.does(&accept(&first().successor(&with(3, 4)).unwrap(), 1));
    node.does(&identify("run2", 9, 9));
    let stored = node.stored();
    assert_eq!((stored.member, stored.life, stored.generation()), (Some(MemberId(9)), Life(9), 1));
    assert!(!stored.is_voting() && stored.promised.is_none() && stored.accepted.is_none());
}

#[test]
fn a_trusted_restart_keeps_the_id_and_forgets_its_promise() {
    let roster = Roster { settings: Settings { trusts_restarts: true, ..settings() }, ..first() };
    let mut node = Node::voting(&roster);
    let (epoch, floor) = (node.stored().epoch(), node.stored().floor);
    node.does(&promise(2, 1));
    node.does(&identify("run2", 9, 9));
    let stored = node.stored();
    assert_eq!((stored.member, stored.promised), (Some(MemberId(1)), None));
    assert!(stored.is_voting() && stored.epoch() != epoch && stored.floor > floor);
    assert!(!node.does(&accept(&first().successor(&with(3, 4)).unwrap(), 1)), "promised by another run");
}

#[test]
fn only_members_of_the_generation_before_promise() {
    let mut node = Node::voting(&first());
    assert!(!node.does(&promise(1, 1)) && !node.does(&promise(3, 1)));
    assert!(node.does(&promise(2, 1)) && node.does(&promise(2, 1)));
    let mut newcomer = Node::blank();
    newcomer.does(&identify("run", 4, 1));
    assert!(!newcomer.does(&promise(1, 1)));
    let ballot = Ballot { round: 1, bits: 0 };
    let seat = Promise { generation: 1, ballot };
    assert!(newcomer.does(&RosterCommand::Promise { promise: seat, electorate: Electorate::Seats }));
}

#[test]
fn a_higher_ballot_wins_and_a_lower_one_is_refused() {
    let (mut node, next) = (Node::voting(&first()), first().successor(&with(3, 4)).unwrap());
    assert!(node.does(&promise(2, 2)) && !node.does(&promise(2, 1)));
    assert!(!node.does(&accept(&next, 1)) && !node.does(&accept(&next, 3)), "not promised");
    assert!(node.does(&accept(&next, 2)));
    assert!(node.does(&promise(2, 3)) && !node.does(&accept(&next, 2)));
    assert!(node.stored().accepted.is_some());
}

#[test]
fn accepting_a_successor_changes_nothing_for_locks() {
    let mut node = Node::voting(&first());
    let epoch = node.stored().epoch();
    node.does(&promise(2, 1));
    node.does(&accept(&first().successor(&with(3, 4)).unwrap(), 1));
    assert_eq!(node.stored().epoch(), epoch);
    assert!(matches!(node.asks(&mut Record::default(), epoch), Vote::Grant { .. }));
}

#[test]
fn a_new_roster_refuses_the_old_epoch_with_its_own_reason_and_keeps_votes() {
    let (mut node, mut record) = (Node::voting(&first()), Record::default());
    let epoch = node.stored().epoch();
    node.asks(&mut record, epoch);
    node.does(&install(&first().successor(&with(3, 4)).unwrap()));
    assert_eq!(node.asks(&mut record, epoch), Vote::Refusal(Refusal::NewRoster));
    assert!(record.vote.is_some() && node.stored().is_voting());
    assert!(matches!(node.asks(&mut record, node.stored().epoch()), Vote::Grant { .. }));
    let other = Epoch::of(Life(99), 2);
    assert_eq!(node.asks(&mut record, other), Vote::Refusal(Refusal::WrongEpoch), "another life");
}

#[test]
fn a_newcomer_is_quarantined_by_the_generation_that_it_joined() {
    let (mut node, second) = (Node::blank(), first().successor(&with(3, 4)).unwrap());
    let third = second.successor(&with(2, 5)).unwrap();
    node.does(&identify("run", 4, 1));
    node.does(&install(&third));
    let quarantine = node.stored().quarantine.unwrap();
    assert_eq!((quarantine.since, quarantine.micros), (2, 1_100_000), "it skipped the second generation");
    assert!(!node.stored().is_voting());
}

#[test]
fn a_node_keeps_the_highest_claim_and_never_adds() {
    let mut node = Node::blank();
    node.does(&identify("run", 1, 1));
    node.does(&install(&first()));
    for millis in [600, 500, 600] {
        assert!(node.does(&claim(1, millis)));
    }
    assert_eq!(node.stored().quarantine.unwrap().elapsed_micros, 600_000);
    assert!(node.does(&claim(1, 1_100)) && node.stored().is_voting());
}

#[test]
fn a_claim_for_an_earlier_quarantine_of_the_same_life_is_refused() {
    let mut node = Node::voting(&first());
    let alone = Change { remove: [2, 3].map(MemberId).into(), ..Change::default() };
    node.does(&install(&first().successor(&alone).unwrap()));
    assert!(!node.stored().is_voting(), "from three to one, every member is quarantined");
    assert!(!node.does(&claim(1, 1_100)));
    assert!(node.does(&claim(2, 1_100)) && node.stored().is_voting());
}

#[test]
fn a_node_that_left_neither_votes_nor_keeps_its_id() {
    let mut node = Node::voting(&first());
    node.does(&install(&first().successor(&with(1, 4)).unwrap()));
    assert_eq!((node.stored().member, node.stored().former), (None, Some(MemberId(1))));
    assert!(!node.stored().is_voting());
    node.does(&identify("run", 9, 9));
    assert_eq!((node.stored().member, node.stored().former), (Some(MemberId(9)), Some(MemberId(1))));
}

#[test]
fn rosters_only_go_forward() {
    let (mut node, second) = (Node::voting(&first()), first().successor(&with(3, 4)).unwrap());
    assert!(node.does(&install(&second)) && node.does(&install(&second)) && !node.does(&install(&first())));
    let foreign = Roster { cluster: ClusterId(8), generation: 9, ..second };
    assert!(!node.does(&install(&foreign)));
}

#[test]
fn a_change_of_one_member_keeps_the_others_votes_and_a_larger_one_does_not() {
    let one = Change { add: seats(&[4]), ..Change::default() };
    let since = |roster: &Roster| roster.members.iter().map(|member| member.since).collect::<Vec<_>>();
    assert_eq!(since(&first().successor(&one).unwrap()), [1, 1, 1, 2]);
    let two = Change { add: seats(&[4, 5]), ..Change::default() };
    assert_eq!(since(&first().successor(&two).unwrap()), [2, 2, 2, 2, 2]);
    let template = Settings { key_template: "x:{}".into(), ..settings() };
    let renamed = Change { settings: Some(template), ..Change::default() };
    assert_eq!(since(&first().successor(&renamed).unwrap()), [2, 2, 2]);
}

#[test]
fn impossible_changes_are_refused() {
    let to_two = Change { remove: [MemberId(1)].into(), ..Change::default() };
    assert_eq!(first().successor(&to_two), Err(ChangeError::Number(crate::quorum::QuorumError::Two)));
    let stranger = Change { remove: [MemberId(9)].into(), ..Change::default() };
    assert_eq!(first().successor(&stranger), Err(ChangeError::NoMember(MemberId(9))));
    let twice = Change { add: [(MemberId(9), address(1))].into(), ..Change::default() };
    assert!(matches!(first().successor(&twice), Err(ChangeError::Twice(_))));
    let change = Change { add: [(MemberId(9), "two\nlines".into())].into(), ..Change::default() };
    assert_eq!(first().successor(&change), Err(ChangeError::ControlCharacter("two\nlines".into())));
    let short = Settings { max_ttl_millis: 899, ..settings() };
    let change = Change { settings: Some(short), ..Change::default() };
    assert_eq!(first().successor(&change), Err(ChangeError::ShortTtl { max_ttl_millis: 899 }));
}

#[test]
fn a_shorter_max_ttl_does_not_shorten_the_next_quarantine() {
    let shorter = Settings { max_ttl_millis: 900, ..settings() };
    let second = first().successor(&Change { settings: Some(shorter), ..Change::default() }).unwrap();
    let third = second.successor(&with(3, 4)).unwrap();
    assert_eq!((second.longest_ttl_millis, third.longest_ttl_millis), (1_000, 1_000));
}

#[test]
fn a_broken_lease_of_earlier_settings_cannot_come_back() {
    let shorter = Settings { max_ttl_millis: 900, ..settings() };
    let second = first().successor(&Change { settings: Some(shorter), ..Change::default() }).unwrap();
    let (mut node, mut record) = (Node::voting(&first()), Record::default());
    node.asks(&mut record, node.stored().epoch());
    node.does(&install(&second));
    let (attempt, epoch) = (LeaseId::from_bits(1), node.stored().epoch());
    let target = Target::Fence(record.fence.as_ref().unwrap().fence);
    let request = Request::Break { target, mode: BreakMode::Now };
    vote(node.stored(), &mut record, &request, epoch, NOW, |_| false);
    assert_eq!(record.tombstones.get(&attempt), Some(&(NOW.life_millis + 1_000)), "the longest ttl of the lease");
}
