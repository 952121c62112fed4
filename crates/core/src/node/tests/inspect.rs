use super::*;
use crate::digest::Digest;
use crate::vote::{HeldBy, QUEUE_LISTED_MAX, Report, Waiting};

impl Node {
    /// What a look finds. It changes nothing.
    pub(super) fn report(&mut self, millis: u64) -> Report {
        self.record.lapse(NodeTime::wall(millis * 1_000));
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
fn a_long_queue_is_listed_by_its_first() {
    let mut node = Node::voted();
    for at in 0..30 {
        node.ask(T, &waits(Mode::EXCLUSIVE, LeaseId::from_bits(0x100 + u128::from(at)), 30 - at));
    }
    let report = node.report(T);
    assert_eq!((report.waiting, report.queue.len()), (30, QUEUE_LISTED_MAX));
    assert!(report.queue.is_sorted_by_key(|waiting| waiting.since_micros) && report.queue[0].since_micros == 1);
}

#[test]
fn a_blank_name_has_nothing_to_report() {
    assert_eq!(Node::new().report(T), Report::default());
}

#[test]
fn a_look_tells_who_holds_how_and_how_many_wait() {
    let mut node = Node::voted();
    node.ask(T, &waits(Mode::EXCLUSIVE, B, 10));
    node.ask(T, &waits(reads(OWNER), C, 20));
    let (period, remaining) = (Period::Exclusive, Some(ms(700)));
    let held = Some(HeldBy { holder: Some(holder(A)), remaining, period, holds: 1, ..HeldBy::default() });
    let queue = [(10, false), (20, true)].map(|(since_micros, shared)| Waiting { since_micros, shared }).to_vec();
    let fence = Fence::new(CLOCK);
    assert_eq!(node.report(T + 300), Report { held, fence, since_micros: CLOCK, waiting: 2, queue });
}

#[test]
fn a_look_counts_those_who_have_entered() {
    let kinds = [
        (enters(OWNER), Period::Reentrant(OWNER), CLOCK, CLOCK),
        (reads(OWNER), Period::Shared, CLOCK + 1, CLOCK + 1_000),
        (slot(3, 0), Period::Slots(3), CLOCK + 1, CLOCK + 1_000),
    ];
    for (mode, period, fence, since_micros) in kinds {
        let mut node = Node::new();
        node.grants(T, &acquire_as(mode, A, CLOCK, None));
        let joins = if mode == reads(OWNER) { reads(STRANGER) } else { mode };
        node.grants(T + 1, &acquire_as(joins, B, CLOCK, None));
        let held = |remaining, holds| {
            let (holder, remaining) = (Some(holder(B)), Some(ms(remaining)));
            Some(HeldBy { holder, remaining, period, holds, ..HeldBy::default() })
        };
        let fence = Fence::new(fence);
        assert_eq!(node.report(T + 1), Report { held: held(1_000, 2), fence, since_micros, ..Report::default() });
        assert_eq!(node.report(T + 1_001), Report { held: held(0, 1), fence, since_micros, ..Report::default() });
        assert_eq!(node.report(T + 1_002), Report { held: None, fence, since_micros, ..Report::default() });
    }
}

#[test]
fn a_foreign_vote_has_no_name_but_a_digest() {
    let mut node = Node::freed(50);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    let (period, digest) = (Period::Exclusive, Some(Digest::of(B)));
    let held = HeldBy { holder: None, remaining: Some(ms(1_000)), period, holds: 1, digest, broken: false };
    assert_eq!(node.report(T).held, Some(held));
}

#[test]
fn a_node_in_quarantine_can_be_looked_at() {
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::voted() };
    assert_eq!(node.report(T).fence, Fence::new(CLOCK));
}
