//! Holders and waiters whose processes are gone, made up: the first process of the machine did not start at 1.

use quorlock_core::name::OwnerId;
use quorlock_core::request::{BreakMode, Target};
use quorlock_testkit::eventually;

use super::*;

const REALM: &str = "here";
const GONE: &str = "1@1";
const FIRST: Ticket = Ticket { at: 1, id: 0 };
const SECOND: Ticket = Ticket { at: 2, id: 0 };
const THIRD: Ticket = Ticket { at: 3, id: 0 };

/// A process that runs: this one.
fn alive() -> String {
    let own = Processes::read(true, &[]).unwrap();
    own.behind().unwrap().split_once(' ').unwrap().1.into()
}

impl Ground {
    fn client(&self, channel: u128, behind: Option<&str>) -> Listening {
        self.listener_of(Channel(channel), Processes::made_up(REALM, behind))
    }

    fn dead(&self, channel: u128) -> Listening {
        self.client(channel, Some(GONE))
    }

    fn living(&self, channel: u128) -> Listening {
        self.client(channel, Some(&alive()))
    }
}

#[test]
fn a_dead_holder_is_out_of_the_way_and_the_fence_grows() {
    let ground = Ground::new();
    let [mut dead, mut next] = [ground.dead(1), ground.living(2)];
    let first = granted(&dead.session.acquire("a", 1));
    let second = granted(&next.session.acquire("a", 2));
    assert!(second > first);
    assert!(is_held(&dead.session.acquire("a", 3)), "and the next session has it");
    assert_eq!(vote_of(&mut dead, renew(1)), Vote::Refusal(Refusal::Tombstoned), "what it still had under way");
}

#[test]
fn who_lives_or_is_not_known_to_be_dead_keeps_its_lock() {
    let elsewhere = Processes::made_up("elsewhere", Some(GONE));
    let ground = Ground::new();
    let mut next = ground.living(1);
    let with_guardian = format!("{GONE} {}", alive());
    for behind in [Some(alive().as_str()), Some(&with_guardian), None] {
        let name = behind.unwrap_or("nobody said");
        granted(&ground.client(2, behind).session.acquire(name, 1));
        assert!(is_held(&next.session.acquire(name, 2)), "{name}");
    }
    granted(&ground.listener_of(Channel(3), elsewhere).session.acquire("elsewhere", 1));
    assert!(is_held(&next.session.acquire("elsewhere", 2)), "of another boot or namespace");
    granted(&ground.dead(4).session.acquire("a", 3));
    assert!(is_held(&ground.listener(Channel(5)).session.acquire("a", 4)), "the asker does not know where it is");
    granted(&next.session.acquire("a", 5));
}

#[test]
fn a_renewal_by_another_process_says_nothing_about_who_holds() {
    let ground = Ground::new();
    let [mut holder, mut passing, mut next] = [ground.living(1), ground.dead(2), ground.living(3)];
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    granted(&holder.session.acquire("a", 1));
    granted(&holder.session.ask("b", asking(1, reads, None)));
    ground.clock.pass(1_000);
    granted(&vote_of(&mut passing, renew(1)));
    assert!(is_held(&next.session.acquire("a", 2)));
    granted(&passing.session.ask("b", renew_as(1, reads)));
    assert!(is_held(&next.session.acquire("b", 2)));
}

#[test]
fn a_renewal_adds_processes_to_the_list_that_it_began_with() {
    let ground = Ground::new();
    let [mut holder, mut next] = [ground.dead(1), ground.living(2)];
    let mut grown = ground.client(3, Some(&format!("{GONE} {}", alive())));
    let mut shorter = ground.dead(4);
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    for name in ["a", "b"] {
        let mode = if name == "a" { Mode::EXCLUSIVE } else { reads };
        granted(&holder.session.ask(name, asking(1, mode, None)));
        for session in [&mut grown, &mut shorter] {
            ground.clock.pass(1_000);
            granted(&session.session.ask(name, renew_as(1, mode)));
            assert!(is_held(&next.session.acquire(name, 2)), "{name}: nothing is taken off the list either");
        }
    }
}

#[test]
fn the_death_of_whoever_broke_a_lease_frees_nothing() {
    let ground = Ground::new();
    let [mut holder, mut passing, mut next] = [ground.living(1), ground.dead(2), ground.living(3)];
    let Vote::Grant { fence, .. } = vote_of(&mut holder, asking(1, Mode::EXCLUSIVE, None)) else {
        panic!("it is free");
    };
    let request = Request::Break { target: Target::Fence(fence), mode: BreakMode::Drain };
    assert!(matches!(vote_of(&mut passing, request), Vote::Broken { stood: true, .. }));
    assert!(is_held(&next.session.acquire("a", 2)));
}

