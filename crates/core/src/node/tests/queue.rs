use super::*;
use crate::request::{ENTRY_LEASE, Parting, WAITERS_MAX};

const X: Mode = Mode::EXCLUSIVE;
const LEASE: u64 = ENTRY_LEASE.as_millis() as u64;

/// The queue of a refusal that says who holds.
fn held(vote: Vote) -> QueuePosition {
    match vote {
        Vote::Refusal(Refusal::Held { queue, .. }) => queue,
        other => panic!("not held: {other:?}"),
    }
}

/// The queue of a refusal that says that others come first.
fn behind(vote: Vote) -> QueuePosition {
    match vote {
        Vote::Refusal(Refusal::Behind { queue, .. }) => queue,
        other => panic!("not behind: {other:?}"),
    }
}

fn place(place: u32, waiting: u32, lower: bool) -> QueuePosition {
    QueuePosition { place: Some(place), waiting, lower }
}

/// A free name with these tickets in the queue.
fn queued(tickets: &[(Mode, u64)]) -> Node {
    let mut node = Node::voted();
    for (mode, ticket) in tickets {
        node.ask(T, &waits(*mode, LeaseId::from_bits(1_000 + u128::from(*ticket)), *ticket));
    }
    node.ask(T, &release(A));
    node
}

#[test]
fn the_lowest_ticket_comes_first_whoever_asks_first() {
    let mut node = Node::voted();
    assert_eq!(held(node.ask(T, &waits(X, B, 20))), place(1, 1, false));
    assert_eq!(held(node.ask(T, &waits(X, C, 10))), place(1, 2, false));
    assert_eq!(held(node.ask(T, &waits(X, D, 30))), place(3, 3, true), "a lower one waits");
    assert_eq!(held(node.ask(T, &waits(X, B, 20))), place(2, 3, true), "asking again takes no other place");
    assert_eq!(node.queue(), [10, 20, 30]);
    node.ask(T, &release(A));
    let refused = node.ask(T, &waits(X, B, 20));
    assert_eq!(refused, Vote::Refusal(Refusal::Behind { fence: Fence::new(CLOCK), queue: place(2, 3, true) }));
    assert_eq!(node.ask(T, &waits(X, C, 10)), granted(CLOCK + 1));
    assert_eq!(node.queue(), [20, 30], "a waiter that is served leaves the queue");
}

#[test]
fn of_tickets_of_one_moment_the_random_part_decides() {
    let mut node = Node::voted();
    let with_id = |attempt, id| {
        let waiter = Waiter { ticket: Ticket { at: 10, id }, ..waiter(X, 10) };
        acquire_as(X, attempt, CLOCK, Some(waiter))
    };
    assert_eq!(held(node.ask(T, &with_id(B, 2))), place(1, 1, false));
    assert_eq!(held(node.ask(T, &with_id(C, 1))), place(1, 2, false));
    node.ask(T, &release(A));
    assert_eq!(behind(node.ask(T, &with_id(B, 2))), place(2, 2, true));
    node.grants(T, &with_id(C, 1));
}

#[test]
fn a_lower_ticket_that_has_the_vote_counts_as_lower_until_it_has_won() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 10));
    assert!(held(node.ask(T, &waits(X, B, 20))).lower);
    assert!(!held(node.ask(T, &waits(X, C, 5))).lower, "a higher one is to yield to us");
    node.grants(T, &renew(A, CLOCK, true));
    assert!(!held(node.ask(T, &waits(X, C, 5))).lower);
    assert_eq!(held(node.ask(T, &waits(X, B, 20))), place(2, 2, true), "though 5 still waits");
    node.ask(T, &leave(C, waiter(X, 5)));
    assert!(!held(node.ask(T, &waits(X, B, 20))).lower, "a holder that renews does not yield");
    let mut node = Node::voted();
    assert!(!held(node.ask(T, &waits(X, B, 20))).lower, "one without a ticket does not wait for others");
}

#[test]
fn a_foreign_vote_does_not_pass_for_that_of_the_last_ticket() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 10));
    node.ask(T, &release(A));
    node.grants(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert!(!held(node.ask(T, &waits(X, C, 20))).lower);
}

