mod roster;
mod slots;
mod waiting;

use core::time::Duration;

use super::*;
use crate::backoff::Retry;
use crate::quorum::Elector;
use crate::rules::Rules;
use crate::terms::Renewals;
use crate::testing::{CountingRng, all, at, by, grant, held, late, ms, refuse, ttl};
use crate::time::Drift;
use crate::vote::{NodeVote, Silence};

/// The time of the nodes' clocks at the origin of the client's clock, in microseconds.
const CLOCK: u64 = 1_000_000;

fn terms(nodes: usize) -> Terms {
    Terms {
        electors: all(nodes),
        ttl: ttl(10_000),
        drift: Drift::REDLOCK.of(ttl(10_000)),
        min_validity: ms(5_000),
        node_deadline: ms(200),
        retry: Retry::ONCE,
        give_up: None,
        channel: None,
        plain: false,
        mode: Mode::EXCLUSIVE,
        holder: "1 host test".into(),
        renewals: Renewals::default(),
        trusting: false,
        rules: Rules::default(),
    }
}

/// Returns terms that allow any number of attempts.
fn retrying_terms(nodes: usize) -> Terms {
    Terms { retry: Retry { min: ms(50), max: ms(300), attempts: None }, ..terms(nodes) }
}

/// An acquire under test, with its random numbers and the last attempt that it made.
struct Run {
    acquire: Acquire,
    rng: CountingRng,
    attempt: LeaseId,
}

impl Run {
    fn new(terms: Terms) -> Self {
        let mut rng = CountingRng::low();
        let acquire = Acquire::new(terms, &mut rng);
        Self { attempt: acquire.attempt(), acquire, rng }
    }

    /// Creates a run, and lets it ask all nodes at the origin.
    fn start(terms: Terms) -> Self {
        let mut run = Self::new(terms);
        run.tick(0);
        run
    }

    fn tick(&mut self, now_ms: u64) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now_ms * 1_000).unwrap();
        let steps = self.acquire.tick(at(now_ms), Some(clock), &mut self.rng);
        self.track_attempt(steps)
    }

    fn take(&mut self, now_ms: u64, node: usize, outcome: Outcome) -> Vec<Step> {
        self.take_from(now_ms, node, Elector::at(node), outcome)
    }

    /// Takes this elector's outcome.
    fn take_from(&mut self, now_ms: u64, node: usize, elector: Elector, outcome: Outcome) -> Vec<Step> {
        let outcome = by(elector, outcome);
        let steps = self.acquire.take(self.attempt, node, outcome, at(now_ms), &mut self.rng);
        self.track_attempt(steps)
    }

    fn track_attempt(&mut self, steps: Vec<Step>) -> Vec<Step> {
        if let Some((_, request)) = first_ask(&steps) {
            self.attempt = request.attempt();
        }
        steps
    }

    /// Takes the outcomes of the first nodes. Only the last one may lead to steps.
    fn take_all<const K: usize>(&mut self, now_ms: u64, outcomes: [Outcome; K]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (node, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(steps, [], "decided before node {node} answered");
            steps = self.take(now_ms, node, outcome);
        }
        steps
    }

    /// Returns the release that ends the current attempt on all nodes.
    fn final_release(&self) -> Step {
        let nodes = NodeSet::first(self.acquire.terms.electors.nodes());
        Step::Release { attempt: self.attempt, nodes, parting: self.acquire.waiter().map(Parting::Leave) }
    }

    /// Checks that the steps end the acquire with a release, and returns the defeat.
    fn expect_defeat(&self, steps: &[Step]) -> Defeat {
        match steps {
            [release, Step::Defeated(defeat)] if *release == self.final_release() => {
                assert!(self.acquire.is_finished());
                defeat.clone()
            }
            other => panic!("not a defeat: {other:?}"),
        }
    }
}

/// Returns the nodes and the request of the first `Ask`.
fn first_ask(steps: &[Step]) -> Option<(Vec<usize>, &Request)> {
    steps.iter().find_map(|step| match step {
        Step::Ask { nodes, request, .. } => Some((nodes.iter().collect(), request)),
        _ => None,
    })
}

