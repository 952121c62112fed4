//! What a client believes, plans and proposes.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::node::roster::{
    Ballot, ClusterId, Life, Promise, Proposal, RosterAnswer, RosterCommand, Settings, apply_roster,
};
use crate::node::{Identity, NodeTime};
use crate::quorum::Elector;
use crate::testing::{CountingRng, at, ms};

const NOW: NodeTime = NodeTime { wall_micros: 10_000_000, life_millis: 10_000 };

fn settings() -> Settings {
    Settings { max_ttl_millis: 1_000, max_skew_micros: 300_000, key_template: "".into(), trusts_restarts: false }
}

fn address(server: usize) -> Arc<str> {
    server.to_string().into()
}

fn addresses(servers: &[usize]) -> Vec<Arc<str>> {
    servers.iter().map(|server| address(*server)).collect()
}

fn id(server: usize) -> MemberId {
    MemberId(server as u128)
}

fn first() -> Arc<Roster> {
    let seats = (0..3).map(|server| (id(server), address(server))).collect();
    Arc::new(Roster::of_every_seat(ClusterId(7), 1, seats, settings(), None).unwrap())
}

fn second() -> Arc<Roster> {
    Arc::new(first().successor(&Change::replace(id(2), id(3), address(3))).unwrap())
}

fn ballot(round: u64, bits: u64) -> Ballot {
    Ballot { round, bits }
}

/// Servers, each of which may be a member.
struct Servers(Vec<Option<Membership>>);

impl Servers {
    /// Blank servers with ids.
    fn blank(count: usize) -> Self {
        let blank = |server| Membership::new(Identity::of_run("run"), id(server), Life(server as u64));
        Self((0..count).map(blank).map(Some).collect())
    }

    /// Four servers, of which the first three are settled members.
    fn settled() -> Self {
        let mut servers = Self::blank(4);
        for server in 0..3 {
            servers.command(server, &RosterCommand::Install(first()));
            servers.command(server, &RosterCommand::Settle { generation: 1 });
            let life = Life(server as u64);
            servers.command(server, &RosterCommand::Claim { life, since: 1, elapsed_micros: 1_100_000 });
        }
        servers
    }

    fn command(&mut self, server: usize, command: &RosterCommand) -> RosterAnswer {
        apply_roster(&mut self.0[server], command, NOW)
    }

    /// A server that restarted empty, with a fresh id.
    fn crash(&mut self, server: usize, fresh: usize) {
        self.0[server] = Some(Membership::new(Identity::of_run("run2"), id(fresh), Life(fresh as u64)));
    }

    fn reports(&self, servers: &[usize]) -> Vec<Option<&Membership>> {
        servers.iter().map(|server| self.0[*server].as_ref()).collect()
    }

    fn view(&self, servers: &[usize]) -> View {
        let mut view = View::new();
        view.learn(self.reports(servers).into_iter().flatten(), servers.len(), at(0)).unwrap();
        view
    }

    /// Sends a proposer's current commands to these servers.
    fn send(&mut self, proposer: &mut Proposer, list: &[usize], to: &[usize]) {
        for server in to {
            let position = list.iter().position(|listed| listed == server).unwrap();
            if let Some(command) = proposer.command(position) {
                proposer.take(position, &self.command(*server, &command));
            }
        }
    }
}

fn replacing(round: u64, bits: u64) -> Proposer {
    Proposer::among_members(first(), Some(second()), ballot(round, bits), 4)
}

const ALL: &[usize] = &[0, 1, 2, 3];

#[test]
fn a_majority_of_the_members_decides_and_all_install() {
    let (mut servers, mut proposer) = (Servers::settled(), replacing(1, 0));
    servers.send(&mut proposer, ALL, &[3, 0]);
    assert!(proposer.decided().is_none(), "a server that is no member does not count");
    servers.send(&mut proposer, ALL, &[1]);
    servers.send(&mut proposer, ALL, &[0, 1]);
    assert_eq!(proposer.decided(), Some(&second()));
    servers.send(&mut proposer, ALL, ALL);
    assert_eq!(proposer.end(), Some(&End::Installed(second())));
    let view = servers.view(ALL);
    assert!(view.generation() == 2 && view.settled().is_some());
}

