use super::*;
use crate::request::{ENTRY_LEASE, WAITERS_MAX};

const X: Mode = Mode::EXCLUSIVE;
const ENTRY_LEASE_MS: u64 = ENTRY_LEASE.as_millis() as u64;

/// Returns the queue that a refusal reports because the lock is held.
fn queue_if_held(vote: Vote) -> QueuePosition {
    match vote {
        Vote::Refusal(Refusal::Held { queue, .. }) => queue,
        other => panic!("not held: {other:?}"),
    }
}

/// Returns the queue that a refusal reports because earlier waiters come first.
fn queue_if_behind(vote: Vote) -> QueuePosition {
    match vote {
        Vote::Refusal(Refusal::Behind { queue, .. }) => queue,
        other => panic!("not behind: {other:?}"),
    }
}

fn position(number: u32, waiting: u32, lower: bool) -> QueuePosition {
    QueuePosition { position: Some(number), waiting, lower }
}

/// Returns a node with a free vote and these waiters, each with a mode and a ticket.
fn free_node_with_queue(waiters: &[(Mode, u64)]) -> Node {
    let mut node = Node::with_vote();
    for (mode, ticket) in waiters {
        node.ask(T, &acquire_queued(*mode, LeaseId::from_bits(1_000 + u128::from(*ticket)), *ticket));
    }
    node.ask(T, &release(A));
    node
}

#[test]
fn the_lowest_ticket_comes_first_even_if_a_higher_one_asks_first() {
    let mut node = Node::with_vote();
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, B, 20))), position(1, 1, false));
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, C, 10))), position(1, 2, false));
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, D, 30))), position(3, 3, true), "lower tickets wait");
    assert_eq!(
        queue_if_held(node.ask(T, &acquire_queued(X, B, 20))),
        position(2, 3, true),
        "a repeated request adds no position"
    );
    assert_eq!(node.queue(), [10, 20, 30]);
    node.ask(T, &release(A));
    let refused = node.ask(T, &acquire_queued(X, B, 20));
    assert_eq!(refused, Vote::Refusal(Refusal::Behind { fence: Fence::new(CLOCK), queue: position(2, 3, true) }));
    assert_eq!(node.ask(T, &acquire_queued(X, C, 10)), granted(CLOCK + 1));
    assert_eq!(node.queue(), [20, 30], "the granted waiter left the queue");
}

#[test]
fn the_random_part_orders_tickets_of_the_same_microsecond() {
    let mut node = Node::with_vote();
    let with_id = |attempt, id| {
        let waiter = Waiter { ticket: Ticket { at: 10, id }, ..waiter(X, 10) };
        acquire_as(X, attempt, CLOCK, Some(waiter))
    };
    assert_eq!(queue_if_held(node.ask(T, &with_id(B, 2))), position(1, 1, false));
    assert_eq!(queue_if_held(node.ask(T, &with_id(C, 1))), position(1, 2, false));
    node.ask(T, &release(A));
    assert_eq!(queue_if_behind(node.ask(T, &with_id(B, 2))), position(2, 2, true));
    node.grant(T, &with_id(C, 1));
}

#[test]
fn a_lower_ticket_counts_as_lower_while_it_has_the_vote_and_has_not_won() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 10));
    assert!(queue_if_held(node.ask(T, &acquire_queued(X, B, 20))).lower);
    assert!(
        !queue_if_held(node.ask(T, &acquire_queued(X, C, 5))).lower,
        "ticket 10 has the vote and must yield to ticket 5"
    );
    node.grant(T, &renew(A, CLOCK, true));
    assert!(!queue_if_held(node.ask(T, &acquire_queued(X, C, 5))).lower);
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, B, 20))), position(2, 2, true), "ticket 5 still waits");
    node.ask(T, &leave(C, waiter(X, 5)));
    assert!(!queue_if_held(node.ask(T, &acquire_queued(X, B, 20))).lower, "A has won: it renews");
    let mut node = Node::with_vote();
    assert!(!queue_if_held(node.ask(T, &acquire_queued(X, B, 20))).lower, "the holder has no ticket");
}

#[test]
fn a_plain_vote_does_not_count_as_the_vote_of_the_last_ticket() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 10));
    node.ask(T, &release(A));
    node.grant(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert!(!queue_if_held(node.ask(T, &acquire_queued(X, C, 20))).lower);
}