fn proposal(steps: &[Step]) -> u64 {
    match first_ask(steps) {
        Some((_, Request::Acquire { proposal, .. })) => proposal.get(),
        other => panic!("nothing proposed: {other:?}"),
    }
}

fn was_sealed_late(steps: &[Step]) -> bool {
    matches!(steps, [Step::Won { sealed_late: true, .. }])
}

fn expect_win(steps: &[Step]) -> Hold {
    match steps {
        [Step::Won { hold, .. }] => hold.clone(),
        other => panic!("not won: {other:?}"),
    }
}

/// Returns for each node the send time of the request that it granted.
fn acks(hold: &Hold) -> Vec<Option<Moment>> {
    hold.acks.iter().map(|ack| ack.map(|ack| ack.sent)).collect()
}

fn send_times<const K: usize>(millis: [Option<u64>; K]) -> Vec<Option<Moment>> {
    millis.iter().map(|ack| ack.map(at)).collect()
}

#[test]
fn the_first_tick_asks_all_nodes() {
    let mut run = Run::new(terms(3));
    let steps = run.tick(0);
    assert_eq!(steps, [run.acquire.request(NodeSet::first(3), Fence::new(CLOCK))]);
    assert_eq!(run.acquire.next_tick(), Some(at(200)));
    assert_eq!(run.tick(199), [], "an early tick changes nothing");
}

#[test]
fn a_majority_with_equal_fences_wins_before_the_other_nodes_answer() {
    let mut run = Run::start(terms(5));
    let steps = run.take_all(4, [grant(7, 0), grant(7, 1), grant(7, 2)]);
    let won = expect_win(&steps);
    assert_eq!((won.attempt(), won.fence(), was_sealed_late(&steps)), (run.attempt, Some(Fence::new(7)), false));
    assert_eq!(acks(&won), send_times([Some(0), Some(1), Some(2), None, None]));
    assert_eq!(won.valid_until(), at(10_000 - 102), "validity counts from the earliest of the three send times");
    assert_eq!(run.take(5, 3, grant(7, 0)), []);
    assert_eq!(run.tick(500), []);
}

#[test]
fn grants_with_different_fences_do_not_form_a_majority() {
    let mut run = Run::start(terms(5));
    assert_eq!(run.take_all(4, [grant(7, 0), grant(7, 1)]), []);
    assert!(first_ask(&run.take(4, 2, grant(9, 0))).is_some());
    assert_eq!(acks(&expect_win(&run.take(4, 3, grant(7, 3)))), send_times([Some(0), Some(1), None, Some(3), None]));
}

#[test]
fn a_single_node_is_a_majority() {
    assert_eq!(expect_win(&Run::start(terms(1)).take(1, 0, grant(7, 0))).fence(), Some(Fence::new(7)));
}

#[test]
fn a_plain_lock_is_won_without_a_fence() {
    let mut run = Run::new(Terms { plain: true, ..terms(3) });
    let steps = run.tick(0);
    let (nodes, request) = first_ask(&steps).unwrap();
    assert_eq!(nodes, [0, 1, 2]);
    assert!(matches!(request, Request::PlainAcquire { .. }));
    assert_eq!(expect_win(&run.take_all(1, [grant(0, 0), grant(0, 0)])).fence(), None);
}

#[test]
fn an_acquire_fails_with_its_reason_as_soon_as_no_majority_is_possible() {
    let tombstoned = || refuse(Refusal::Tombstoned);
    let wrong_epoch = || refuse(Refusal::WrongEpoch);
    for (outcomes, verdict) in [
        ([held(9), held(9), held(9)], Verdict::Held),
        ([held(9), late(), late()], Verdict::Held),
        ([held(9), tombstoned(), wrong_epoch()], Verdict::Held),
        ([late(), late(), late()], Verdict::NoQuorum),
        ([tombstoned(), tombstoned(), tombstoned()], Verdict::NoQuorum),
        ([wrong_epoch(), wrong_epoch(), late()], Verdict::NoQuorum),
    ] {
        let mut run = Run::start(terms(5));
        let steps = run.take_all(3, outcomes.clone());
        let defeat = run.expect_defeat(&steps);
        assert_eq!((defeat.verdict, defeat.tried), (verdict, 1), "{outcomes:?}");
        assert_eq!(defeat.tally.votes[3..], [NodeVote::Silent(Silence::Unheard), NodeVote::Silent(Silence::Unheard)]);
    }
}

