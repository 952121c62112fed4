mod slots;
mod waiting;

use core::time::Duration;

use super::*;
use crate::backoff::Retry;
use crate::rules::Rules;
use crate::terms::{Quorum, Renewals};
use crate::testing::{Loaded, at, grant, held, late, ms, refuse, ttl};
use crate::time::Drift;
use crate::vote::{NodeVote, Silence};

/// The nodes' clocks at the origin of ours, in microseconds.
const CLOCK: u64 = 1_000_000;

fn terms(nodes: usize) -> Terms {
    Terms {
        quorum: Quorum::new(nodes).unwrap(),
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

fn patient(nodes: usize) -> Terms {
    Terms { retry: Retry { min: ms(50), max: ms(300), attempts: None }, ..terms(nodes) }
}

/// A machine with its random numbers, and the attempt that it has made last.
struct Run {
    acquire: Acquire,
    rng: Loaded,
    attempt: LeaseId,
}

impl Run {
    fn new(terms: Terms) -> Self {
        let mut rng = Loaded::low();
        let acquire = Acquire::new(terms, &mut rng);
        Self { attempt: acquire.attempt(), acquire, rng }
    }

    /// Has asked everyone at the origin.
    fn asking(terms: Terms) -> Self {
        let mut run = Self::new(terms);
        run.tick(0);
        run
    }

    fn tick(&mut self, now: u64) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now * 1_000).unwrap();
        let steps = self.acquire.tick(at(now), Some(clock), &mut self.rng);
        self.noting(steps)
    }

    fn take(&mut self, now: u64, node: usize, outcome: Outcome) -> Vec<Step> {
        let steps = self.acquire.take(self.attempt, node, outcome, at(now), &mut self.rng);
        self.noting(steps)
    }

    fn noting(&mut self, steps: Vec<Step>) -> Vec<Step> {
        if let Some((_, request)) = asked(&steps) {
            self.attempt = request.attempt();
        }
        steps
    }

    /// The first nodes' answers, of which only the last leads to anything.
    fn take_all<const K: usize>(&mut self, now: u64, outcomes: [Outcome; K]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (node, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(steps, [], "decided before node {node} answered");
            steps = self.take(now, node, outcome);
        }
        steps
    }

    fn released(&self) -> Step {
        let nodes = NodeSet::first(self.acquire.terms.quorum.nodes());
        Step::Release { attempt: self.attempt, nodes, parting: self.acquire.waiter().map(Parting::Leave) }
    }

    /// What the run came to, having taken everything back.
    fn defeated(&self, steps: &[Step]) -> Defeat {
        match steps {
            [release, Step::Defeated(defeat)] if *release == self.released() => {
                assert!(self.acquire.is_finished());
                defeat.clone()
            }
            other => panic!("not a defeat: {other:?}"),
        }
    }
}

fn asked(steps: &[Step]) -> Option<(Vec<usize>, &Request)> {
    steps.iter().find_map(|step| match step {
        Step::Ask { nodes, request, .. } => Some((nodes.iter().collect(), request)),
        _ => None,
    })
}

fn proposal(steps: &[Step]) -> u64 {
    match asked(steps) {
        Some((_, Request::Acquire { proposal, .. })) => proposal.get(),
        other => panic!("nothing proposed: {other:?}"),
    }
}

fn won(steps: &[Step]) -> Won {
    match steps {
        [Step::Won(won)] => won.clone(),
        other => panic!("not won: {other:?}"),
    }
}

fn sent<const K: usize>(acks: [Option<u64>; K]) -> Vec<Option<Moment>> {
    acks.iter().map(|ack| ack.map(at)).collect()
}

#[test]
fn the_first_tick_asks_everyone() {
    let mut run = Run::new(terms(3));
    let steps = run.tick(0);
    assert_eq!(steps, [run.acquire.request(NodeSet::first(3), Fence::new(CLOCK))]);
    assert_eq!(run.acquire.next_tick(), Some(at(200)));
    assert_eq!(run.tick(199), [], "an early tick changes nothing");
}

#[test]
fn a_majority_with_one_fence_wins_before_the_slow_answer() {
    let mut run = Run::asking(terms(5));
    let won = won(&run.take_all(4, [grant(7, 0), grant(7, 1), grant(7, 2)]));
    assert_eq!((won.attempt, won.fence, won.sealed_late), (run.attempt, Some(Fence::new(7)), false));
    assert_eq!(won.acks, sent([Some(0), Some(1), Some(2), None, None]));
    assert_eq!(won.valid_until, at(10_000 - 102), "the earliest of the three sends counts");
    assert_eq!(run.take(5, 3, grant(7, 0)), []);
    assert_eq!(run.tick(500), []);
}