#[test]
fn a_plain_lock_of_a_dead_holder_is_free() {
    let ground = Ground::new();
    let plain = |attempt| Request::PlainAcquire { attempt: LeaseId::from_bits(attempt), ttl: ttl(30_000) };
    let [mut dead, mut next] = [ground.dead(1), ground.living(2)];
    granted(&dead.session.ask("a", plain(1)));
    granted(&next.session.ask("a", plain(2)));
    assert!(is_held(&dead.session.ask("a", plain(3))));
}

#[test]
fn entries_go_one_by_one_with_their_processes() {
    let ground = Ground::new();
    let [mut dead, mut living, mut next] = [ground.dead(1), ground.living(2), ground.living(3)];
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    let slot = Mode::Slot { permits: 2, slot: 0 };
    let owner = Mode::Reentrant { owner: OwnerId::from_bits(8) };
    for (name, mode, attempt) in [("read", reads, 11), ("slot", slot, 12), ("owner", owner, 13)] {
        granted(&dead.session.ask(name, asking(attempt, mode, None)));
        granted(&living.session.ask(name, asking(2, mode, None)));
        assert!(is_held(&next.session.acquire(name, 3)), "{name}: one of them lives");
    }
    assert_eq!(ground.count("entry"), 3);
    granted(&next.session.ask("slot", asking(3, slot, None)));
    for name in ["read", "owner"] {
        granted(&living.session.ask(name, release(2)));
        granted(&next.session.acquire(name, 3));
    }
    for attempt in [21, 22] {
        granted(&dead.session.ask("all dead", asking(attempt, owner, None)));
    }
    granted(&next.session.acquire("all dead", 3));
}

#[test]
fn the_dead_at_the_head_of_the_queue_are_skipped() {
    let ground = Ground::new();
    let [mut holder, mut dead, mut next] = [ground.living(1), ground.dead(2), ground.living(3)];
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&dead.queue("a", 2, FIRST)));
    assert!(is_held(&dead.queue("a", 3, SECOND)));
    assert_eq!(place_of(&next.queue("a", 4, THIRD)), Some(1), "it is told its place as if they were gone");
    granted(&holder.session.ask("a", release(1)));
    granted(&next.queue("a", 4, THIRD));
    assert_eq!(ground.count("place"), 0);
}

#[test]
fn the_first_waiter_gets_a_hint_when_the_holder_is_found_dead() {
    let ground = Ground::new();
    let [mut dead, mut first, mut second] = [ground.dead(1), ground.living(2), ground.living(3)];
    granted(&dead.session.acquire("held", 1));
    // In queue before the holder died.
    ground.other().execute("UPDATE record SET processes = NULL", []).unwrap();
    assert!(is_held(&first.queue("held", 2, FIRST)));
    ground.other().execute("UPDATE record SET processes = ?1", [format!("{REALM} {GONE}")]).unwrap();
    assert!(matches!(second.queue("held", 3, SECOND), Vote::Refusal(Refusal::Behind { .. })));
    eventually("a hint", || first.heard.try_recv().is_ok_and(|(ticket, _)| ticket == FIRST));
    granted(&first.queue("held", 2, FIRST));
}

#[test]
fn a_look_shows_what_an_asker_would_find_and_changes_nothing() {
    let ground = Ground::new();
    let [mut dead, mut next] = [ground.dead(1), ground.living(2)];
    granted(&dead.session.acquire("a", 1));
    match next.session.ask("a", Request::Inspect) {
        Vote::Report(report) => assert_eq!(report.held, None),
        other => panic!("{other:?}"),
    }
    assert_eq!((ground.count("record WHERE vote IS NOT NULL"), ground.count("tombstone")), (1, 0));
}

#[test]
fn a_list_that_cannot_be_read_is_damage() {
    let ground = Ground::new();
    granted(&ground.dead(1).session.acquire("a", 1));
    ground.other().execute("UPDATE record SET processes = 'x'", []).unwrap();
    let answer = ground.living(2).session.send(vec![message("a", acquire(2))]);
    assert!(matches!(&answer, Err(Trouble::Broken(why)) if why.contains("processes")), "{answer:?}");
}

fn vote_of(client: &mut Listening, request: Request) -> Vote {
    client.session.ask("a", request)
}

fn renew(attempt: u128) -> Request {
    renew_as(attempt, Mode::EXCLUSIVE)
}

fn renew_as(attempt: u128, mode: Mode) -> Request {
    let (attempt, fence, ttl) = (LeaseId::from_bits(attempt), Fence::default(), ttl(30_000));
    Request::Renew { attempt, fence, ttl, repair: false, holder: holder(), mode }
}

fn place_of(vote: &Vote) -> Option<u32> {
    match vote {
        Vote::Refusal(Refusal::Held { queue, .. } | Refusal::Behind { queue, .. }) => queue.place,
        other => panic!("not refused: {other:?}"),
    }
}