#[test]
fn the_node_deadline_ends_the_round() {
    let mut run = Run::start(terms(3));
    assert_eq!(run.take_all(4, [held(9)]), []);
    let steps = run.tick(200);
    let defeat = run.expect_defeat(&steps);
    assert_eq!(defeat.verdict, Verdict::NoQuorum, "a majority is silent");
    assert_eq!(defeat.tally.votes[1], NodeVote::Silent(Silence::Late));
}

#[test]
fn a_seal_asks_only_the_nodes_with_lower_fences() {
    let mut run = Run::start(terms(3));
    let steps = run.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(steps, [run.acquire.request([1].into_iter().collect(), Fence::new(9))]);
    let steps = run.take(6, 1, grant(9, 5));
    let won = expect_win(&steps);
    assert_eq!((won.fence(), was_sealed_late(&steps)), (Some(Fence::new(9)), true));
    assert_eq!(acks(&won), send_times([Some(0), Some(5), None]));
}

#[test]
fn a_seal_ignores_a_node_whose_fence_is_far_ahead() {
    let mut run = Run::start(terms(5));
    assert_eq!(run.take_all(4, [grant(9_999, 0), grant(5, 0)]), []);
    let steps = run.take(4, 2, grant(5, 0));
    assert_eq!(
        (first_ask(&steps).unwrap().0, proposal(&steps)),
        (alloc::vec![1, 2], 9_999),
        "three grants are the whole majority"
    );
    assert_eq!(run.take(5, 3, grant(6, 0)), []);
    assert_eq!(run.take(5, 4, late()), []);
    assert_eq!(run.take(6, 1, late()), []);
    let steps = run.take(6, 2, late());
    assert_eq!(
        (first_ask(&steps).unwrap().0, proposal(&steps)),
        (alloc::vec![1, 2], 6),
        "the fourth grant allows a lower seal"
    );
    assert_eq!(run.take(7, 1, grant(6, 6)), []);
    assert_eq!(expect_win(&run.take(7, 2, grant(6, 6))).fence(), Some(Fence::new(6)));
}

#[test]
fn a_node_that_refuses_a_seal_does_not_count() {
    let mut run = Run::start(terms(3));
    assert_eq!(run.take(4, 2, late()), []);
    assert!(first_ask(&run.take_all(4, [grant(9, 0), grant(7, 0)])).is_some());
    let steps = run.take(5, 1, held(8));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held);
}

#[test]
fn a_node_that_lost_its_memory_before_the_seal_counts_as_silent() {
    let mut run = Run::start(terms(3));
    run.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(run.take(5, 1, refuse(Refusal::WrongEpoch)), []);
    assert_eq!(acks(&expect_win(&run.take(6, 2, grant(9, 0)))), send_times([Some(0), None, Some(0)]));
}

#[test]
fn an_unanswered_seal_is_repeated_up_to_its_limit() {
    let mut run = Run::start(terms(3));
    assert_eq!(run.take(4, 2, held(3)), []);
    let mut steps = run.take_all(4, [grant(9, 0), grant(7, 0)]);
    for seal in 1..=u64::from(SEALS_MAX) {
        assert_eq!(
            first_ask(&steps).map(|(nodes, request)| (nodes, request.attempt())),
            Some((alloc::vec![1], run.attempt))
        );
        assert_eq!(first_ask(&run.tick(3 + 200 * seal)), None, "each seal has its own node deadline");
        steps = run.tick(4 + 200 * seal);
    }
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn a_win_that_leaves_too_little_validity_is_too_slow() {
    let mut run = Run::start(terms(3));
    // A ttl of 10 s less 102 ms of drift must leave a validity of 5 s.
    let steps = run.take_all(4_899, [grant(7, 0), grant(7, 4_000)]);
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::TooSlow);
    let mut run = Run::start(terms(3));
    expect_win(&run.take_all(4_898, [grant(7, 0), grant(7, 4_000)]));
}

