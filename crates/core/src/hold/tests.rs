mod detached;
mod roster;
mod watchdog;

use super::*;
use crate::backoff::Retry;
use crate::quorum::Elector;
use crate::rules::Rules;
use crate::testing::{CountingRng, all, at, by, grant, held, late, ms, refuse, ttl};
use crate::time::Drift;
use crate::vote::GrantedSlot;

const ATTEMPT: LeaseId = LeaseId::from_bits(7);
/// The validity in milliseconds: a ttl of 9 s less 1 % and 2 ms.
const VALIDITY_MS: u64 = 9_000 - 92;

fn terms(nodes: usize) -> Terms {
    Terms {
        electors: all(nodes),
        ttl: ttl(9_000),
        drift: Drift::REDLOCK.of(ttl(9_000)),
        min_validity: ms(4_500),
        node_deadline: ms(200),
        retry: Retry::ONCE,
        give_up: None,
        channel: None,
        plain: false,
        renewals: Renewals::default(),
        trusting: false,
        mode: Mode::EXCLUSIVE,
        holder: "1 host test".into(),
        rules: Rules::default(),
    }
}

/// A hold under test, with its random numbers.
struct Run {
    hold: Hold,
    rng: CountingRng,
}

impl Run {
    /// Returns a run of a lease whose grants were sent at these milliseconds, one for each node.
    fn new<const N: usize>(terms: Terms, sent_ms: [Option<u64>; N]) -> Self {
        Self::with_fence(terms, Some(Fence::new(70)), sent_ms)
    }

    /// Returns a run of a plain lock.
    fn plain<const N: usize>(sent_ms: [Option<u64>; N]) -> Self {
        Self::with_fence(terms(N), None, sent_ms)
    }

    fn with_fence<const N: usize>(terms: Terms, fence: Option<Fence>, sent_ms: [Option<u64>; N]) -> Self {
        let ack = |node: usize| sent_ms[node].map(|ms| Ack { elector: Elector::at(node), sent: at(ms) });
        let acks = (0..N).map(ack).collect();
        let hold = Hold::new(terms, ATTEMPT, fence, acks, at(0)).expect("a majority granted");
        Self { hold, rng: CountingRng::low() }
    }

    /// Returns a run of a lease that five nodes granted at the origin.
    fn held() -> Self {
        Self::new(terms(5), [Some(0); 5])
    }

    /// Returns a run that has just sent its first renewal, at 3 s.
    fn renewing() -> Self {
        let mut run = Self::held();
        assert_eq!(asked_round(&run.tick(3_000)), Some(1));
        run
    }

    fn tick(&mut self, now_ms: u64) -> Vec<Step> {
        self.hold.tick(at(now_ms), &mut self.rng)
    }

    fn take(&mut self, now_ms: u64, round: u32, node: usize, outcome: Outcome) -> Vec<Step> {
        self.take_from(now_ms, round, (node, Elector::at(node)), outcome)
    }

    /// Takes the outcome of a elector at this position.
    fn take_from(&mut self, now_ms: u64, round: u32, (node, elector): (usize, Elector), outcome: Outcome) -> Vec<Step> {
        self.hold.take(round, node, by(elector, outcome), at(now_ms), &mut self.rng)
    }

    /// Takes these nodes' outcomes. Only the last one may lead to steps.
    fn take_all<const K: usize>(&mut self, now_ms: u64, round: u32, answers: [(usize, Outcome); K]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (node, outcome) in answers {
            assert_eq!(steps, [], "decided before node {node} answered");
            steps = self.take(now_ms, round, node, outcome);
        }
        steps
    }

    fn valid_until(&self) -> Moment {
        at(0) + self.hold.validity(at(0))
    }
}

/// Returns the round of the first `Ask`.
fn asked_round(steps: &[Step]) -> Option<u32> {
    steps.iter().find_map(|step| match step {
        Step::Ask { round, .. } => Some(*round),
        _ => None,
    })
}

