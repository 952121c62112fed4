use super::*;
use crate::digest::Digest;
use crate::vote::{HeldBy, QUEUE_LISTED_MAX, Report, Waiting};

impl Node {
    /// Inspects the name, and checks that the inspection changes nothing.
    pub(super) fn report(&mut self, millis: u64) -> Report {
        self.record.remove_expired(NodeTime::wall(millis * 1_000));
        let before = self.record.clone();
        let answer = self.answer(millis, &Request::Inspect);
        assert_eq!((&self.record, answer.hint), (&before, None));
        match answer.vote {
            Vote::Report(report) => *report,
            other => panic!("no report: {other:?}"),
        }
    }
}

#[test]
fn an_inspection_lists_the_first_waiters_of_a_long_queue() {
    let mut node = Node::with_vote();
    for at in 0..30 {
        node.ask(T, &acquire_queued(Mode::EXCLUSIVE, LeaseId::from_bits(0x100 + u128::from(at)), 30 - at));
    }
    let report = node.report(T);
    assert_eq!((report.waiting, report.queue.len()), (30, QUEUE_LISTED_MAX));
    assert!(report.queue.is_sorted_by_key(|waiting| waiting.since_micros) && report.queue[0].since_micros == 1);
}

#[test]
fn the_report_of_an_unused_name_is_empty() {
    assert_eq!(Node::new().report(T), Report::default());
}

#[test]
fn an_inspection_reports_the_holder_the_mode_and_the_waiters() {
    let mut node = Node::with_vote();
    node.ask(T, &acquire_queued(Mode::EXCLUSIVE, B, 10));
    node.ask(T, &acquire_queued(reader(OWNER), C, 20));
    let (held_mode, remaining) = (HeldMode::Exclusive, Some(ms(700)));
    let held = Some(HeldBy { holder: Some(holder(A)), remaining, held_mode, holds: 1, ..HeldBy::default() });
    let queue = [(10, false), (20, true)].map(|(since_micros, shared)| Waiting { since_micros, shared }).to_vec();
    let fence = Fence::new(CLOCK);
    assert_eq!(node.report(T + 300), Report { held, fence, since_micros: CLOCK, waiting: 2, queue });
}

#[test]
fn an_inspection_counts_the_entries() {
    let modes = [
        (reentrant(OWNER), HeldMode::Reentrant(OWNER), CLOCK, CLOCK),
        (reader(OWNER), HeldMode::Shared, CLOCK + 1, CLOCK + 1_000),
        (slot(3, 0), HeldMode::Slots(3), CLOCK + 1, CLOCK + 1_000),
    ];
    for (mode, held_mode, fence, since_micros) in modes {
        let mut node = Node::new();
        node.grant(T, &acquire_as(mode, A, CLOCK, None));
        let mode_of_b = if mode == reader(OWNER) { reader(OTHER_OWNER) } else { mode };
        node.grant(T + 1, &acquire_as(mode_of_b, B, CLOCK, None));
        let held = |remaining_ms, holds| {
            let (holder, remaining) = (Some(holder(B)), Some(ms(remaining_ms)));
            Some(HeldBy { holder, remaining, held_mode, holds, ..HeldBy::default() })
        };
        let fence = Fence::new(fence);
        assert_eq!(node.report(T + 1), Report { held: held(1_000, 2), fence, since_micros, ..Report::default() });
        assert_eq!(node.report(T + 1_001), Report { held: held(0, 1), fence, since_micros, ..Report::default() });
        assert_eq!(node.report(T + 1_002), Report { held: None, fence, since_micros, ..Report::default() });
    }
}

#[test]
fn an_inspection_identifies_a_plain_vote_by_its_digest() {
    let mut node = Node::with_fence(50);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    let (held_mode, digest) = (HeldMode::Exclusive, Some(Digest::of(B)));
    let held = HeldBy { holder: None, remaining: Some(ms(1_000)), held_mode, holds: 1, digest, broken: false };
    assert_eq!(node.report(T).held, Some(held));
}

#[test]
fn a_node_in_quarantine_can_be_inspected() {
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::with_vote() };
    assert_eq!(node.report(T).fence, Fence::new(CLOCK));
}