#[test]
fn a_win_without_validity_is_too_slow_even_if_the_minimum_is_zero() {
    let mut run = Run::start(Terms { min_validity: Duration::ZERO, ..terms(1) });
    let steps = run.take(9_898, 0, grant(7, 0));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn every_retry_is_a_new_attempt_after_a_release_on_all_nodes() {
    let mut run = Run::start(retrying_terms(3));
    let first = run.attempt;
    assert_eq!(run.take_all(4, [grant(7, 0), held(9)]), []);
    let release = run.final_release();
    assert_eq!(run.take(4, 2, held(8)), [release]);
    assert_eq!(run.acquire.next_tick(), Some(at(54)));
    assert_eq!(run.tick(53), []);
    let steps = run.tick(54);
    assert_eq!(first_ask(&steps).unwrap().0, [0, 1, 2]);
    assert_ne!(run.attempt, first);
}

#[test]
fn answers_to_an_earlier_attempt_are_ignored() {
    let mut run = Run::start(retrying_terms(3));
    let old = run.attempt;
    run.take_all(4, [held(9), held(9)]);
    let take_old_grant =
        |run: &mut Run| run.acquire.take(old, 2, by(Elector::at(2), grant(7, 0)), at(60), &mut CountingRng::low());
    assert_eq!(take_old_grant(&mut run), [], "the acquire rests");
    run.tick(54);
    assert_eq!(take_old_grant(&mut run), []);
    assert_eq!(run.take(60, 0, grant(7, 54)), [], "the old grant does not count");
    assert_eq!(acks(&expect_win(&run.take(60, 1, grant(7, 54)))), send_times([Some(54), Some(54), None]));
}

#[test]
fn every_proposal_is_above_all_fences_that_the_client_has_seen() {
    let mut run = Run::start(retrying_terms(3));
    run.take_all(4, [held(CLOCK * 2), held(CLOCK * 3)]);
    assert_eq!(proposal(&run.tick(54)), CLOCK * 3 + 1);
    run.take_all(55, [held(1), held(1)]);
    assert_eq!(proposal(&run.tick(500)), CLOCK * 3 + 1, "the fence is remembered after lower ones");
}

#[test]
fn a_proposal_that_is_too_far_ahead_is_replaced_at_once_by_the_nodes_clock() {
    let too_far_ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::start(retrying_terms(3));
    run.take_all(4, [held(CLOCK * 9), held(1)]);
    run.tick(54);
    let first = run.attempt;
    assert_eq!(run.take_all(60, [too_far_ahead(), too_far_ahead()]), [run.final_release()]);
    assert_eq!(run.acquire.next_tick(), Some(at(60)));
    assert_eq!(proposal(&run.tick(60)), CLOCK + 60_000, "the proposal ignores the fence of 9 * CLOCK");
    assert_ne!(run.attempt, first);
    assert_eq!(run.take_all(61, [too_far_ahead(), too_far_ahead()]), [run.final_release()]);
    assert_eq!(run.acquire.next_tick(), Some(at(111)), "the second retry waits");
}

#[test]
fn an_acquire_ends_after_its_last_attempt() {
    let mut run = Run::new(Terms { retry: Retry { attempts: Some(3), ..retrying_terms(3).retry }, ..terms(3) });
    for attempt in 0..2 {
        run.tick(attempt * 1_000);
        assert!(matches!(run.take_all(attempt * 1_000, [held(9), held(9)])[..], [Step::Release { .. }]));
        assert!(run.acquire.next_tick().is_some());
    }
    run.tick(2_000);
    let steps = run.take_all(2_001, [held(9), held(9)]);
    assert_eq!(run.expect_defeat(&steps).tried, 3);
}

#[test]
fn the_deadline_of_the_caller_ends_a_round_in_flight() {
    let mut run = Run::new(Terms { give_up: Some(at(100)), ..retrying_terms(3) });
    run.tick(0);
    assert_eq!(run.acquire.next_tick(), Some(at(100)), "the caller's deadline is before the node deadline");
    assert_eq!(run.take(99, 0, grant(7, 0)), []);
    let steps = run.tick(100);
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::CutOff);
}

