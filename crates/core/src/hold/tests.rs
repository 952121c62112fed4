mod handing;
mod watchdog;

use super::*;
use crate::backoff::Retry;
use crate::rules::Rules;
use crate::terms::Quorum;
use crate::testing::{Loaded, at, grant, held, late, ms, refuse, ttl};
use crate::time::Drift;
use crate::validity::valid_until;
use crate::vote::GrantedSlot;

const ATTEMPT: LeaseId = LeaseId::from_bits(7);
/// A ttl of 9 s less 1 % and 2 ms.
const VALID: u64 = 9_000 - 92;

fn terms(nodes: usize) -> Terms {
    Terms {
        quorum: Quorum::new(nodes).unwrap(),
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

fn won<const N: usize>(acks: [Option<u64>; N]) -> Won {
    let acks = acks.map(|ack| ack.map(at)).to_vec();
    let terms = terms(N);
    let until = valid_until(acks.iter().flatten().copied(), terms.quorum.majority(), terms.ttl, terms.drift);
    Won {
        attempt: ATTEMPT,
        fence: Some(Fence::new(70)),
        mode: terms.mode,
        acks,
        valid_until: until.unwrap(),
        sealed_late: false,
        waiter: None,
    }
}

/// A hold with its random numbers.
struct Run {
    hold: Hold,
    rng: Loaded,
}

impl Run {
    fn new(terms: Terms, won: Won) -> Self {
        Self { hold: Hold::new(terms, won, at(0)), rng: Loaded::low() }
    }

    /// Five nodes granted at the origin.
    fn held() -> Self {
        Self::new(terms(5), won([Some(0); 5]))
    }

    /// The first renewal has just been sent.
    fn renewing() -> Self {
        let mut run = Self::held();
        assert_eq!(asked(&run.tick(3_000)), Some(1));
        run
    }

    fn tick(&mut self, now: u64) -> Vec<Step> {
        self.hold.tick(at(now), &mut self.rng)
    }

    fn take(&mut self, now: u64, round: u32, node: usize, outcome: Outcome) -> Vec<Step> {
        self.hold.take(round, node, outcome, at(now), &mut self.rng)
    }

    /// The nodes' answers, of which only the last leads to anything.
    fn take_all<const K: usize>(&mut self, now: u64, round: u32, answers: [(usize, Outcome); K]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (node, outcome) in answers {
            assert_eq!(steps, [], "decided before node {node} answered");
            steps = self.take(now, round, node, outcome);
        }
        steps
    }

    fn valid_until(&self) -> Moment {
        at(0) + self.hold.validity(at(0))
    }
}

fn asked(steps: &[Step]) -> Option<u32> {
    steps.iter().find_map(|step| match step {
        Step::Ask { round, .. } => Some(*round),
        _ => None,
    })
}

#[test]
fn it_renews_after_a_third_of_the_ttl_and_repairs() {
    let mut run = Run::held();
    assert_eq!(run.hold.next_tick(), Some(at(3_000)));
    assert_eq!(run.tick(2_999), []);
    let (fence, holder, mode) = (Fence::new(70), "1 host test".into(), Mode::EXCLUSIVE);
    let request = Request::Renew { attempt: ATTEMPT, fence, ttl: ttl(9_000), repair: true, holder, mode };
    assert_eq!(run.tick(3_000), [Step::Ask { nodes: NodeSet::first(5), round: 1, request }]);
    assert_eq!(run.hold.next_tick(), Some(at(3_200)), "the node deadline");
    assert_eq!(run.tick(3_001), [], "one round at a time");
}

#[test]
fn a_plain_lock_is_only_extended() {
    let mut run = Run::new(terms(3), Won { fence: None, ..won([Some(0); 3]) });
    let request = Request::PlainExtend { attempt: ATTEMPT, ttl: ttl(9_000) };
    assert_eq!(run.tick(3_000), [Step::Ask { nodes: NodeSet::first(3), round: 1, request }]);
}

#[test]
fn a_majority_renews_from_its_mth_largest_send() {
    let mut run = Run::renewing();
    assert_eq!(run.take_all(3_010, 1, [(4, grant(70, 3_005)), (1, grant(70, 3_001))]), []);
    assert_eq!(run.valid_until(), at(VALID), "two of five restart nothing");
    assert_eq!(run.take(3_010, 1, 0, grant(70, 3_000)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_000 + VALID));
    assert_eq!(run.take(3_020, 1, 2, grant(70, 3_002)), [], "later ones still count");
    assert_eq!(run.valid_until(), at(3_001 + VALID));
    assert_eq!(run.hold.next_tick(), Some(at(6_000)), "a third after a majority was asked");
}

#[test]
fn partial_rounds_are_never_added_up() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    assert!(matches!(run.tick(3_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(asked(&run.tick(3_300)), Some(2));
    assert_eq!(run.take(3_301, 2, 2, grant(70, 3_300)), [], "not a renewal");
    assert_eq!(run.valid_until(), at(3_000 + VALID), "three votes stand, the oldest since round 1");
    assert!(matches!(run.tick(3_500)[..], [Step::Failed { round: 2, .. }]));
}

#[test]
fn a_late_grant_counts_for_its_node_from_its_own_send() {
    let mut run = Run::renewing();
    run.tick(3_200);
    run.tick(3_300);
    let stray = [0, 1, 2].map(|node| (node, grant(70, 3_000)));
    assert_eq!(run.take_all(3_301, 1, stray), [], "round 2 goes on");
    assert_eq!(run.valid_until(), at(3_000 + VALID));
    let fresh = [2, 3, 4].map(|node| (node, grant(70, 3_300)));
    assert_eq!(run.take_all(3_302, 2, fresh), [Step::Renewed { round: 2 }]);
    assert_eq!(run.take(3_303, 1, 2, grant(70, 3_000)), [], "nor does an old answer age a newer one");
    assert_eq!(run.valid_until(), at(3_300 + VALID));
}

#[test]
fn a_majority_that_answers_after_its_round_need_not_be_asked_again() {
    let mut run = Run::renewing();
    run.take(3_100, 1, 0, grant(70, 3_000));
    assert!(matches!(run.tick(3_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.hold.next_tick(), Some(at(3_300)));
    assert_eq!(run.take_all(3_250, 1, [(1, grant(70, 3_000)), (2, grant(70, 3_150))]), []);
    assert_eq!(run.valid_until(), at(3_000 + VALID));
    assert_eq!(run.hold.next_tick(), Some(at(6_000)));
    assert_eq!(run.tick(3_300), []);
}

#[test]
fn what_a_majority_granted_before_a_round_does_not_make_up_for_it() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.tick(3_200);
    assert_eq!(asked(&run.tick(3_300)), Some(2));
    run.tick(3_500);
    assert_eq!(run.take(3_501, 2, 2, grant(70, 3_300)), []);
    assert_eq!(run.hold.next_tick(), Some(at(3_600)), "two were asked in round 1 only");
    assert_eq!(asked(&run.tick(3_600)), Some(3));
}

#[test]
fn answers_to_the_acquire_that_came_after_the_win_are_round_zero() {
    let mut run = Run::new(terms(5), won([Some(5), Some(5), Some(5), None, None]));
    assert_eq!(run.take_all(20, 0, [(3, grant(60, 5)), (4, held(1))]), []);
    run.tick(3_000);
    assert_eq!(run.take(3_001, 1, 0, held(80)), [], "node 3 makes up for node 0");
    assert!(run.hold.is_held());
}

#[test]
fn it_is_lost_at_the_end_of_validity() {
    let mut run = Run::new(Terms { renewals: Renewals::Off, ..terms(5) }, won([Some(0); 5]));
    assert_eq!(run.hold.next_tick(), Some(at(VALID)));
    assert_eq!(run.tick(VALID - 1), []);
    assert_eq!(run.hold.validity(at(VALID - 1)), ms(1));
    assert_eq!(run.hold.validity(at(VALID)), Duration::ZERO, "before any tick");
    assert_eq!(run.tick(VALID), [Step::Lost(Loss::Expired)]);
    assert_eq!((run.hold.loss(), run.hold.next_tick()), (Some(Loss::Expired), None));
}

#[test]
fn the_end_comes_first_even_if_no_tick_came_before() {
    let mut run = Run::renewing();
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    assert_eq!(run.take(VALID, 1, 2, grant(70, 3_000)), [Step::Lost(Loss::Expired)], "it would have renewed");
    let mut run = Run::held();
    assert_eq!(run.hold.extend(at(VALID)), (None, alloc::vec![Step::Lost(Loss::Expired)]));
    let mut run = Run::held();
    run.hold.extend(at(VALID - 1));
    assert_eq!(run.hold.next_tick(), Some(at(VALID)), "nor does it wait for the node deadline");
    let mut run = Run::held();
    assert_eq!(run.tick(VALID + 5_000), [Step::Lost(Loss::Expired)], "a renewal was due, too");
}

#[test]
fn lost_is_final() {
    let mut run = Run::renewing();
    run.tick(VALID);
    for node in 0..5 {
        assert_eq!(run.take(VALID + 1, 1, node, grant(70, VALID)), []);
    }
    assert_eq!(run.hold.extend(at(VALID + 1)), (None, Vec::new()));
    assert_eq!(run.hold.extend(at(1)), (None, Vec::new()), "nor does an earlier clock revive it");
    assert_eq!(run.tick(VALID + 2), []);
    assert_eq!(run.hold.validity(at(1)), Duration::ZERO);
    assert!(!run.hold.is_held());
    assert!(!run.hold.release(), "it was over before");
    assert_eq!(run.hold.loss(), Some(Loss::Expired));
}

#[test]
fn a_majority_of_refusals_loses_at_once() {
    for (why, loss) in [(held(80), Loss::Taken), (refuse(Refusal::Tombstoned), Loss::Broken)] {
        let mut run = Run::renewing();
        let refusals = [0, 1, 2].map(|node| (node, why.clone()));
        assert_eq!(run.take_all(3_001, 1, refusals), [Step::Lost(loss)]);
        assert_eq!((run.hold.loss(), run.hold.next_tick()), (Some(loss), None));
    }
}

#[test]
fn doubt_renews_at_once() {
    let mut run = Run::held();
    assert_eq!(asked(&run.hold.doubt(at(10))), Some(1));
    let grants = [0, 1, 2].map(|node| (node, grant(70, 10)));
    assert_eq!(run.take_all(11, 1, grants), [Step::Renewed { round: 1 }], "it was nothing");
    assert_eq!(run.hold.next_tick(), Some(at(3_010)));
}

#[test]
fn doubt_during_a_renewal_asks_again_after_it() {
    let mut run = Run::renewing();
    assert_eq!(run.hold.doubt(at(3_001)), [], "what is under way may have been answered before");
    assert_eq!(run.hold.doubt(at(3_001)), []);
    let mut steps = run.take_all(3_002, 1, [0, 1, 2].map(|node| (node, grant(70, 3_000))));
    assert_eq!(asked(&steps.split_off(1)), Some(2));
    assert_eq!(steps, [Step::Renewed { round: 1 }]);
    let refusals = [0, 1, 2].map(|node| (node, refuse(Refusal::Tombstoned)));
    assert_eq!(run.take_all(3_003, 2, refusals), [Step::Lost(Loss::Broken)]);
    assert_eq!(run.hold.doubt(at(3_004)), [], "it is over");
}

#[test]
fn doubt_during_a_renewal_that_nobody_answers_asks_again_after_it() {
    let mut run = Run::renewing();
    run.hold.doubt(at(3_001));
    assert_eq!(asked(&run.tick(3_200)), Some(2));
}

#[test]
fn a_refusal_that_breaks_a_bare_majority_loses_at_once() {
    let mut run = Run::new(terms(5), won([Some(0), Some(0), Some(0), None, None]));
    run.tick(3_000);
    assert_eq!(run.take(3_001, 1, 4, held(80)), [], "it never counted");
    assert_eq!(run.take(3_001, 1, 0, held(80)), [Step::Lost(Loss::Taken)]);
}

#[test]
fn a_minority_of_refusals_does_not_stop_a_renewal() {
    let mut run = Run::renewing();
    assert_eq!(run.take_all(3_001, 1, [(0, held(80)), (1, refuse(Refusal::Tombstoned))]), []);
    let grants = [2, 3, 4].map(|node| (node, grant(70, 3_000)));
    assert_eq!(run.take_all(3_001, 1, grants), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_000 + VALID));
}

#[test]
fn a_refusal_takes_back_what_its_node_had_granted() {
    let mut run = Run::new(terms(3), won([Some(0); 3]));
    run.tick(3_000);
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.hold.extend(at(8_000));
    assert_eq!(run.take(8_001, 2, 0, held(80)), []);
    assert_eq!(run.valid_until(), at(VALID), "only node 2's old vote is left beside node 1's");
    let mut run = Run::new(terms(3), won([Some(0); 3]));
    run.tick(3_000);
    run.take_all(3_001, 1, [(0, grant(70, 3_000)), (1, grant(70, 3_000))]);
    run.hold.extend(at(10_000));
    assert_eq!(run.take(10_001, 2, 0, held(80)), [Step::Lost(Loss::Expired)], "and that has ended");
}

#[test]
fn a_wrong_epoch_or_silence_drops_nothing() {
    for why in [refuse(Refusal::WrongEpoch), late()] {
        let mut run = Run::renewing();
        let steps = run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, why.clone())));
        let [Step::Failed { round: 1, tally }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((tally.refused(), tally.silent()), (0, 5));
        assert_eq!(run.valid_until(), at(VALID));
    }
}

#[test]
fn a_failed_round_is_repeated_until_success_or_the_end() {
    let mut run = Run::renewing();
    let mut now = 3_000;
    for round in 1..=3 {
        assert!(matches!(run.tick(now + 200)[..], [Step::Failed { round: failed, .. }] if failed == round));
        now += 300;
        assert_eq!(run.hold.next_tick(), Some(at(now)), "half a node deadline later, with these rng");
        assert_eq!(asked(&run.tick(now)), Some(round + 1));
    }
    let grants = [0, 1, 2].map(|node| (node, grant(70, now)));
    assert_eq!(run.take_all(now, 4, grants), [Step::Renewed { round: 4 }]);
    assert_eq!(run.hold.next_tick(), Some(at(now + 3_000)));
}

#[test]
fn a_late_tick_fails_the_round_and_starts_no_second_one_at_once() {
    let mut run = Run::renewing();
    assert!(matches!(run.tick(5_000)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.hold.next_tick(), Some(at(5_100)));
}

#[test]
fn extend_joins_a_round_under_way() {
    let mut run = Run::held();
    let (round, steps) = run.hold.extend(at(100));
    assert_eq!((round, asked(&steps)), (Some(1), Some(1)));
    assert_eq!(run.hold.extend(at(150)), (Some(1), Vec::new()));
    run.take_all(160, 1, [0, 1, 2].map(|node| (node, grant(70, 100))));
    let (round, steps) = run.hold.extend(at(170));
    assert_eq!((round, asked(&steps)), (Some(2), Some(2)), "the first one is over");
}

#[test]
fn the_lifetime_ends_the_renewals() {
    let renewals = Renewals::Watchdog { every: None, lifetime: ms(4_000) };
    let mut run = Run::new(Terms { renewals, ..terms(1) }, won([Some(0)]));
    assert_eq!(asked(&run.tick(3_000)), Some(1));
    assert_eq!(run.take(3_001, 1, 0, grant(70, 3_000)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.hold.next_tick(), Some(at(3_000 + VALID)), "nothing but the end is left");
    assert_eq!(run.tick(6_000), []);
    assert_eq!(run.tick(3_000 + VALID), [Step::Lost(Loss::Expired)]);
}

#[test]
fn without_a_watchdog_only_the_holder_renews() {
    let mut run = Run::new(Terms { renewals: Renewals::Off, ..terms(1) }, won([Some(0)]));
    assert_eq!(run.tick(8_000), []);
    assert_eq!(asked(&run.hold.extend(at(8_000)).1), Some(1));
    assert!(matches!(run.tick(8_200)[..], [Step::Failed { round: 1, .. }]));
    assert_eq!(run.tick(8_900), [], "nor is a failure repeated");
    assert_eq!(asked(&run.hold.extend(at(8_900)).1), Some(2));
    assert_eq!(run.take(8_901, 2, 0, grant(70, 8_900)), [Step::Renewed { round: 2 }]);
    assert_eq!(run.hold.next_tick(), Some(at(8_900 + VALID)));
}

#[test]
fn release_stops_everything() {
    let mut run = Run::renewing();
    assert!(run.hold.release());
    assert_eq!((run.hold.is_held(), run.hold.loss(), run.hold.next_tick()), (false, None, None));
    assert_eq!(run.hold.validity(at(3_001)), Duration::ZERO);
    assert_eq!(run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, grant(70, 3_000)))), []);
    assert_eq!(run.take_all(3_001, 1, [0, 1, 2].map(|node| (node, held(80)))), []);
    assert_eq!(run.hold.extend(at(3_001)), (None, Vec::new()));
    assert_eq!(run.tick(VALID), [], "a released lease is not lost");
    assert!(!run.hold.release());
}

#[test]
fn a_vote_from_nowhere_changes_nothing() {
    let mut run = Run::renewing();
    assert_eq!(run.take(3_001, 1, 5, held(80)), []);
    assert_eq!(run.take(3_001, 9, usize::MAX, grant(70, 3_000)), []);
    assert_eq!(run.valid_until(), at(VALID));
}

#[cfg(feature = "mutants")]
#[test]
fn without_count_from_send_a_slow_renewal_looks_new() {
    let rules = Rules::without(Rule::CountFromSend);
    let mut run = Run::new(Terms { rules, ..terms(1) }, won([Some(0)]));
    run.tick(3_000);
    run.take(8_000, 1, 0, grant(70, 3_000));
    assert_eq!(run.valid_until(), at(8_000 + VALID));
}

#[test]
fn a_grant_of_another_slot_is_no_vote_for_the_one_that_was_won() {
    let mode = |slot| Mode::Slot { permits: 2, slot };
    let grant_of = |index, sent| Outcome::Voted {
        vote: Vote::Grant { fence: Fence::new(70), slot: Some(GrantedSlot { index, free: Vec::new() }) },
        sent: at(sent),
    };
    let held_in = |slot| {
        let won = Won { mode: mode(slot), ..won([Some(0), Some(0), None]) };
        Run::new(Terms { mode: mode(slot), ..terms(3) }, won)
    };
    let refused_later = |run: &mut Run| {
        run.hold.take(0, 1, held(70), at(2), &mut Loaded::low());
        run.hold.loss()
    };
    let mut astray = held_in(0);
    astray.hold.take(0, 2, grant_of(1, 0), at(1), &mut Loaded::low());
    assert_eq!(refused_later(&mut astray), Some(Loss::Taken), "one vote for slot 0 and one for slot 1 are no majority");
    let mut spared = held_in(0);
    spared.hold.take(0, 2, grant_of(0, 0), at(1), &mut Loaded::low());
    assert_eq!(refused_later(&mut spared), None);
}
