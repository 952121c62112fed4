//! Hints: which waiter learns that the lock may be free, and after which requests.

use super::*;

const X: Mode = Mode::EXCLUSIVE;

impl Node {
    /// Sends a request at `T`, and returns the waiter that gets a hint.
    fn hint_after(&mut self, request: &Request) -> Option<Waiter> {
        self.answer(T, request).hint
    }

    /// Adds these waiters to the queue, each with a mode and a ticket.
    fn with_queue(mut self, queue: &[(Mode, u64)]) -> Self {
        for (mode, ticket) in queue {
            self.record.keep_position(waiter(*mode, *ticket), NodeTime::wall(CLOCK));
        }
        self
    }

    /// Returns a node with an entry for each of these attempts.
    fn with_entries(entries: &[(Mode, LeaseId)]) -> Self {
        let mut node = Self::new();
        for (mode, attempt) in entries {
            node.grant(T, &acquire_as(*mode, *attempt, CLOCK, None));
        }
        node
    }
}

#[test]
fn a_release_gives_the_first_waiter_one_hint() {
    let mut node = Node::with_vote().with_queue(&[(X, 20), (X, 10)]);
    assert_eq!(node.hint_after(&release(A)), Some(waiter_with_ticket(10)));
    assert_eq!(node.hint_after(&release(A)), None, "the release is repeated");
    assert_eq!(Node::with_vote().hint_after(&release(A)), None, "nobody waits");
    let mut node = Node::with_vote().with_queue(&[(X, 10)]);
    assert_eq!(node.hint_after(&release(B)), None, "B had no vote");
    assert_eq!(
        node.hint_after(&release_with_tombstone(A, 500)),
        Some(waiter_with_ticket(10)),
        "the release leaves a tombstone"
    );
}

#[test]
fn acquires_renewals_and_inspections_give_no_hints() {
    let mut node = Node::with_vote().with_queue(&[(X, 10)]);
    let requests =
        [acquire(A, CLOCK), renew(A, CLOCK, true), acquire(B, CLOCK), acquire_queued(X, B, 20), Request::Inspect];
    for request in requests {
        assert_eq!(node.hint_after(&request), None, "{request:?}");
    }
}

#[test]
fn the_release_of_the_last_reentrant_entry_gives_a_hint() {
    let mut node =
        Node::with_entries(&[(reentrant(OWNER), A), (reentrant(OWNER), B)]).with_queue(&[(reentrant(OTHER_OWNER), 10)]);
    assert_eq!(node.hint_after(&release(A)), None);
    assert_eq!(node.hint_after(&release(A)), None, "the release is repeated, and B still has an entry");
    assert_eq!(node.hint_after(&release(B)), Some(waiter_with_ticket(10)));
}

#[test]
fn a_writer_gets_a_hint_when_the_last_reader_has_left() {
    let mut node =
        Node::with_entries(&[(reader(OWNER), A), (reader(OWNER), B)]).with_queue(&[(X, 10), (reader(OWNER), 20)]);
    assert_eq!(node.hint_after(&release(A)), None);
    assert_eq!(node.hint_after(&release(B)), Some(waiter_with_ticket(10)));
}

#[test]
fn the_grant_to_one_reader_gives_a_hint_to_the_next_reader() {
    let queue = [(reader(OWNER), 10), (reader(OWNER), 20), (X, 30), (reader(OWNER), 40)];
    let mut node = Node::with_vote().with_queue(&queue);
    assert_eq!(node.hint_after(&release(A)), Some(waiter(reader(OWNER), 10)));
    assert_eq!(node.hint_after(&acquire_queued(reader(OWNER), B, 10)), Some(waiter(reader(OWNER), 20)));
    assert_eq!(node.hint_after(&acquire_queued(reader(OWNER), B, 10)), None, "B asks again");
    assert_eq!(node.hint_after(&acquire_queued(reader(OWNER), C, 20)), None, "ticket 30 belongs to a writer");
    assert_eq!(node.queue(), [30, 40]);
}