#[test]
fn a_vote_of_several_counts_as_lower() {
    for mode in [enters(OWNER), reads(OWNER), slot(1, 0)] {
        let mut node = Node::new();
        node.grants(T, &waits(mode, A, 20));
        assert!(held(node.ask(T, &waits(writes(STRANGER), B, 10))).lower, "{mode:?}");
    }
}

#[test]
fn one_without_a_ticket_does_not_overtake_and_does_not_queue_up() {
    let mut node = queued(&[(X, 10)]);
    let unplaced = QueuePosition { place: None, waiting: 1, lower: false };
    for mode in [X, enters(OWNER), reads(OWNER), slot(1, 0)] {
        assert_eq!(behind(node.ask(T, &acquire_as(mode, B, CLOCK, None))), unplaced, "{mode:?}");
    }
    node.grants(T, &waits(X, C, 10));
    assert_eq!(held(node.ask(T, &acquire(B, CLOCK))), QueuePosition { waiting: 0, ..unplaced });
    assert_eq!(node.queue(), [0; 0]);
}

#[test]
fn a_place_is_kept_for_one_entry_lease_from_the_last_time_of_asking() {
    let mut node = Node::voted();
    node.ask(T, &waits(X, B, 10));
    node.ask(T + 1, &waits(X, C, 20));
    node.ask(T + 2, &waits(X, B, 10));
    node.ask(T + LEASE + 1, &Request::Inspect);
    assert_eq!(node.queue(), [10, 20], "through the last millisecond");
    assert_eq!(behind(node.ask(T + LEASE + 2, &waits(X, D, 30))), place(2, 2, true), "20 was silent for too long");
    node.grants(T + LEASE + 3, &waits(X, D, 30));
}

#[test]
fn a_full_queue_takes_nobody_else_but_keeps_those_who_wait() {
    let mut node = Node::voted();
    let places =
        (1..=u64::from(WAITERS_MAX)).map(|at| Place { waiter: waiter(X, at), until: T + LEASE, request: None });
    node.record.queue = places.collect();
    assert_eq!(node.ask(T, &waits(X, B, 0)), Vote::Refusal(Refusal::QueueFull), "not even a lower one");
    assert_eq!(held(node.ask(T, &waits(X, C, 5))), place(5, WAITERS_MAX, true));
    assert_eq!(held(node.ask(T, &acquire(D, CLOCK))).waiting, WAITERS_MAX, "who does not wait needs no room");
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &waits(X, B, u64::MAX)), Vote::Refusal(Refusal::QueueFull), "also if the vote is free");
    node.grants(T, &waits(X, D, 1));
    assert_eq!(held(node.ask(T, &waits(X, B, u64::MAX))).place, Some(WAITERS_MAX));
}

#[test]
fn readers_pass_readers_but_no_writer_that_waited_before() {
    const THIRD: OwnerId = OwnerId::from_bits(3);
    let mut node = queued(&[(reads(OWNER), 10), (writes(STRANGER), 20), (reads(OWNER), 30)]);
    assert_eq!(behind(node.ask(T, &waits(reads(THIRD), D, 40))), place(4, 4, true));
    assert!(matches!(node.ask(T, &acquire_as(reads(THIRD), D, CLOCK, None)), Vote::Refusal(Refusal::Behind { .. })));
    node.grants(T, &waits(reads(OWNER), B, 15));
    node.grants(T, &waits(reads(OWNER), C, 10));
    behind(node.ask(T, &waits(reads(THIRD), D, 40)));
    assert!(matches!(node.ask(T, &waits(writes(STRANGER), A, 20)), Vote::Refusal(Refusal::Held { .. })));
    node.ask(T, &leave(A, waiter(X, 20)));
    node.grants(T, &waits(reads(THIRD), D, 40));
    assert_eq!(node.queue(), [30], "which is in nobody's way");
}

#[test]
fn a_writer_waits_for_readers_that_waited_before() {
    let mut node = queued(&[(reads(OWNER), 10), (writes(STRANGER), 20)]);
    assert_eq!(behind(node.ask(T, &waits(writes(STRANGER), B, 20))), place(2, 2, true));
    node.ask(T, &leave(C, waiter(reads(OWNER), 10)));
    node.grants(T, &waits(writes(STRANGER), B, 20));
}