#[test]
fn a_later_proposer_finishes_what_was_accepted() {
    let (mut servers, mut dead) = (Servers::settled(), replacing(1, 0));
    servers.send(&mut dead, ALL, &[0, 1]);
    servers.send(&mut dead, ALL, &[0]);
    let view = servers.view(&[0, 1, 2]);
    assert_eq!(view.plan(&addresses(&[0, 1, 2]), &servers.reports(&[0, 1, 2])), Plan::Finish);
    let mut heir = Proposer::among_members(first(), None, ballot(2, 0), 3);
    for _ in 0..2 {
        servers.send(&mut heir, &[0, 1, 2], &[0, 2]);
    }
    assert_eq!(heir.decided(), Some(&second()));
}

#[test]
fn a_lower_ballot_is_outbid_and_learns_the_round() {
    let (mut servers, mut slow) = (Servers::settled(), replacing(1, 0));
    servers.send(&mut slow, ALL, &[0, 1]);
    servers.send(&mut replacing(5, 0), ALL, &[0]);
    servers.send(&mut slow, ALL, &[0]);
    assert_eq!(slow.end(), Some(&End::Stopped(Stop::Outbid { round: 5 })));
    servers.command(0, &RosterCommand::Install(second()));
    let mut late = replacing(9, 0);
    servers.send(&mut late, ALL, &[0]);
    assert_eq!(late.end(), Some(&End::Stopped(Stop::Superseded)));
}

#[test]
fn a_proposer_without_a_value_that_finds_nothing_stops() {
    let (mut servers, mut idle) = (Servers::settled(), Proposer::among_members(first(), None, ballot(1, 0), 4));
    servers.send(&mut idle, ALL, ALL);
    assert_eq!(idle.end(), Some(&End::Stopped(Stop::Idle)));
}

fn founder(servers: &Servers, list: &[usize], bits: u64) -> Proposer {
    let reports: Vec<&Membership> = servers.reports(list).into_iter().flatten().collect();
    let founding = (ClusterId(u128::from(bits)), settings());
    Proposer::among_seats(addresses(list), &reports, founding, ballot(1, bits)).unwrap()
}

#[test]
fn every_seat_founds_a_cluster() {
    let (mut servers, list) = (Servers::blank(4), &[0, 1, 2]);
    let view = servers.view(list);
    assert_eq!(view.plan(&addresses(list), &servers.reports(list)), Plan::EverySeat);
    assert_eq!(view.plan(&addresses(list), &[None, None, None]), Plan::Idle, "not all were reached");
    let mut proposer = founder(&servers, list, 1);
    servers.send(&mut proposer, list, &[0, 1]);
    servers.send(&mut proposer, list, &[0, 1]);
    assert!(proposer.decided().is_none() && proposer.needs_every_seat());
    for _ in 0..3 {
        servers.send(&mut proposer, list, list);
    }
    assert!(matches!(proposer.end(), Some(End::Installed(roster)) if roster.before.is_empty()));
    assert!(servers.view(list).settled().is_some() && servers.0.iter().flatten().all(|node| !node.is_voting()));
}

#[test]
fn a_founding_with_the_same_seats_is_adopted_and_another_one_stops() {
    let mut servers = Servers::blank(4);
    let mut dead = founder(&servers, &[0, 1, 2], 1);
    servers.send(&mut dead, &[0, 1, 2], &[0, 1, 2]);
    servers.send(&mut dead, &[0, 1, 2], &[0]);
    let mut other = founder(&servers, &[0, 1, 3], 2);
    servers.send(&mut other, &[0, 1, 3], &[0, 1, 3]);
    assert!(matches!(other.end(), Some(End::Stopped(Stop::OtherFounding(roster))) if roster.cluster == ClusterId(1)));
    let mut same = founder(&servers, &[0, 1, 2], 3);
    for _ in 0..2 {
        servers.send(&mut same, &[0, 1, 2], &[0, 1, 2]);
    }
    assert_eq!(same.decided().unwrap().cluster, ClusterId(1));
}

