//! Holders and waiters whose processes are dead. The tests use a process that does not exist: pid 1 with start time 1.

use quorlock_core::name::OwnerId;
use quorlock_core::request::{BreakMode, Target};
use quorlock_testkit::eventually;

use super::*;

const REALM: &str = "here";
const DEAD: &str = "1@1";
const FIRST: Ticket = Ticket { at: 1, id: 0 };
const SECOND: Ticket = Ticket { at: 2, id: 0 };
const THIRD: Ticket = Ticket { at: 3, id: 0 };

/// Returns this process, which runs.
fn own_process() -> String {
    let own = Processes::read(true, &[]).unwrap();
    own.list().unwrap().split_once(' ').unwrap().1.into()
}

impl TestFile {
    /// Opens a session whose leases these processes keep alive. With `None`, its rows list no processes.
    fn client(&self, channel: u128, processes: Option<&str>) -> TestListener {
        self.listener_with(Channel(channel), Processes::fake(REALM, processes))
    }

    /// Opens a session whose leases only a dead process keeps alive.
    fn dead_client(&self, channel: u128) -> TestListener {
        self.client(channel, Some(DEAD))
    }

    /// Opens a session whose leases a running process keeps alive.
    fn living_client(&self, channel: u128) -> TestListener {
        self.client(channel, Some(&own_process()))
    }
}

#[test]
fn the_lock_of_a_dead_holder_is_granted_with_a_higher_fence() {
    let test_file = TestFile::new();
    let [mut dead_client, mut next_client] = [test_file.dead_client(1), test_file.living_client(2)];
    let first = granted(&dead_client.session.acquire("a", 1));
    let second = granted(&next_client.session.acquire("a", 2));
    assert!(second > first);
    assert!(is_held(&dead_client.session.acquire("a", 3)), "the next session holds the lock");
    assert_eq!(
        vote_of(&mut dead_client, renew(1)),
        Vote::Refusal(Refusal::Tombstoned),
        "a late renewal of the dead holder"
    );
}

#[test]
fn a_holder_keeps_its_lock_unless_all_its_processes_are_provably_dead() {
    let elsewhere = Processes::fake("elsewhere", Some(DEAD));
    let test_file = TestFile::new();
    let mut next_client = test_file.living_client(1);
    let dead_and_alive = format!("{DEAD} {}", own_process());
    for processes in [Some(own_process().as_str()), Some(&dead_and_alive), None] {
        let name = processes.unwrap_or("no list");
        granted(&test_file.client(2, processes).session.acquire(name, 1));
        assert!(is_held(&next_client.session.acquire(name, 2)), "{name}");
    }
    granted(&test_file.listener_with(Channel(3), elsewhere).session.acquire("elsewhere", 1));
    assert!(is_held(&next_client.session.acquire("elsewhere", 2)), "a process of another boot or namespace");
    granted(&test_file.dead_client(4).session.acquire("a", 3));
    assert!(
        is_held(&test_file.listener(Channel(5)).session.acquire("a", 4)),
        "the client that asks does not know its own realm"
    );
    granted(&next_client.session.acquire("a", 5));
}

#[test]
fn a_renewal_by_another_process_does_not_replace_the_list_of_processes() {
    let test_file = TestFile::new();
    let [mut holder, mut other, mut next_client] =
        [test_file.living_client(1), test_file.dead_client(2), test_file.living_client(3)];
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    granted(&holder.session.acquire("a", 1));
    granted(&holder.session.ask("b", acquire_as(1, reads, None)));
    test_file.clock.pass(1_000);
    granted(&vote_of(&mut other, renew(1)));
    assert!(is_held(&next_client.session.acquire("a", 2)));
    granted(&other.session.ask("b", renew_as(1, reads)));
    assert!(is_held(&next_client.session.acquire("b", 2)));
}

#[test]
fn a_renewal_may_extend_but_not_shorten_the_list_of_processes() {
    let test_file = TestFile::new();
    let [mut holder, mut next_client] = [test_file.dead_client(1), test_file.living_client(2)];
    let mut client_with_longer_list = test_file.client(3, Some(&format!("{DEAD} {}", own_process())));
    let mut client_with_shorter_list = test_file.dead_client(4);
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    for name in ["a", "b"] {
        let mode = if name == "a" { Mode::EXCLUSIVE } else { reads };
        granted(&holder.session.ask(name, acquire_as(1, mode, None)));
        for client in [&mut client_with_longer_list, &mut client_with_shorter_list] {
            test_file.clock.pass(1_000);
            granted(&client.session.ask(name, renew_as(1, mode)));
            assert!(
                is_held(&next_client.session.acquire(name, 2)),
                "{name}: a renewal removes no process from the list"
            );
        }
    }
}

#[test]
fn the_death_of_the_client_that_broke_a_lease_does_not_free_the_lock() {
    let test_file = TestFile::new();
    let [mut holder, mut other, mut next_client] =
        [test_file.living_client(1), test_file.dead_client(2), test_file.living_client(3)];
    let Vote::Grant { fence, .. } = vote_of(&mut holder, acquire_as(1, Mode::EXCLUSIVE, None)) else {
        panic!("a free lock was not granted");
    };
    let request = Request::Break { target: Target::Fence(fence), mode: BreakMode::Drain };
    assert!(matches!(vote_of(&mut other, request), Vote::Broken { stood: true, .. }));
    assert!(is_held(&next_client.session.acquire("a", 2)));
}