#[test]
fn hints_follow_while_slots_are_free() {
    let slot_of_2 = slot(2, 0);
    let mut node = Node::with_vote().with_queue(&[(slot_of_2, 10), (slot_of_2, 20), (slot_of_2, 30)]);
    assert_eq!(node.hint_after(&release(A)), Some(waiter_with_ticket(10)));
    assert_eq!(node.hint_after(&acquire_queued(slot_of_2, B, 10)), Some(waiter_with_ticket(20)));
    assert_eq!(node.hint_after(&acquire_queued(slot_of_2, C, 20)), None, "both slots are taken");
    assert_eq!(node.hint_after(&release(B)), Some(waiter_with_ticket(30)));
}

#[test]
fn the_grant_of_an_exclusive_or_reentrant_lock_gives_no_hint() {
    for mode in [X, reentrant(OWNER)] {
        let mut node = Node::new().with_queue(&[(mode, 10), (reentrant(OTHER_OWNER), 20)]);
        assert_eq!(node.hint_after(&acquire_queued(mode, A, 10)), None);
    }
}

#[test]
fn a_yield_gives_a_hint_to_the_waiter_with_the_lower_ticket() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 20));
    let mut node = node.with_queue(&[(X, 10), (X, 30)]);
    assert_eq!(node.hint_after(&yield_vote(A, waiter(X, 20))), Some(waiter_with_ticket(10)));
    assert_eq!(node.hint_after(&yield_vote(A, waiter(X, 20))), None, "the yield is repeated");
    assert_eq!(node.queue(), [10, 20, 30]);
}

#[test]
fn a_waiter_that_yields_gives_no_hint_to_itself_or_to_higher_tickets() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 20));
    assert_eq!(node.hint_after(&yield_vote(A, waiter(X, 20))), None);
    node.grant(T, &acquire_queued(X, B, 20));
    let mut node = node.with_queue(&[(X, 30)]);
    assert_eq!(
        node.hint_after(&yield_vote(B, waiter(X, 20))),
        None,
        "ticket 30 could not get the vote before ticket 20"
    );
}

#[test]
fn when_the_first_waiter_leaves_the_next_one_gets_a_hint() {
    let mut node = Node::new().with_queue(&[(X, 10), (X, 20), (X, 30)]);
    assert_eq!(node.hint_after(&leave(B, waiter(X, 20))), None, "ticket 20 was not the first");
    assert_eq!(node.hint_after(&leave(B, waiter(X, 10))), Some(waiter_with_ticket(30)));
    assert_eq!(node.hint_after(&leave(B, waiter(X, 10))), None, "ticket 10 has left already");
    let mut held_node = Node::with_vote().with_queue(&[(X, 10), (X, 20)]);
    assert_eq!(held_node.hint_after(&leave(B, waiter(X, 10))), None, "the lock is not free");
    let mut node_with_reader = Node::with_entries(&[(reader(OWNER), A)]).with_queue(&[(X, 10), (reader(OWNER), 20)]);
    assert_eq!(
        node_with_reader.hint_after(&leave(B, waiter(X, 10))),
        Some(waiter(reader(OWNER), 20)),
        "the writer no longer blocks the reader"
    );
}

#[test]
fn a_holder_that_leaves_gives_up_its_queue_position_too() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(X, A, 10));
    let mut node = node.with_queue(&[(X, 10), (X, 20)]);
    assert_eq!(
        node.hint_after(&leave(A, waiter(X, 10))),
        Some(waiter_with_ticket(20)),
        "the next waiter gets the hint, not the holder"
    );
    assert_eq!(node.queue(), [20]);
}

#[test]
fn a_waiter_whose_queue_position_expired_gets_no_hint() {
    let mut node = Node::new();
    node.grant(
        T,
        &Request::Acquire {
            attempt: A,
            proposal: Fence::new(CLOCK),
            ttl: ttl(60_000),
            holder: "".into(),
            mode: X,
            waiter: None,
        },
    );
    let mut node = node.with_queue(&[(X, 10)]);
    node.ask(T + 1, &acquire_queued(X, B, 20));
    assert_eq!(
        node.answer(T + 5_001, &release(A)).hint,
        Some(waiter_with_ticket(20)),
        "ticket 10 has not asked again in time"
    );
}