#[test]
fn every_seat_needs_exactly_the_addresses_of_the_roster() {
    let mut servers = Servers::settled();
    servers.crash(0, 10);
    servers.crash(1, 11);
    let list = &[0, 1, 2];
    let view = servers.view(&[2, 2, 2]);
    assert_eq!(view.plan(&addresses(list), &servers.reports(list)), Plan::EverySeat);
    let reports: Vec<&Membership> = servers.reports(&[1, 2, 3]).into_iter().flatten().collect();
    let founding = (ClusterId(9), settings());
    assert!(Proposer::among_seats(addresses(&[1, 2, 3]), &reports, founding, ballot(1, 1)).is_none());
    let mut proposer = founder(&servers, list, 1);
    for _ in 0..3 {
        servers.send(&mut proposer, list, list);
    }
    let roster = proposer.decided().unwrap();
    assert_eq!((roster.cluster, roster.generation), (ClusterId(7), 2));
    assert!(servers.0[..3].iter().flatten().all(|node| node.quarantine.is_some()), "all are quarantined");
}

#[test]
fn a_server_that_lost_its_memory_is_replaced_at_its_address() {
    let mut servers = Servers::settled();
    servers.crash(2, 12);
    let list = &[0, 1, 2];
    let plan = servers.view(list).plan(&addresses(list), &servers.reports(list));
    assert_eq!(plan, Plan::Replace(Change::replace(id(2), id(12), address(2))));
    let plan = servers.view(list).plan(&addresses(&[0, 1, 3]), &servers.reports(&[0, 1, 3]));
    assert_eq!(plan, Plan::Idle, "the roster does not name that address");
}

#[test]
fn a_member_that_is_behind_is_brought_up_first() {
    let mut servers = Servers::settled();
    servers.command(0, &RosterCommand::Install(second()));
    let view = servers.view(ALL);
    assert_eq!(view.plan(&addresses(ALL), &servers.reports(ALL)), Plan::Install([1, 2, 3].into()));
}

#[test]
fn one_report_is_enough_unless_nodes_belong_to_several_clusters() {
    let mut servers = Servers::settled();
    let mut view = servers.view(&[0, 3, 3]);
    assert_eq!(view.generation(), 1);
    servers.command(0, &RosterCommand::Install(second()));
    assert_eq!(view.learn(servers.reports(&[0]).into_iter().flatten(), 3, at(1)), Ok(true));
    assert_eq!(view.generation(), 2);
    let foreign = Roster { cluster: ClusterId(8), ..(*first()).clone() };
    servers.command(3, &RosterCommand::Install(Arc::new(foreign)));
    assert_eq!(servers.view(&[1, 3]).generation(), 0, "neither cluster has two of two");
    assert_eq!(servers.view(&[1, 2, 3]).roster(), Some(&first()));
}

#[test]
fn a_generation_is_settled_when_a_majority_of_the_one_before_has_moved() {
    let mut servers = Servers::settled();
    let mut view = servers.view(ALL);
    view.believe(second());
    for (server, is_settled) in [(3, false), (2, false), (0, true)] {
        servers.command(server, &RosterCommand::Install(second()));
        view.learn(servers.reports(&[server]).into_iter().flatten(), 4, at(server as u64)).unwrap();
        assert_eq!(view.settled().is_some(), is_settled, "after server {server}");
    }
    assert!(view.may_count(2) && servers.0[2].as_ref().unwrap().former == Some(id(2)), "who left counts too");
}