#[test]
fn a_plain_lock_of_a_dead_holder_is_granted() {
    let test_file = TestFile::new();
    let plain = |attempt| Request::PlainAcquire { attempt: LeaseId::from_bits(attempt), ttl: ttl(30_000) };
    let [mut dead_client, mut next_client] = [test_file.dead_client(1), test_file.living_client(2)];
    granted(&dead_client.session.ask("a", plain(1)));
    granted(&next_client.session.ask("a", plain(2)));
    assert!(is_held(&dead_client.session.ask("a", plain(3))));
}

#[test]
fn each_entry_is_removed_when_its_own_process_is_dead() {
    let test_file = TestFile::new();
    let [mut dead_client, mut living_client, mut next_client] =
        [test_file.dead_client(1), test_file.living_client(2), test_file.living_client(3)];
    let reads = Mode::Shared { owner: OwnerId::from_bits(7), reenters: false };
    let slot = Mode::Slot { permits: 2, slot: 0 };
    let owner = Mode::Reentrant { owner: OwnerId::from_bits(8) };
    for (name, mode, attempt) in [("read", reads, 11), ("slot", slot, 12), ("owner", owner, 13)] {
        granted(&dead_client.session.ask(name, acquire_as(attempt, mode, None)));
        granted(&living_client.session.ask(name, acquire_as(2, mode, None)));
        assert!(is_held(&next_client.session.acquire(name, 3)), "{name}: one holder runs");
    }
    assert_eq!(test_file.count("entry"), 3);
    granted(&next_client.session.ask("slot", acquire_as(3, slot, None)));
    for name in ["read", "owner"] {
        granted(&living_client.session.ask(name, release(2)));
        granted(&next_client.session.acquire(name, 3));
    }
    for attempt in [21, 22] {
        granted(&dead_client.session.ask("all dead", acquire_as(attempt, owner, None)));
    }
    granted(&next_client.session.acquire("all dead", 3));
}

#[test]
fn dead_waiters_at_the_head_of_the_queue_are_skipped() {
    let test_file = TestFile::new();
    let [mut holder, mut dead_client, mut next_client] =
        [test_file.living_client(1), test_file.dead_client(2), test_file.living_client(3)];
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&dead_client.queue("a", 2, FIRST)));
    assert!(is_held(&dead_client.queue("a", 3, SECOND)));
    assert_eq!(position_of(&next_client.queue("a", 4, THIRD)), Some(1), "its position does not count the dead waiters");
    granted(&holder.session.ask("a", release(1)));
    granted(&next_client.queue("a", 4, THIRD));
    assert_eq!(test_file.count("waiter"), 0);
}

#[test]
fn the_first_waiter_gets_a_hint_when_the_holder_is_found_dead() {
    let test_file = TestFile::new();
    let [mut dead_client, mut first, mut second] =
        [test_file.dead_client(1), test_file.living_client(2), test_file.living_client(3)];
    granted(&dead_client.session.acquire("held", 1));
    // The waiter enters the queue before the holder is dead.
    test_file.connect().execute("UPDATE record SET processes = NULL", []).unwrap();
    assert!(is_held(&first.queue("held", 2, FIRST)));
    test_file.connect().execute("UPDATE record SET processes = ?1", [format!("{REALM} {DEAD}")]).unwrap();
    assert!(matches!(second.queue("held", 3, SECOND), Vote::Refusal(Refusal::Behind { .. })));
    eventually("the first waiter gets a hint", || first.hints.try_recv().is_ok_and(|(ticket, _)| ticket == FIRST));
    granted(&first.queue("held", 2, FIRST));
}

#[test]
fn an_inspection_omits_dead_holders_and_changes_nothing() {
    let test_file = TestFile::new();
    let [mut dead_client, mut next_client] = [test_file.dead_client(1), test_file.living_client(2)];
    granted(&dead_client.session.acquire("a", 1));
    match next_client.session.ask("a", Request::Inspect) {
        Vote::Report(report) => assert_eq!(report.held, None),
        other => panic!("{other:?}"),
    }
    assert_eq!((test_file.count("record WHERE vote IS NOT NULL"), test_file.count("tombstone")), (1, 0));
}

#[test]
fn a_malformed_list_of_processes_is_reported_as_damage() {
    let test_file = TestFile::new();
    granted(&test_file.dead_client(1).session.acquire("a", 1));
    test_file.connect().execute("UPDATE record SET processes = 'x'", []).unwrap();
    let answer = test_file.living_client(2).session.send(vec![message("a", acquire(2))]);
    assert!(matches!(&answer, Err(Trouble::Broken(why)) if why.contains("processes")), "{answer:?}");
}

fn vote_of(client: &mut TestListener, request: Request) -> Vote {
    client.session.ask("a", request)
}

fn renew(attempt: u128) -> Request {
    renew_as(attempt, Mode::EXCLUSIVE)
}

fn renew_as(attempt: u128, mode: Mode) -> Request {
    let (attempt, fence, ttl) = (LeaseId::from_bits(attempt), Fence::default(), ttl(30_000));
    Request::Renew { attempt, fence, ttl, repair: false, holder: holder(), mode }
}

fn position_of(vote: &Vote) -> Option<u32> {
    match vote {
        Vote::Refusal(Refusal::Held { queue, .. } | Refusal::Behind { queue, .. }) => queue.position,
        other => panic!("not refused: {other:?}"),
    }
}