#[test]
fn grants_with_another_fence_do_not_count() {
    let mut run = Run::asking(terms(5));
    assert_eq!(run.take_all(4, [grant(7, 0), grant(7, 1)]), []);
    assert!(asked(&run.take(4, 2, grant(9, 0))).is_some());
    assert_eq!(won(&run.take(4, 3, grant(7, 3))).acks, sent([Some(0), Some(1), None, Some(3), None]));
}

#[test]
fn a_lone_node_decides() {
    assert_eq!(won(&Run::asking(terms(1)).take(1, 0, grant(7, 0))).fence, Some(Fence::new(7)));
}

#[test]
fn a_plain_lock_has_no_fence_and_needs_none() {
    let mut run = Run::new(Terms { plain: true, ..terms(3) });
    let steps = run.tick(0);
    let (nodes, request) = asked(&steps).unwrap();
    assert_eq!(nodes, [0, 1, 2]);
    assert!(matches!(request, Request::PlainAcquire { .. }));
    assert_eq!(won(&run.take_all(1, [grant(0, 0), grant(0, 0)])).fence, None);
}

#[test]
fn defeat_falls_when_it_is_certain_and_says_why() {
    let ended = || refuse(Refusal::Tombstoned);
    let lost = || refuse(Refusal::WrongEpoch);
    for (outcomes, verdict) in [
        ([held(9), held(9), held(9)], Verdict::Held),
        ([held(9), late(), late()], Verdict::Held),
        ([held(9), ended(), lost()], Verdict::Held),
        ([late(), late(), late()], Verdict::NoQuorum),
        ([ended(), ended(), ended()], Verdict::NoQuorum),
        ([lost(), lost(), late()], Verdict::NoQuorum),
    ] {
        let mut run = Run::asking(terms(5));
        let steps = run.take_all(3, outcomes.clone());
        let defeat = run.defeated(&steps);
        assert_eq!((defeat.verdict, defeat.tried), (verdict, 1), "{outcomes:?}");
        assert_eq!(defeat.tally.votes[3..], [NodeVote::Silent(Silence::Unheard), NodeVote::Silent(Silence::Unheard)]);
    }
}

#[test]
fn the_node_deadline_ends_the_round() {
    let mut run = Run::asking(terms(3));
    assert_eq!(run.take_all(4, [held(9)]), []);
    let steps = run.tick(200);
    let defeat = run.defeated(&steps);
    assert_eq!(defeat.verdict, Verdict::NoQuorum, "a majority is silent");
    assert_eq!(defeat.tally.votes[1], NodeVote::Silent(Silence::Late));
}

#[test]
fn unequal_fences_are_sealed_at_the_lower_nodes_only() {
    let mut run = Run::asking(terms(3));
    let steps = run.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(steps, [run.acquire.request([1].into_iter().collect(), Fence::new(9))]);
    let won = won(&run.take(6, 1, grant(9, 5)));
    assert_eq!((won.fence, won.sealed_late), (Some(Fence::new(9)), true));
    assert_eq!(won.acks, sent([Some(0), Some(5), None]));
}

#[test]
fn the_seal_leaves_out_an_outlier() {
    let mut run = Run::asking(terms(5));
    assert_eq!(run.take_all(4, [grant(9_999, 0), grant(5, 0)]), []);
    let steps = run.take(4, 2, grant(5, 0));
    assert_eq!((asked(&steps).unwrap().0, proposal(&steps)), (alloc::vec![1, 2], 9_999), "no choice with three grants");
    assert_eq!(run.take(5, 3, grant(6, 0)), []);
    assert_eq!(run.take(5, 4, late()), []);
    assert_eq!(run.take(6, 1, late()), []);
    let steps = run.take(6, 2, late());
    assert_eq!(
        (asked(&steps).unwrap().0, proposal(&steps)),
        (alloc::vec![1, 2], 6),
        "the fourth one shows who is ahead"
    );
    assert_eq!(run.take(7, 1, grant(6, 6)), []);
    assert_eq!(won(&run.take(7, 2, grant(6, 6))).fence, Some(Fence::new(6)));
}

#[test]
fn a_refused_seal_gives_up_that_node() {
    let mut run = Run::asking(terms(3));
    assert_eq!(run.take(4, 2, late()), []);
    assert!(asked(&run.take_all(4, [grant(9, 0), grant(7, 0)])).is_some());
    let steps = run.take(5, 1, held(8));
    assert_eq!(run.defeated(&steps).verdict, Verdict::Held);
}