#[test]
fn a_node_that_was_told_tells_that_the_generation_is_settled() {
    let mut servers = Servers::settled();
    servers.command(3, &RosterCommand::Install(second()));
    let mut view = servers.view(ALL);
    assert!(view.settled().is_none() && !view.may_count(2) && view.may_count(1));
    servers.command(3, &RosterCommand::Settle { generation: 2 });
    view.learn(servers.reports(&[3]).into_iter().flatten(), 4, at(5)).unwrap();
    assert_eq!(view.settled(), Some(at(5)));
}

#[test]
fn two_rosters_of_one_generation_are_refused() {
    let mut servers = Servers::settled();
    let other = first().successor(&Change::replace(id(1), id(3), address(3))).unwrap();
    servers.command(0, &RosterCommand::Install(second()));
    servers.command(1, &RosterCommand::Install(Arc::new(other)));
    assert!(View::new().learn(servers.reports(ALL).into_iter().flatten(), 4, at(0)).is_err());
}

#[test]
fn a_vote_counts_unless_its_node_has_a_newer_roster_than_the_client() {
    let mut servers = Servers::settled();
    let elector = |servers: &Servers, at: usize| servers.0[at].as_ref().unwrap().elector();
    let counts = |view: &View, elector: Option<Elector>| view.electors(4).unwrap().counts(elector.unwrap());
    let old = servers.view(&[0, 1, 2]);
    assert!(counts(&old, elector(&servers, 0)));
    servers.command(0, &RosterCommand::Install(second()));
    assert!(!counts(&old, elector(&servers, 0)), "the client must learn first");
    let mut new = old.clone();
    new.believe(second());
    assert!(counts(&new, elector(&servers, 0)));
    assert!(counts(&new, elector(&servers, 1)), "no other client can have a majority with its vote");
    assert!(!counts(&new, elector(&servers, 2)), "it has left");
    servers.command(3, &RosterCommand::Install(second()));
    assert_eq!(elector(&servers, 3), None, "quarantined");
}

#[test]
fn votes_from_before_a_quarantine_do_not_count() {
    let alone = Change { remove: [id(1), id(2)].into(), ..Change::default() };
    let mut view = View::new();
    view.believe(Arc::new(first().successor(&alone).unwrap()));
    let counts = |generation| view.electors(3).unwrap().counts(Elector { member: id(0), generation });
    assert!(!counts(1), "its vote was for a majority of three");
    assert!(counts(2));
}

#[test]
fn a_change_of_the_number_waits_until_earlier_leases_are_over() {
    let view = Servers::settled().view(&[0, 1, 2]);
    let grow = Change { add: [(id(3), address(3))].into(), ..Change::default() };
    assert_eq!(view.successor(&grow, at(1_099)), Err(ChangeError::TooEarly));
    assert_eq!(view.successor(&grow, at(1_100)).unwrap().members.len(), 4);
    assert!(view.successor(&Change::replace(id(2), id(3), address(3)), at(0)).is_ok());
    let mut unsettled = View::new();
    unsettled.believe(second());
    assert_eq!(unsettled.successor(&grow, at(9_999)), Err(ChangeError::Unsettled));
}

#[test]
fn equal_rounds_are_ordered_by_their_random_bits() {
    let promise = |bits| Promise { generation: 2, ballot: ballot(1, bits) };
    assert!(promise(1) < promise(2) && Promise { generation: 3, ballot: ballot(0, 0) } > promise(2));
    let proposal = Proposal { ballot: ballot(1, 1), roster: second() };
    assert_eq!(proposal.promise(), promise(1));
}

#[test]
fn a_lost_duel_doubles_the_wait() {
    let mut duel = Duel::default();
    let first = duel.delay(&mut CountingRng::high());
    assert!(first <= DUEL_DELAY && first > ms(1_999));
    (0..9).for_each(|_| duel.lost());
    assert!(duel.delay(&mut CountingRng::high()) <= DUEL_DELAY_MAX && duel.delay(&mut CountingRng::low()) < ms(1));
}