#[test]
fn a_lease_renews_after_a_third_of_the_ttl_and_asks_for_repair() {
    let mut run = Run::held();
    assert_eq!(run.hold.next_tick(), Some(at(3_000)));
    assert_eq!(run.tick(2_999), []);
    let (fence, holder, mode) = (Fence::new(70), "1 host test".into(), Mode::EXCLUSIVE);
    let request = Request::Renew { attempt: ATTEMPT, fence, ttl: ttl(9_000), repair: true, holder, mode };
    assert_eq!(run.tick(3_000), [Step::Ask { nodes: NodeSet::first(5), round: 1, request }]);
    assert_eq!(run.hold.next_tick(), Some(at(3_200)), "the node deadline is 200 ms");
    assert_eq!(run.tick(3_001), [], "a renewal is in flight");
}

#[test]
fn a_plain_lock_is_extended_without_repair() {
    let mut run = Run::plain([Some(0); 3]);
    let request = Request::PlainExtend { attempt: ATTEMPT, ttl: ttl(9_000) };
    assert_eq!(run.tick(3_000), [Step::Ask { nodes: NodeSet::first(3), round: 1, request }]);
}

#[test]
fn a_renewed_validity_counts_from_the_mth_largest_send_time() {
    let mut run = Run::renewing();
    assert_eq!(run.take_all(3_010, 1, [(4, grant(70, 3_005)), (1, grant(70, 3_001))]), []);
    assert_eq!(run.valid_until(), at(VALIDITY_MS), "two of five nodes are no majority");
    assert_eq!(run.take(3_010, 1, 0, grant(70, 3_000)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS));
    assert_eq!(run.take(3_020, 1, 2, grant(70, 3_002)), [], "a grant after the majority still counts");
    assert_eq!(run.valid_until(), at(3_001 + VALIDITY_MS));
    assert_eq!(
        run.hold.next_tick(),
        Some(at(6_000)),
        "the next renewal is a third of the ttl after a majority was asked"
    );
}

#[test]
fn grants_of_different_rounds_do_not_complete_a_renewal() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    assert!(matches!(run.tick(3_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(asked_round(&run.tick(3_300)), Some(2));
    assert_eq!(run.take(3_301, 2, 2, grant(70, 3_300)), [], "one grant of round 2");
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS), "validity counts from the oldest of three votes");
    assert!(matches!(run.tick(3_500)[..], [Step::Failed { round: 2, .. }]));
}

#[test]
fn a_late_grant_counts_for_its_node_from_its_own_send_time() {
    let mut run = Run::renewing();
    run.tick(3_200);
    run.tick(3_300);
    let late_grants = [0, 1, 2].map(|node| (node, grant(70, 3_000)));
    assert_eq!(run.take_all(3_301, 1, late_grants), [], "the answers to round 1 do not end round 2");
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS));
    let grants = [2, 3, 4].map(|node| (node, grant(70, 3_300)));
    assert_eq!(run.take_all(3_302, 2, grants), [Step::Renewed { round: 2 }]);
    assert_eq!(
        run.take(3_303, 1, 2, grant(70, 3_000)),
        [],
        "an answer to round 1 does not replace an answer to round 2"
    );
    assert_eq!(run.valid_until(), at(3_300 + VALIDITY_MS));
}

#[test]
fn a_majority_that_answers_after_its_round_is_not_asked_again() {
    let mut run = Run::renewing();
    run.take(3_100, 1, 0, grant(70, 3_000));
    assert!(matches!(run.tick(3_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.hold.next_tick(), Some(at(3_300)));
    assert_eq!(run.take_all(3_250, 1, [(1, grant(70, 3_000)), (2, grant(70, 3_150))]), []);
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS));
    assert_eq!(run.hold.next_tick(), Some(at(6_000)));
    assert_eq!(run.tick(3_300), []);
}

#[test]
fn a_late_answer_does_not_end_the_retries_if_no_majority_granted_the_last_round() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.tick(3_200);
    assert_eq!(asked_round(&run.tick(3_300)), Some(2));
    run.tick(3_500);
    assert_eq!(run.take(3_501, 2, 2, grant(70, 3_300)), []);
    assert_eq!(run.hold.next_tick(), Some(at(3_600)), "two of the three grants are of round 1");
    assert_eq!(asked_round(&run.tick(3_600)), Some(3));
}