#[test]
fn a_node_that_lost_its_memory_in_the_seal_is_silent() {
    let mut run = Run::asking(terms(3));
    run.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(run.take(5, 1, refuse(Refusal::WrongEpoch)), []);
    assert_eq!(won(&run.take(6, 2, grant(9, 0))).acks, sent([Some(0), None, Some(0)]));
}

#[test]
fn a_silent_seal_is_repeated_up_to_its_limit() {
    let mut run = Run::asking(terms(3));
    assert_eq!(run.take(4, 2, held(3)), []);
    let mut steps = run.take_all(4, [grant(9, 0), grant(7, 0)]);
    for seal in 1..=u64::from(SEALS_MAX) {
        assert_eq!(
            asked(&steps).map(|(nodes, request)| (nodes, request.attempt())),
            Some((alloc::vec![1], run.attempt))
        );
        assert_eq!(asked(&run.tick(3 + 200 * seal)), None, "each has a node deadline of its own");
        steps = run.tick(4 + 200 * seal);
    }
    assert_eq!(run.defeated(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn a_grant_that_was_sent_long_ago_is_too_slow() {
    let mut run = Run::asking(terms(3));
    // Of a ttl of 10 s, 102 ms are drift and 5 s have to be left.
    let steps = run.take_all(4_899, [grant(7, 0), grant(7, 4_000)]);
    assert_eq!(run.defeated(&steps).verdict, Verdict::TooSlow);
    let mut run = Run::asking(terms(3));
    won(&run.take_all(4_898, [grant(7, 0), grant(7, 4_000)]));
}

#[test]
fn an_ended_lease_is_not_handed_out_whatever_the_minimum() {
    let mut run = Run::asking(Terms { min_validity: Duration::ZERO, ..terms(1) });
    let steps = run.take(9_898, 0, grant(7, 0));
    assert_eq!(run.defeated(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn every_retry_is_a_fresh_attempt_after_releasing_everywhere() {
    let mut run = Run::asking(patient(3));
    let first = run.attempt;
    assert_eq!(run.take_all(4, [grant(7, 0), held(9)]), []);
    let released = run.released();
    assert_eq!(run.take(4, 2, held(8)), [released]);
    assert_eq!(run.acquire.next_tick(), Some(at(54)));
    assert_eq!(run.tick(53), []);
    let steps = run.tick(54);
    assert_eq!(asked(&steps).unwrap().0, [0, 1, 2]);
    assert_ne!(run.attempt, first);
}

#[test]
fn answers_to_an_older_attempt_are_ignored() {
    let mut run = Run::asking(patient(3));
    let old = run.attempt;
    run.take_all(4, [held(9), held(9)]);
    let stray = |run: &mut Run| run.acquire.take(old, 2, grant(7, 0), at(60), &mut Loaded::low());
    assert_eq!(stray(&mut run), [], "while resting");
    run.tick(54);
    assert_eq!(stray(&mut run), []);
    assert_eq!(run.take(60, 0, grant(7, 54)), [], "the stray grant was not counted");
    assert_eq!(won(&run.take(60, 1, grant(7, 54))).acks, sent([Some(54), Some(54), None]));
}

#[test]
fn the_next_proposal_is_above_every_fence_seen() {
    let mut run = Run::asking(patient(3));
    run.take_all(4, [held(CLOCK * 2), held(CLOCK * 3)]);
    assert_eq!(proposal(&run.tick(54)), CLOCK * 3 + 1);
    run.take_all(55, [held(1), held(1)]);
    assert_eq!(proposal(&run.tick(500)), CLOCK * 3 + 1, "nor is it forgotten");
}

#[test]
fn too_far_ahead_proposes_again_at_once_and_without_the_fence_seen() {
    let ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::asking(patient(3));
    run.take_all(4, [held(CLOCK * 9), held(1)]);
    run.tick(54);
    let first = run.attempt;
    assert_eq!(run.take_all(60, [ahead(), ahead()]), [run.released()]);
    assert_eq!(run.acquire.next_tick(), Some(at(60)));
    assert_eq!(proposal(&run.tick(60)), CLOCK + 60_000, "the nodes' clocks, nothing else");
    assert_ne!(run.attempt, first);
    assert_eq!(run.take_all(61, [ahead(), ahead()]), [run.released()]);
    assert_eq!(run.acquire.next_tick(), Some(at(111)), "only once");
}

#[test]
fn the_number_of_attempts_is_respected() {
    let mut run = Run::new(Terms { retry: Retry { attempts: Some(3), ..patient(3).retry }, ..terms(3) });
    for attempt in 0..2 {
        run.tick(attempt * 1_000);
        assert!(matches!(run.take_all(attempt * 1_000, [held(9), held(9)])[..], [Step::Release { .. }]));
        assert!(run.acquire.next_tick().is_some());
    }
    run.tick(2_000);
    let steps = run.take_all(2_001, [held(9), held(9)]);
    assert_eq!(run.defeated(&steps).tried, 3);
}

#[test]
fn giving_up_ends_a_round_in_flight() {
    let mut run = Run::new(Terms { give_up: Some(at(100)), ..patient(3) });
    run.tick(0);
    assert_eq!(run.acquire.next_tick(), Some(at(100)), "before the node deadline");
    assert_eq!(run.take(99, 0, grant(7, 0)), []);
    let steps = run.tick(100);
    assert_eq!(run.defeated(&steps).verdict, Verdict::CutOff);
}

#[test]
fn the_last_attempt_leaves_the_nodes_their_deadline() {
    let mut run = Run::asking(Terms { give_up: Some(at(230)), ..patient(3) });
    run.take_all(4, [held(9), held(9)]);
    assert_eq!(run.acquire.next_tick(), Some(at(30)), "cut to one node deadline before the end");
    run.tick(30);
    assert_eq!(run.acquire.next_tick(), Some(at(230)));
    let steps = run.take_all(31, [held(9), held(9)]);
    assert_eq!(run.defeated(&steps).tried, 2);
}

#[test]
fn giving_up_ends_a_seal_in_flight() {
    let mut run = Run::asking(Terms { give_up: Some(at(100)), ..terms(3) });
    assert_eq!(run.take_all(4, [grant(9, 0), grant(7, 0)]).len(), 1, "the wake-up at 100 was asked for before");
    let steps = run.tick(100);
    assert_eq!(run.defeated(&steps).verdict, Verdict::TooSlow);
}

#[test]
fn nothing_is_proposed_again_after_giving_up() {
    let ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::asking(Terms { give_up: Some(at(100)), ..terms(3) });
    let steps = run.take_all(100, [ahead(), ahead()]);
    assert_eq!(run.defeated(&steps).verdict, Verdict::NoQuorum);
}

#[test]
fn cancel_takes_back_what_was_asked_and_nothing_else() {
    let mut fresh = Run::new(terms(3));
    assert_eq!(fresh.acquire.cancel(), [], "nothing was asked");
    assert_eq!(fresh.tick(0), [], "nor is it now");

    let mut asking = Run::asking(terms(3));
    assert_eq!(asking.acquire.cancel(), [asking.released()]);
    assert!(asking.acquire.is_finished());
    assert_eq!(asking.take_all(4, [grant(7, 0), grant(7, 0)]), [], "too late to win");
    assert_eq!(asking.acquire.cancel(), [], "once is enough");

    let mut sealing = Run::asking(terms(3));
    sealing.take_all(4, [grant(9, 0), grant(7, 0)]);
    assert_eq!(sealing.acquire.cancel(), [sealing.released()]);

    let mut resting = Run::asking(patient(3));
    resting.take_all(4, [held(9), held(9)]);
    assert_eq!(resting.acquire.cancel(), [], "released already");

    let mut finished = Run::asking(terms(3));
    finished.take_all(4, [grant(7, 0), grant(7, 0)]);
    assert_eq!(finished.acquire.cancel(), [], "the lease releases itself");
}

#[test]
fn a_vote_from_nowhere_decides_nothing() {
    let mut run = Run::asking(terms(3));
    assert_eq!(run.take(4, 0, grant(7, 0)), []);
    assert_eq!(run.take(4, 3, grant(7, 0)), []);
    assert_eq!(run.take(4, usize::MAX, grant(7, 0)), []);
    assert_eq!(run.take(4, 0, grant(7, 0)), [], "a node votes once");
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    fn mutant(rule: Rule) -> Run {
        Run::asking(Terms { rules: Rules::without(rule), ..terms(3) })
    }

    #[test]
    fn without_release_everywhere_a_lost_grant_stays() {
        let mut run = mutant(Rule::ReleaseEverywhere);
        run.take_all(4, [grant(7, 0), held(9)]);
        let (nodes, parting) = (NodeSet::first(1), None);
        assert_eq!(run.tick(200)[0], Step::Release { attempt: run.attempt, nodes, parting });
    }

    #[test]
    fn without_count_from_send_an_old_grant_looks_new() {
        let steps = mutant(Rule::CountFromSend).take_all(9_000, [grant(7, 0), grant(7, 0)]);
        assert_eq!(won(&steps).valid_until, at(9_000 + 10_000 - 102));
    }

    #[test]
    fn without_equal_fences_nothing_is_sealed() {
        let won = won(&mutant(Rule::EqualFences).take_all(4, [grant(9, 0), grant(7, 0)]));
        assert_eq!((won.fence, won.sealed_late), (Some(Fence::new(9)), false));
    }
}