#[test]
fn a_vote_with_entries_counts_as_lower() {
    for mode in [reentrant(OWNER), reader(OWNER), slot(1, 0)] {
        let mut node = Node::new();
        node.grant(T, &acquire_queued(mode, A, 20));
        assert!(queue_if_held(node.ask(T, &acquire_queued(writer(OTHER_OWNER), B, 10))).lower, "{mode:?}");
    }
}

#[test]
fn a_client_without_a_ticket_neither_overtakes_nor_joins_the_queue() {
    let mut node = free_node_with_queue(&[(X, 10)]);
    let no_position = QueuePosition { position: None, waiting: 1, lower: false };
    for mode in [X, reentrant(OWNER), reader(OWNER), slot(1, 0)] {
        assert_eq!(queue_if_behind(node.ask(T, &acquire_as(mode, B, CLOCK, None))), no_position, "{mode:?}");
    }
    node.grant(T, &acquire_queued(X, C, 10));
    assert_eq!(queue_if_held(node.ask(T, &acquire(B, CLOCK))), QueuePosition { waiting: 0, ..no_position });
    assert_eq!(node.queue(), [0; 0]);
}

#[test]
fn a_queue_position_is_kept_for_one_entry_lease_after_the_last_request() {
    let mut node = Node::with_vote();
    node.ask(T, &acquire_queued(X, B, 10));
    node.ask(T + 1, &acquire_queued(X, C, 20));
    node.ask(T + 2, &acquire_queued(X, B, 10));
    node.ask(T + ENTRY_LEASE_MS + 1, &Request::Inspect);
    assert_eq!(node.queue(), [10, 20], "the last millisecond of ticket 20");
    assert_eq!(
        queue_if_behind(node.ask(T + ENTRY_LEASE_MS + 2, &acquire_queued(X, D, 30))),
        position(2, 2, true),
        "the position of ticket 20 has expired"
    );
    node.grant(T + ENTRY_LEASE_MS + 3, &acquire_queued(X, D, 30));
}

#[test]
fn a_full_queue_refuses_new_waiters_and_keeps_its_own() {
    let mut node = Node::with_vote();
    let positions = (1..=u64::from(WAITERS_MAX)).map(|at| QueuedWaiter {
        waiter: waiter(X, at),
        until: T + ENTRY_LEASE_MS,
        request: None,
    });
    node.record.queue = positions.collect();
    assert_eq!(
        node.ask(T, &acquire_queued(X, B, 0)),
        Vote::Refusal(Refusal::QueueFull),
        "a lower ticket is refused too"
    );
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, C, 5))), position(5, WAITERS_MAX, true));
    assert_eq!(
        queue_if_held(node.ask(T, &acquire(D, CLOCK))).waiting,
        WAITERS_MAX,
        "a client without a ticket needs no position"
    );
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &acquire_queued(X, B, u64::MAX)), Vote::Refusal(Refusal::QueueFull), "the vote is free");
    node.grant(T, &acquire_queued(X, D, 1));
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(X, B, u64::MAX))).position, Some(WAITERS_MAX));
}

#[test]
fn a_reader_overtakes_earlier_readers_but_no_earlier_writer() {
    const THIRD: OwnerId = OwnerId::from_bits(3);
    let mut node = free_node_with_queue(&[(reader(OWNER), 10), (writer(OTHER_OWNER), 20), (reader(OWNER), 30)]);
    assert_eq!(queue_if_behind(node.ask(T, &acquire_queued(reader(THIRD), D, 40))), position(4, 4, true));
    assert!(matches!(node.ask(T, &acquire_as(reader(THIRD), D, CLOCK, None)), Vote::Refusal(Refusal::Behind { .. })));
    node.grant(T, &acquire_queued(reader(OWNER), B, 15));
    node.grant(T, &acquire_queued(reader(OWNER), C, 10));
    queue_if_behind(node.ask(T, &acquire_queued(reader(THIRD), D, 40)));
    assert!(matches!(node.ask(T, &acquire_queued(writer(OTHER_OWNER), A, 20)), Vote::Refusal(Refusal::Held { .. })));
    node.ask(T, &leave(A, waiter(X, 20)));
    node.grant(T, &acquire_queued(reader(THIRD), D, 40));
    assert_eq!(node.queue(), [30]);
}

#[test]
fn a_writer_waits_for_earlier_readers() {
    let mut node = free_node_with_queue(&[(reader(OWNER), 10), (writer(OTHER_OWNER), 20)]);
    assert_eq!(queue_if_behind(node.ask(T, &acquire_queued(writer(OTHER_OWNER), B, 20))), position(2, 2, true));
    node.ask(T, &leave(C, waiter(reader(OWNER), 10)));
    node.grant(T, &acquire_queued(writer(OTHER_OWNER), B, 20));
}