#[test]
fn answers_to_the_acquire_that_arrive_after_the_win_count_as_round_0() {
    let mut run = Run::new(terms(5), [Some(5), Some(5), Some(5), None, None]);
    assert_eq!(run.take_all(20, 0, [(3, grant(60, 5)), (4, held(1))]), []);
    run.tick(3_000);
    assert_eq!(run.take(3_001, 1, 0, held(80)), [], "nodes 1, 2 and 3 are a majority");
    assert!(run.hold.is_held());
}

#[test]
fn a_lease_is_lost_when_its_validity_ends() {
    let mut run = Run::new(Terms { renewals: Renewals::Off, ..terms(5) }, [Some(0); 5]);
    assert_eq!(run.hold.next_tick(), Some(at(VALIDITY_MS)));
    assert_eq!(run.tick(VALIDITY_MS - 1), []);
    assert_eq!(run.hold.validity(at(VALIDITY_MS - 1)), ms(1));
    assert_eq!(run.hold.validity(at(VALIDITY_MS)), Duration::ZERO, "no tick came yet");
    assert_eq!(run.tick(VALIDITY_MS), [Step::Lost(Loss::Expired)]);
    assert_eq!((run.hold.loss(), run.hold.next_tick()), (Some(Loss::Expired), None));
}

#[test]
fn every_input_checks_first_whether_the_validity_has_ended() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    assert_eq!(
        run.take(VALIDITY_MS, 1, 2, grant(70, 3_000)),
        [Step::Lost(Loss::Expired)],
        "the grant would complete a majority"
    );
    let mut run = Run::held();
    assert_eq!(run.hold.extend(at(VALIDITY_MS)), (None, alloc::vec![Step::Lost(Loss::Expired)]));
    let mut run = Run::held();
    run.hold.extend(at(VALIDITY_MS - 1));
    assert_eq!(run.hold.next_tick(), Some(at(VALIDITY_MS)), "the validity ends before the node deadline");
    let mut run = Run::held();
    assert_eq!(run.tick(VALIDITY_MS + 5_000), [Step::Lost(Loss::Expired)], "a renewal was due earlier");
}

#[test]
fn lost_is_final() {
    let mut run = Run::renewing();
    run.tick(VALIDITY_MS);
    for node in 0..5 {
        assert_eq!(run.take(VALIDITY_MS + 1, 1, node, grant(70, VALIDITY_MS)), []);
    }
    assert_eq!(run.hold.extend(at(VALIDITY_MS + 1)), (None, Vec::new()));
    assert_eq!(run.hold.extend(at(1)), (None, Vec::new()), "an earlier time does not revive the lease");
    assert_eq!(run.tick(VALIDITY_MS + 2), []);
    assert_eq!(run.hold.validity(at(1)), Duration::ZERO);
    assert!(!run.hold.is_held());
    assert!(!run.hold.release());
    assert_eq!(run.hold.loss(), Some(Loss::Expired));
}

#[test]
fn a_majority_of_refusals_loses_the_lease_at_once() {
    for (why, loss) in [(held(80), Loss::Removed), (refuse(Refusal::Tombstoned), Loss::Broken)] {
        let mut run = Run::renewing();
        let refusals = [0, 1, 2].map(|node| (node, why.clone()));
        assert_eq!(run.take_all(3_001, 1, refusals), [Step::Lost(loss)]);
        assert_eq!((run.hold.loss(), run.hold.next_tick()), (Some(loss), None));
    }
}

#[test]
fn a_doubted_lease_is_renewed_at_once() {
    let mut run = Run::held();
    assert_eq!(asked_round(&run.hold.doubt(at(10))), Some(1));
    let grants = [0, 1, 2].map(|node| (node, grant(70, 10)));
    assert_eq!(run.take_all(11, 1, grants), [Step::Renewed { round: 1 }], "the lease is not broken");
    assert_eq!(run.hold.next_tick(), Some(at(3_010)));
}

#[test]
fn a_lease_that_is_doubted_during_a_renewal_is_renewed_again() {
    let mut run = Run::renewing();
    assert_eq!(run.hold.doubt(at(3_001)), [], "the renewal in flight goes on");
    assert_eq!(run.hold.doubt(at(3_001)), []);
    let mut steps = run.take_all(3_002, 1, [0, 1, 2].map(|node| (node, grant(70, 3_000))));
    assert_eq!(asked_round(&steps.split_off(1)), Some(2));
    assert_eq!(steps, [Step::Renewed { round: 1 }]);
    let refusals = [0, 1, 2].map(|node| (node, refuse(Refusal::Tombstoned)));
    assert_eq!(run.take_all(3_003, 2, refusals), [Step::Lost(Loss::Broken)]);
    assert_eq!(run.hold.doubt(at(3_004)), [], "the lease is lost");
}

