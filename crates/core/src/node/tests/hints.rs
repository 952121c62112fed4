//! Who is told that it may be free, and who is left alone.

use super::*;
use crate::request::Parting;

const X: Mode = Mode::EXCLUSIVE;

impl Node {
    fn hints(&mut self, request: &Request) -> Option<Waiter> {
        self.answer(T, request).hint
    }

    /// The queue has these waiters, in any order of arrival.
    fn with_queue(mut self, queue: &[(Mode, u64)]) -> Self {
        for (mode, ticket) in queue {
            self.record.keep_place(waiter(*mode, *ticket), NodeTime::wall(CLOCK));
        }
        self
    }

    /// These have entered, without tickets.
    fn entered(by: &[(Mode, LeaseId)]) -> Self {
        let mut node = Self::new();
        for (mode, attempt) in by {
            node.grants(T, &acquire_as(*mode, *attempt, CLOCK, None));
        }
        node
    }
}

fn parts(attempt: LeaseId, parting: Parting) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(parting) }
}

fn leaves(attempt: LeaseId, mode: Mode, ticket: u64) -> Request {
    parts(attempt, Parting::Leave(waiter(mode, ticket)))
}

fn yields(attempt: LeaseId, mode: Mode, ticket: u64) -> Request {
    parts(attempt, Parting::Yield(waiter(mode, ticket)))
}

#[test]
fn a_release_tells_the_first_in_queue_and_nobody_else() {
    let mut node = Node::voted().with_queue(&[(X, 20), (X, 10)]);
    assert_eq!(node.hints(&release(A)), Some(hint(10)));
    assert_eq!(node.hints(&release(A)), None, "once");
    assert_eq!(Node::voted().hints(&release(A)), None, "nobody waits");
    let mut node = Node::voted().with_queue(&[(X, 10)]);
    assert_eq!(node.hints(&release(B)), None, "nothing was taken back");
    assert_eq!(node.hints(&bury(A, 500)), Some(hint(10)), "with a tombstone, too");
}

#[test]
fn asking_renewing_and_looking_tell_nobody() {
    let mut node = Node::voted().with_queue(&[(X, 10)]);
    let requests = [acquire(A, CLOCK), renew(A, CLOCK, true), acquire(B, CLOCK), waits(X, B, 20), Request::Inspect];
    for request in requests {
        assert_eq!(node.hints(&request), None, "{request:?}");
    }
}

#[test]
fn the_last_exit_tells_the_first_in_queue() {
    let mut node = Node::entered(&[(enters(OWNER), A), (enters(OWNER), B)]).with_queue(&[(enters(STRANGER), 10)]);
    assert_eq!(node.hints(&release(A)), None);
    assert_eq!(node.hints(&release(A)), None, "an exit that is repeated is no other exit");
    assert_eq!(node.hints(&release(B)), Some(hint(10)));
}

#[test]
fn a_writer_is_told_when_the_last_reader_is_gone() {
    let mut node = Node::entered(&[(reads(OWNER), A), (reads(OWNER), B)]).with_queue(&[(X, 10), (reads(OWNER), 20)]);
    assert_eq!(node.hints(&release(A)), None);
    assert_eq!(node.hints(&release(B)), Some(hint(10)));
}

#[test]
fn readers_wake_each_other_one_by_one() {
    let queue = [(reads(OWNER), 10), (reads(OWNER), 20), (X, 30), (reads(OWNER), 40)];
    let mut node = Node::voted().with_queue(&queue);
    assert_eq!(node.hints(&release(A)), Some(waiter(reads(OWNER), 10)));
    assert_eq!(node.hints(&waits(reads(OWNER), B, 10)), Some(waiter(reads(OWNER), 20)));
    assert_eq!(node.hints(&waits(reads(OWNER), B, 10)), None, "a repeat makes no room");
    assert_eq!(node.hints(&waits(reads(OWNER), C, 20)), None, "30 wants to write");
    assert_eq!(node.queue(), [30, 40]);
}

#[test]
fn slots_are_offered_for_as_long_as_there_are_any() {
    let two = slot(2, 0);
    let mut node = Node::voted().with_queue(&[(two, 10), (two, 20), (two, 30)]);
    assert_eq!(node.hints(&release(A)), Some(hint(10)));
    assert_eq!(node.hints(&waits(two, B, 10)), Some(hint(20)));
    assert_eq!(node.hints(&waits(two, C, 20)), None, "both are taken");
    assert_eq!(node.hints(&release(B)), Some(hint(30)));
}

#[test]
fn a_lone_holder_leaves_no_room() {
    for mode in [X, enters(OWNER)] {
        let mut node = Node::new().with_queue(&[(mode, 10), (enters(STRANGER), 20)]);
        assert_eq!(node.hints(&waits(mode, A, 10)), None);
    }
}

#[test]
fn a_yield_tells_the_one_that_it_is_for() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 20));
    let mut node = node.with_queue(&[(X, 10), (X, 30)]);
    assert_eq!(node.hints(&yields(A, X, 20)), Some(hint(10)));
    assert_eq!(node.hints(&yields(A, X, 20)), None, "once");
    assert_eq!(node.queue(), [10, 20, 30]);
}

#[test]
fn a_waiter_that_yields_does_not_wake_itself() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 20));
    assert_eq!(node.hints(&yields(A, X, 20)), None);
    node.grants(T, &waits(X, B, 20));
    let mut node = node.with_queue(&[(X, 30)]);
    assert_eq!(node.hints(&yields(B, X, 20)), None, "30 would only be told to wait");
}

#[test]
fn the_first_that_leaves_tells_the_next() {
    let mut node = Node::new().with_queue(&[(X, 10), (X, 20), (X, 30)]);
    assert_eq!(node.hints(&leaves(B, X, 20)), None, "it was nobody's turn");
    assert_eq!(node.hints(&leaves(B, X, 10)), Some(hint(30)));
    assert_eq!(node.hints(&leaves(B, X, 10)), None, "once");
    let mut held = Node::voted().with_queue(&[(X, 10), (X, 20)]);
    assert_eq!(held.hints(&leaves(B, X, 10)), None, "the lock is not free");
    let mut reading = Node::entered(&[(reads(OWNER), A)]).with_queue(&[(X, 10), (reads(OWNER), 20)]);
    assert_eq!(reading.hints(&leaves(B, X, 10)), Some(waiter(reads(OWNER), 20)), "the writer was in the way");
}

#[test]
fn a_holder_that_leaves_gives_up_its_place_as_well() {
    let mut node = Node::new();
    node.grants(T, &waits(X, A, 10));
    let mut node = node.with_queue(&[(X, 10), (X, 20)]);
    assert_eq!(node.hints(&leaves(A, X, 10)), Some(hint(20)), "it is not told of its own release");
    assert_eq!(node.queue(), [20]);
}

#[test]
fn a_waiter_whose_place_has_ended_gets_no_hint() {
    let mut node = Node::new();
    node.grants(
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
    node.ask(T + 1, &waits(X, B, 20));
    assert_eq!(node.answer(T + 5_001, &release(A)).hint, Some(hint(20)), "10 has not asked again");
}