#[test]
fn slots_go_to_as_many_of_the_lowest_tickets_as_there_are_free_ones() {
    let two = slot(2, 0);
    let mut node = queued(&[(two, 10), (two, 20), (two, 30)]);
    behind(node.ask(T, &waits(two, D, 30)));
    assert!(matches!(node.ask(T, &acquire_as(two, D, CLOCK, None)), Vote::Refusal(Refusal::Behind { .. })));
    node.grants(T, &waits(two, B, 20));
    assert_eq!(behind(node.ask(T, &waits(two, D, 30))), place(2, 2, true), "the one that is left is for 10");
    node.grants(T, &waits(two, C, 10));
    assert_eq!(held(node.ask(T, &waits(two, D, 30))), place(1, 1, true));
    node.ask(T, &release(B));
    node.grants(T, &waits(two, D, 30));
    let mut spare = queued(&[(slot(3, 0), 10), (slot(3, 0), 20)]);
    spare.grants(T, &acquire_as(slot(3, 0), D, CLOCK, None));
}

#[test]
fn an_owner_enters_again_past_those_who_wait() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(enters(OWNER), A, CLOCK, None));
    held(node.ask(T, &waits(enters(STRANGER), B, 10)));
    node.grants(T, &waits(enters(OWNER), C, 20));
    assert_eq!(node.queue(), [10]);
}

#[test]
fn a_request_that_changes_nothing_leaves_no_place() {
    let mut node = Node::new();
    node.ask(T, &bury(B, 500));
    let held_back = waits(X, B, 10);
    assert_eq!(node.ask(T, &held_back), Vote::Refusal(Refusal::Tombstoned), "it came after its release");
    let mut elsewhere = Node { life: Incarnation { epoch: Some(Epoch(2)), ..voting(0) }, ..Node::voted() };
    assert_eq!(elsewhere.ask(T, &held_back), Vote::Refusal(Refusal::WrongEpoch));
    let mut reading = Node::new();
    reading.grants(T, &acquire_as(reads(OWNER), A, CLOCK, None));
    assert_eq!(reading.ask(T, &waits(writes(OWNER), B, 10)), Vote::Refusal(Refusal::Upgrade));
    let mut slots = Node::new();
    slots.grants(T, &acquire_as(slot(2, 0), A, CLOCK, None));
    assert_eq!(slots.ask(T, &waits(slot(3, 0), B, 10)), Vote::Refusal(Refusal::Permits { stored: 2 }));
    for node in [node, elsewhere, reading, slots] {
        assert_eq!(node.queue(), [0; 0]);
    }
}

#[test]
fn a_yield_keeps_the_place_and_a_leave_gives_it_up() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 10));
    assert_eq!(node.ask(T + 1, &yields(A, waiter(X, 10))), granted(0));
    assert_eq!((node.vote(), node.queue()), (None, [10].into()));
    assert_eq!(node.record.queue[0].until, T + 1 + LEASE);
    let late = node.ask(T + 2, &yields(A, waiter(X, 10)));
    assert_eq!(late, Vote::Refusal(Refusal::Absent), "once is enough");
    assert_eq!(node.record.queue[0].until, T + 1 + LEASE);
    node.grants(T + 2, &waits(X, B, 10));
    assert_eq!(node.ask(T + 3, &yields(A, waiter(X, 10))), Vote::Refusal(Refusal::Absent));
    assert_eq!((node.vote(), node.queue()), (Some((B, T + 1_002)), [].into()), "a late yield takes nothing back");
    assert_eq!(node.ask(T + 3, &leave(B, waiter(X, 10))), granted(0));
    assert_eq!((node.vote(), node.queue()), (None, [].into()));
    held(Node::voted().ask(T, &waits(X, B, 10)));
}

fn leave(attempt: LeaseId, waiter: Waiter) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(Parting::Leave(waiter)) }
}

fn yields(attempt: LeaseId, waiter: Waiter) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(Parting::Yield(waiter)) }
}