#[test]
fn a_lease_that_is_doubted_during_a_failed_renewal_is_renewed_again() {
    let mut run = Run::renewing();
    run.hold.doubt(at(3_001));
    assert_eq!(asked_round(&run.tick(3_200)), Some(2));
}

#[test]
fn a_refusal_by_one_node_of_a_bare_majority_loses_the_lease_at_once() {
    let mut run = Run::new(terms(5), [Some(0), Some(0), Some(0), None, None]);
    run.tick(3_000);
    assert_eq!(run.take(3_001, 1, 4, held(80)), [], "node 4 has never granted");
    assert_eq!(run.take(3_001, 1, 0, held(80)), [Step::Lost(Loss::Removed)]);
}

#[test]
fn a_minority_of_refusals_does_not_stop_a_renewal() {
    let mut run = Run::renewing();
    assert_eq!(run.take_all(3_001, 1, [(0, held(80)), (1, refuse(Refusal::Tombstoned))]), []);
    let grants = [2, 3, 4].map(|node| (node, grant(70, 3_000)));
    assert_eq!(run.take_all(3_001, 1, grants), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS));
}

#[test]
fn a_refusal_cancels_the_earlier_grant_of_its_node() {
    let mut run = Run::new(terms(3), [Some(0); 3]);
    run.tick(3_000);
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.hold.extend(at(8_000));
    assert_eq!(run.take(8_001, 2, 0, held(80)), []);
    assert_eq!(run.valid_until(), at(VALIDITY_MS), "validity counts from the old vote of node 2");
    let mut run = Run::new(terms(3), [Some(0); 3]);
    run.tick(3_000);
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.hold.extend(at(10_000));
    assert_eq!(run.take(10_001, 2, 0, held(80)), [Step::Lost(Loss::Expired)], "the old vote of node 2 has expired");
}

#[test]
fn a_wrong_epoch_or_a_silence_keeps_the_earlier_grants() {
    for why in [refuse(Refusal::WrongEpoch), late()] {
        let mut run = Run::renewing();
        let steps = run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, why.clone())));
        let [Step::Failed { round: 1, tally }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((tally.refused(), tally.silent()), (0, 5));
        assert_eq!(run.valid_until(), at(VALIDITY_MS));
    }
}

#[test]
fn a_failed_renewal_is_repeated_until_one_succeeds() {
    let mut run = Run::renewing();
    let mut now = 3_000;
    for round in 1..=3 {
        assert!(matches!(run.tick(now + 200)[..], [Step::Failed { round: failed, .. }] if failed == round));
        now += 300;
        assert_eq!(run.hold.next_tick(), Some(at(now)), "the shortest delay is half a node deadline");
        assert_eq!(asked_round(&run.tick(now)), Some(round + 1));
    }
    let grants = [0, 1, 2].map(|node| (node, grant(70, now)));
    assert_eq!(run.take_all(now, 4, grants), [Step::Renewed { round: 4 }]);
    assert_eq!(run.hold.next_tick(), Some(at(now + 3_000)));
}