#[test]
fn the_last_attempt_starts_one_node_deadline_before_the_end() {
    let mut run = Run::start(Terms { give_up: Some(at(230)), ..retrying_terms(3) });
    run.take_all(4, [held(9), held(9)]);
    assert_eq!(run.acquire.next_tick(), Some(at(30)));
    run.tick(30);
    assert_eq!(run.acquire.next_tick(), Some(at(230)));
    let steps = run.take_all(31, [held(9), held(9)]);
    assert_eq!(run.expect_defeat(&steps).tried, 2);
}

#[test]
fn the_deadline_of_the_caller_ends_a_seal_in_flight() {
    let mut run = Run::start(Terms { give_up: Some(at(100)), ..terms(3) });
    assert_eq!(run.take_all(4, [grant(9, 0), grant(7, 0)]).len(), 1);
    let steps = run.tick(100);
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn a_proposal_that_is_too_far_ahead_is_not_replaced_after_the_deadline() {
    let too_far_ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::start(Terms { give_up: Some(at(100)), ..terms(3) });
    let steps = run.take_all(100, [too_far_ahead(), too_far_ahead()]);
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::NoQuorum);
}

#[test]
fn cancel_releases_only_what_was_requested() {
    let mut fresh = Run::new(terms(3));
    assert_eq!(fresh.acquire.cancel(), [], "nothing was requested");
    assert_eq!(fresh.tick(0), [], "a cancelled acquire requests nothing");

    let mut asking = Run::start(terms(3));
    assert_eq!(asking.acquire.cancel(), [asking.final_release()]);
    assert!(asking.acquire.is_finished());
    assert_eq!(asking.take_all(4, [grant(7, 0), grant(7, 0)]), [], "the grants came after the cancellation");
    assert_eq!(asking.acquire.cancel(), [], "cancel is repeated");

    let mut sealing = Run::start(terms(3));
    sealing.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(sealing.acquire.cancel(), [sealing.final_release()]);

    let mut resting = Run::start(retrying_terms(3));
    resting.take_all(4, [held(9), held(9)]);
    assert_eq!(resting.acquire.cancel(), [], "the failed attempt was released");

    let mut finished = Run::start(terms(3));
    finished.take_all(4, [grant(7, 0), grant(7, 0)]);
    assert_eq!(finished.acquire.cancel(), [], "the lease releases its own votes");
}

#[test]
fn a_vote_of_an_unknown_node_or_a_repeated_vote_does_not_count() {
    let mut run = Run::start(terms(3));
    assert_eq!(run.take(4, 0, grant(7, 0)), []);
    assert_eq!(run.take(4, 3, grant(7, 0)), []);
    assert_eq!(run.take(4, usize::MAX, grant(7, 0)), []);
    assert_eq!(run.take(4, 0, grant(7, 0)), [], "node 0 has voted before");
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    fn mutant(rule: Rule) -> Run {
        Run::start(Terms { rules: Rules::without(rule), ..terms(3) })
    }

    #[test]
    fn without_release_everywhere_only_nodes_that_granted_are_asked_to_release() {
        let mut run = mutant(Rule::ReleaseEverywhere);
        run.take_all(4, [grant(7, 0), held(9)]);
        let (nodes, parting) = (NodeSet::first(1), None);
        assert_eq!(run.tick(200)[0], Step::Release { attempt: run.attempt, nodes, parting });
    }

    #[test]
    fn without_count_from_send_validity_counts_from_the_reply() {
        let steps = mutant(Rule::CountFromSend).take_all(9_000, [grant(7, 0), grant(7, 0)]);
        assert_eq!(expect_win(&steps).valid_until(), at(9_000 + 10_000 - 102));
    }

    #[test]
    fn without_equal_fences_there_is_no_seal() {
        let steps = mutant(Rule::EqualFences).take_all(4, [grant(9, 0), grant(7, 0)]);
        let won = expect_win(&steps);
        assert_eq!((won.fence(), was_sealed_late(&steps)), (Some(Fence::new(9)), false));
    }
}