#[test]
fn free_slots_go_to_the_lowest_tickets() {
    let slot_of_2 = slot(2, 0);
    let mut node = free_node_with_queue(&[(slot_of_2, 10), (slot_of_2, 20), (slot_of_2, 30)]);
    queue_if_behind(node.ask(T, &acquire_queued(slot_of_2, D, 30)));
    assert!(matches!(node.ask(T, &acquire_as(slot_of_2, D, CLOCK, None)), Vote::Refusal(Refusal::Behind { .. })));
    node.grant(T, &acquire_queued(slot_of_2, B, 20));
    assert_eq!(
        queue_if_behind(node.ask(T, &acquire_queued(slot_of_2, D, 30))),
        position(2, 2, true),
        "the free slot is for ticket 10"
    );
    node.grant(T, &acquire_queued(slot_of_2, C, 10));
    assert_eq!(queue_if_held(node.ask(T, &acquire_queued(slot_of_2, D, 30))), position(1, 1, true));
    node.ask(T, &release(B));
    node.grant(T, &acquire_queued(slot_of_2, D, 30));
    let mut node_with_spare_slot = free_node_with_queue(&[(slot(3, 0), 10), (slot(3, 0), 20)]);
    node_with_spare_slot.grant(T, &acquire_as(slot(3, 0), D, CLOCK, None));
}

#[test]
fn an_owner_re_enters_before_earlier_waiters() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reentrant(OWNER), A, CLOCK, None));
    queue_if_held(node.ask(T, &acquire_queued(reentrant(OTHER_OWNER), B, 10)));
    node.grant(T, &acquire_queued(reentrant(OWNER), C, 20));
    assert_eq!(node.queue(), [10]);
}

#[test]
fn a_request_that_is_refused_for_good_joins_no_queue() {
    let mut node = Node::new();
    node.ask(T, &release_with_tombstone(B, 500));
    let request = acquire_queued(X, B, 10);
    assert_eq!(node.ask(T, &request), Vote::Refusal(Refusal::Tombstoned), "the acquire arrived after its release");
    let mut node_in_other_epoch =
        Node { life: Incarnation { epoch: Some(Epoch(2)), ..voting(0) }, ..Node::with_vote() };
    assert_eq!(node_in_other_epoch.ask(T, &request), Vote::Refusal(Refusal::WrongEpoch));
    let mut node_with_reader = Node::new();
    node_with_reader.grant(T, &acquire_as(reader(OWNER), A, CLOCK, None));
    assert_eq!(node_with_reader.ask(T, &acquire_queued(writer(OWNER), B, 10)), Vote::Refusal(Refusal::Upgrade));
    let mut semaphore = Node::new();
    semaphore.grant(T, &acquire_as(slot(2, 0), A, CLOCK, None));
    assert_eq!(semaphore.ask(T, &acquire_queued(slot(3, 0), B, 10)), Vote::Refusal(Refusal::Permits { stored: 2 }));
    for node in [node, node_in_other_epoch, node_with_reader, semaphore] {
        assert_eq!(node.queue(), [0; 0]);
    }
}

#[test]
fn a_yield_keeps_the_queue_position_and_a_leave_gives_it_up() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 10));
    assert_eq!(node.ask(T + 1, &yield_vote(A, waiter(X, 10))), granted(0));
    assert_eq!((node.vote(), node.queue()), (None, [10].into()));
    assert_eq!(node.record.queue[0].until, T + 1 + ENTRY_LEASE_MS);
    let repeated = node.ask(T + 2, &yield_vote(A, waiter(X, 10)));
    assert_eq!(repeated, Vote::Refusal(Refusal::Absent));
    assert_eq!(node.record.queue[0].until, T + 1 + ENTRY_LEASE_MS);
    node.grant(T + 2, &acquire_queued(X, B, 10));
    assert_eq!(node.ask(T + 3, &yield_vote(A, waiter(X, 10))), Vote::Refusal(Refusal::Absent));
    assert_eq!((node.vote(), node.queue()), (Some((B, T + 1_002)), [].into()), "a late yield of A changes nothing");
    assert_eq!(node.ask(T + 3, &leave(B, waiter(X, 10))), granted(0));
    assert_eq!((node.vote(), node.queue()), (None, [].into()));
    queue_if_held(Node::with_vote().ask(T, &acquire_queued(X, B, 10)));
}