#[test]
fn a_late_tick_fails_the_renewal_and_does_not_start_another_at_once() {
    let mut run = Run::renewing();
    assert!(matches!(run.tick(5_000)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.hold.next_tick(), Some(at(5_100)));
}

#[test]
fn extend_joins_a_renewal_in_flight() {
    let mut run = Run::held();
    let (round, steps) = run.hold.extend(at(100));
    assert_eq!((round, asked_round(&steps)), (Some(1), Some(1)));
    assert_eq!(run.hold.extend(at(150)), (Some(1), Vec::new()));
    run.take_all(160, 1, [0, 1, 2].map(|node| (node, grant(70, 100))));
    let (round, steps) = run.hold.extend(at(170));
    assert_eq!((round, asked_round(&steps)), (Some(2), Some(2)), "the first renewal is complete");
}

#[test]
fn renewals_stop_at_the_end_of_the_lifetime() {
    let renewals = Renewals::Watchdog { every: None, lifetime: ms(4_000) };
    let mut run = Run::new(Terms { renewals, ..terms(1) }, [Some(0)]);
    assert_eq!(asked_round(&run.tick(3_000)), Some(1));
    assert_eq!(run.take(3_001, 1, 0, grant(70, 3_000)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.hold.next_tick(), Some(at(3_000 + VALIDITY_MS)), "only the end of validity is left");
    assert_eq!(run.tick(6_000), []);
    assert_eq!(run.tick(3_000 + VALIDITY_MS), [Step::Lost(Loss::Expired)]);
}

#[test]
fn without_a_watchdog_only_the_holder_renews() {
    let mut run = Run::new(Terms { renewals: Renewals::Off, ..terms(1) }, [Some(0)]);
    assert_eq!(run.tick(8_000), []);
    assert_eq!(asked_round(&run.hold.extend(at(8_000)).1), Some(1));
    assert!(matches!(run.tick(8_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.tick(8_900), [], "a failed renewal is not repeated");
    assert_eq!(asked_round(&run.hold.extend(at(8_900)).1), Some(2));
    assert_eq!(run.take(8_901, 2, 0, grant(70, 8_900)), [Step::Renewed { round: 2 }]);
    assert_eq!(run.hold.next_tick(), Some(at(8_900 + VALIDITY_MS)));
}

#[test]
fn a_released_lease_ignores_all_inputs() {
    let mut run = Run::renewing();
    assert!(run.hold.release());
    assert_eq!((run.hold.is_held(), run.hold.loss(), run.hold.next_tick()), (false, None, None));
    assert_eq!(run.hold.validity(at(3_001)), Duration::ZERO);
    assert_eq!(run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, grant(70, 3_000)))), []);
    assert_eq!(run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, held(80)))), []);
    assert_eq!(run.hold.extend(at(3_001)), (None, Vec::new()));
    assert_eq!(run.tick(VALIDITY_MS), [], "a released lease is not lost");
    assert!(!run.hold.release());
}

#[test]
fn a_vote_of_an_unknown_node_changes_nothing() {
    let mut run = Run::renewing();
    assert_eq!(run.take(3_001, 1, 5, held(80)), []);
    assert_eq!(run.take(3_001, 9, usize::MAX, grant(70, 3_000)), []);
    assert_eq!(run.valid_until(), at(VALIDITY_MS));
}

#[cfg(feature = "mutants")]
#[test]
fn without_count_from_send_validity_counts_from_the_reply() {
    let rules = Rules::without(Rule::CountFromSend);
    let mut run = Run::new(Terms { rules, ..terms(1) }, [Some(0)]);
    run.tick(3_000);
    run.take(8_000, 1, 0, grant(70, 3_000));
    assert_eq!(run.valid_until(), at(8_000 + VALIDITY_MS));
}

#[test]
fn a_grant_of_another_slot_does_not_count_for_the_lease() {
    let mode = |slot| Mode::Slot { permits: 2, slot };
    let grant_of = |index, sent| Outcome::Voted {
        vote: Vote::Grant { fence: Fence::new(70), slot: Some(GrantedSlot { index, free: Vec::new() }) },
        elector: Elector::at(2),
        sent: at(sent),
    };
    let held_in = |slot| Run::new(Terms { mode: mode(slot), ..terms(3) }, [Some(0), Some(0), None]);
    let loss_after_refusal = |run: &mut Run| {
        run.take(2, 0, 1, held(70));
        run.hold.loss()
    };
    let mut other_slot = held_in(0);
    other_slot.hold.take(0, 2, grant_of(1, 0), at(1), &mut CountingRng::low());
    assert_eq!(
        loss_after_refusal(&mut other_slot),
        Some(Loss::Removed),
        "one vote for slot 0 and one for slot 1 are no majority"
    );
    let mut same_slot = held_in(0);
    same_slot.hold.take(0, 2, grant_of(0, 0), at(1), &mut CountingRng::low());
    assert_eq!(loss_after_refusal(&mut same_slot), None);
}
