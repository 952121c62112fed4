//! Waiting in the queue: tickets, polls, hints and yields, and how the wait ends.

mod handoffs;
mod hints;

use super::*;
use crate::name::{Channel, Holder};
use crate::testing::held_in;
use crate::vote::QueuePosition;

const CHANNEL: Channel = Channel(77);
/// The client is first in the queue, and no lower ticket has the node's vote.
const FIRST: QueuePosition = QueuePosition { position: Some(1), waiting: 1, lower: false };
/// The client is first in the queue, but a lower ticket has the node's vote.
const BEHIND_VOTER: QueuePosition = QueuePosition { position: Some(1), waiting: 1, lower: true };
/// The client is second in the queue.
const SECOND: QueuePosition = QueuePosition { position: Some(2), waiting: 2, lower: true };

fn waiting_terms(nodes: usize) -> Terms {
    Terms { channel: Some(CHANNEL), ..retrying_terms(nodes) }
}

fn behind(queue: QueuePosition) -> Outcome {
    refuse(Refusal::Behind { fence: Fence::new(9), queue })
}

impl Run {
    /// Returns a run that three nodes have refused with this queue.
    fn refused(terms: Terms, queue: QueuePosition) -> Self {
        let mut run = Self::start(terms);
        for node in 0..3 {
            run.take(4, node, held_in(9, queue));
        }
        assert!(!run.acquire.is_finished());
        run
    }

    /// Returns a run that had one vote of three and has yielded it.
    fn yielded(terms: Terms) -> Self {
        let mut run = Self::start(terms);
        run.take(4, 0, grant(7, 0));
        let steps = run.take(4, 1, held_in(9, SECOND));
        assert_eq!(steps[0], run.release_with(Parting::Yield));
        run
    }

    fn hint(&mut self, now_ms: u64, node: usize) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now_ms * 1_000).unwrap();
        let steps = self.acquire.hint(node, at(now_ms), Some(clock));
        self.track_attempt(steps)
    }

    /// Returns the release of the current attempt with this parting.
    fn release_with(&self, parting: fn(Waiter) -> Parting) -> Step {
        let Step::Release { attempt, nodes, .. } = self.final_release() else { panic!("not a release") };
        Step::Release { attempt, nodes, parting: self.acquire.waiter().map(parting) }
    }
}

fn asked_nodes(steps: &[Step]) -> Vec<usize> {
    first_ask(steps).map(|(nodes, _)| nodes).unwrap_or_default()
}

fn waiter(steps: &[Step]) -> Option<Waiter> {
    match first_ask(steps) {
        Some((_, Request::Acquire { waiter, .. })) => *waiter,
        other => panic!("not an acquire: {other:?}"),
    }
}

/// Returns the reported states of the queue.
fn reports(steps: &[Step]) -> Vec<&Wait> {
    steps.iter().filter_map(|step| if let Step::Waits(wait) = step { Some(wait) } else { None }).collect()
}

#[test]
fn the_first_request_has_a_ticket_with_the_time_of_the_nodes() {
    let mut run = Run::new(waiting_terms(3));
    assert_eq!(run.acquire.ticket(), None);
    let waiter = waiter(&run.tick(5)).unwrap();
    assert_eq!((waiter.ticket.at, waiter.channel, waiter.shared), (CLOCK + 5_000, CHANNEL, false));
    assert_eq!(run.acquire.ticket(), Some(waiter.ticket));
    let reader = Mode::Shared { owner: crate::name::OwnerId::from_bits(1), reenters: false };
    let steps = Run::new(Terms { mode: reader, ..waiting_terms(3) }).tick(5);
    assert!(super::waiting::waiter(&steps).unwrap().shared);
}

#[test]
fn a_client_that_does_not_know_the_nodes_time_has_no_ticket() {
    let mut run = Run::new(waiting_terms(3));
    let steps = run.acquire.tick(at(0), None, &mut run.rng);
    assert_eq!(waiter(&steps), None);
    run.track_attempt(steps);
    let steps = run.take_all(4, [held(9), held(9)]);
    assert_eq!(steps[0], run.release_with(Parting::Leave), "without a ticket the client cannot wait");
    assert_eq!(waiter(&run.tick(1_000)).unwrap().ticket.at, CLOCK + 1_000_000);
}

#[test]
fn a_client_that_does_not_wait_draws_no_ticket() {
    for terms in [terms(3), Terms { plain: true, ..waiting_terms(3) }] {
        let mut run = Run::start(Terms { retry: Retry::ONCE, ..terms });
        assert_eq!(run.acquire.ticket(), None);
        assert_eq!(run.hint(1, 0), [], "a client without a ticket ignores hints");
        let steps = run.take_all(4, [held(9), held(9)]);
        assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held);
    }
}

#[test]
fn a_refused_waiter_stays_in_the_queue_and_polls_with_the_same_attempt() {
    let mut run = Run::start(waiting_terms(3));
    let first = run.attempt;
    let steps = run.take_all(4, [held_in(9, SECOND), held_in(9, SECOND)]);
    assert_eq!((steps.len(), reports(&steps).len()), (1, 1), "the waiter releases nothing: {steps:?}");
    assert_eq!(run.take(5, 2, held_in(9, SECOND)), []);
    assert_eq!(run.acquire.next_tick(), Some(at(754)), "this rng gives the shortest delay");
    let ticket = run.acquire.ticket();
    let steps = run.tick(754);
    assert_eq!((asked_nodes(&steps), run.attempt), (alloc::vec![0, 1, 2], first));
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket);
}

#[test]
fn a_waiter_polls_every_second_and_the_first_one_every_third_of_a_short_ttl() {
    for (millis, queue, low, high) in [
        (10_000, SECOND, 750, 1_000),
        (10_000, FIRST, 750, 1_000),
        (900, SECOND, 750, 1_000),
        (900, FIRST, 225, 300),
        (900, BEHIND_VOTER, 225, 300),
    ] {
        for (rng, pause) in [(CountingRng::low(), low), (CountingRng::high(), high)] {
            let mut run = Run { rng, ..Run::new(Terms { ttl: ttl(millis), ..waiting_terms(3) }) };
            run.tick(0);
            run.take_all(4, [behind(queue), behind(queue)]);
            run.take(4, 2, behind(queue));
            assert_eq!(run.acquire.next_tick(), Some(at(4 + pause)), "{millis} {queue:?}");
            assert_eq!(first_ask(&run.tick(4 + pause - 1)), None);
            assert!(first_ask(&run.tick(4 + pause)).is_some());
        }
    }
}

#[test]
fn the_first_waiter_polls_when_the_lease_of_the_holder_expires() {
    let held_for = |millis, queue| {
        let (holder, fence) = (None, Fence::new(9));
        refuse(Refusal::Held { holder, remaining: Some(ms(millis)), fence, queue })
    };
    for (queue, poll) in [(BEHIND_VOTER, 4 + 301), (SECOND, 754)] {
        let mut run = Run::start(waiting_terms(3));
        run.take_all(4, [held_for(300, queue), held_for(400, queue)]);
        run.take(4, 2, held_in(9, queue));
        run.tick(200);
        assert_eq!(asked_nodes(&run.tick(poll - 1)), [], "{queue:?}");
        assert_eq!(asked_nodes(&run.tick(poll)), [0, 1, 2], "an expired vote gives no hint: {queue:?}");
    }
}

#[test]
fn a_waiter_that_becomes_the_first_polls_like_the_first() {
    let mut run = Run::refused(waiting_terms(3), SECOND);
    run.hint(100, 0);
    run.take(101, 0, held_in(9, BEHIND_VOTER));
    run.hint(102, 1);
    run.take(103, 1, held_in(9, BEHIND_VOTER));
    assert_eq!(asked_nodes(&run.tick(753)), []);
    assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2], "later answers do not delay the poll");
    let short_ttl = Terms { ttl: ttl(900), ..waiting_terms(1) };
    let mut run = Run::start(short_ttl);
    run.take(4, 0, held_in(9, SECOND));
    run.hint(100, 0);
    run.take(101, 0, held_in(9, BEHIND_VOTER));
    assert_eq!(asked_nodes(&run.tick(101 + 225)), [0]);
}

#[test]
fn a_waiter_yields_its_votes_when_a_lower_ticket_wants_the_lock() {
    for refusal in [behind(SECOND), held_in(9, SECOND), held_in(9, BEHIND_VOTER)] {
        let mut run = Run::start(waiting_terms(3));
        let old = run.attempt;
        run.take(4, 0, grant(7, 0));
        let steps = run.take(4, 1, refusal);
        assert_eq!(steps[0], run.release_with(Parting::Yield), "the waiter yields on all nodes");
        assert_eq!((first_ask(&steps), reports(&steps).len()), (None, 1));
        assert_eq!(run.take(5, 2, grant(7, 0)), [], "the old attempt is over");
        assert_eq!((run.tick(200), run.acquire.next_tick()), (alloc::vec![], Some(at(754))));
        assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2]);
        assert_ne!(run.attempt, old);
    }
}

#[test]
fn the_attempt_after_a_yield_asks_a_node_that_sends_a_hint() {
    let mut run = Run::yielded(waiting_terms(3));
    let (old, ticket) = (run.attempt, run.acquire.ticket());
    let steps = run.hint(100, 1);
    assert_eq!(asked_nodes(&steps), [1]);
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket, "the queue position is kept");
    assert_ne!(run.attempt, old);
}

#[test]
fn a_hint_after_a_yield_asks_the_nodes_whose_votes_were_yielded_too() {
    let mut run = Run::start(waiting_terms(5));
    run.take(4, 0, grant(7, 0));
    // The holder is releasing the lock. Nodes 0 to 3 have handled the release, and node 4 has not.
    let steps = run.take(4, 4, held_in(9, BEHIND_VOTER));
    assert_eq!(steps[0], run.release_with(Parting::Yield));
    let asked: Vec<_> = run
        .hint(5, 4)
        .iter()
        .filter_map(|step| match step {
            Step::Ask { nodes, .. } => Some(nodes.iter().collect::<Vec<_>>()),
            _ => None,
        })
        .collect();
    assert_eq!(asked.concat(), [4, 0, 1, 2, 3], "nodes 0 to 3 send no hint to the waiter that yielded");
    assert_eq!(asked_nodes(&run.hint(5, 3)), [], "node 3 owes an answer");
}

#[test]
fn a_waiter_yields_even_if_the_refusals_come_before_the_grant() {
    let mut run = Run::start(waiting_terms(5));
    assert_eq!(run.take_all(4, [held_in(9, FIRST), behind(SECOND)]), []);
    assert_eq!(run.take(4, 2, grant(7, 0))[0], run.release_with(Parting::Yield));
}

#[test]
fn a_waiter_keeps_its_votes_if_no_lower_ticket_wants_the_lock() {
    let mut run = Run::start(waiting_terms(3));
    let first = run.attempt;
    let steps = run.take_all(4, [grant(7, 0), held_in(9, FIRST)]);
    assert_eq!(steps, []);
    let steps = run.take(4, 2, held_in(9, FIRST));
    assert_eq!((steps.len(), reports(&steps).len()), (1, 1), "the waiter releases nothing: {steps:?}");
    run.tick(200);
    let steps = run.tick(754);
    assert_eq!(
        (asked_nodes(&steps), run.attempt),
        (alloc::vec![0, 1, 2], first),
        "node 0 is asked too, so that its vote lasts longer"
    );
    run.take(755, 0, late());
    assert_eq!(run.take(755, 0, grant(7, 754)), []);
    assert!(acks(&expect_win(&run.take(756, 1, grant(7, 754))))[0] == Some(at(754)));
}

#[test]
fn a_majority_wins_even_if_other_clients_wait() {
    let mut run = Run::start(waiting_terms(3));
    run.take(4, 0, grant(7, 0));
    expect_win(&run.take(4, 1, grant(7, 0)));
}

#[test]
fn without_a_quorum_a_waiter_leaves_the_queue_and_returns_with_its_ticket() {
    let mut run = Run::refused(waiting_terms(3), SECOND);
    let (old, ticket) = (run.attempt, run.acquire.ticket());
    run.tick(754);
    let steps = run.tick(954);
    assert_eq!(steps, [run.release_with(Parting::Leave)]);
    assert_eq!(run.acquire.next_tick(), Some(at(954 + 50)));
    assert_eq!(run.hint(960, 0), [], "the retry will ask all nodes");
    let steps = run.tick(1_004);
    assert_eq!(asked_nodes(&steps), [0, 1, 2]);
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket);
    assert_ne!(run.attempt, old);
}

#[test]
fn a_waiter_leaves_the_queue_at_its_deadline_and_names_the_holder() {
    let holder = Holder::decode("1 host job");
    assert!(holder.is_some());
    let held_by_named_holder = || {
        let (holder, remaining, fence) = (holder.clone(), Some(ms(5_000)), Fence::new(9));
        refuse(Refusal::Held { holder, remaining, fence, queue: SECOND })
    };
    let terms = || Terms { give_up: Some(at(800)), ..waiting_terms(3) };
    let queued = || {
        let mut run = Run::start(terms());
        (0..3).for_each(|node| drop(run.take(4, node, held_by_named_holder())));
        run
    };
    let polling = || {
        let mut run = queued();
        assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2]);
        run
    };
    let hinted = || {
        let mut run = queued();
        run.hint(799, 1);
        run
    };
    let yielded = || {
        let mut run = Run::start(terms());
        run.take(4, 0, grant(7, 0));
        run.take(4, 1, held_by_named_holder());
        run.hint(700, 2);
        run
    };
    for mut run in [queued(), polling(), hinted(), yielded()] {
        assert!(!run.tick(799).iter().any(|step| matches!(step, Step::Defeated(_) | Step::Release { .. })));
        let steps = run.tick(800);
        let defeat = run.expect_defeat(&steps);
        assert_eq!(steps[0], run.release_with(Parting::Leave));
        assert_eq!(defeat.verdict, Verdict::Held);
        let has_holder = |vote: &NodeVote| matches!(vote, NodeVote::Refused(Refusal::Held { holder: Some(_), .. }));
        assert!(defeat.tally.votes.iter().any(has_holder), "{:?}", defeat.tally);
    }
}

#[test]
fn a_waiter_asks_no_node_after_its_deadline() {
    let mut run = Run::refused(Terms { give_up: Some(at(800)), ..waiting_terms(3) }, SECOND);
    assert_eq!(first_ask(&run.hint(800, 0)), None);
    let steps = run.tick(801);
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held);
}

#[test]
fn a_waiter_may_win_just_before_its_deadline() {
    let mut run = Run::refused(Terms { give_up: Some(at(800)), ..waiting_terms(3) }, BEHIND_VOTER);
    run.hint(798, 0);
    run.hint(798, 1);
    run.take(799, 0, grant(50, 798));
    expect_win(&run.take(799, 1, grant(50, 798)));
}

#[test]
fn polls_count_as_attempts() {
    let mut run = Run::refused(
        Terms { retry: Retry { attempts: Some(2), ..retrying_terms(3).retry }, ..waiting_terms(3) },
        SECOND,
    );
    assert!(first_ask(&run.tick(754)).is_some());
    for node in 0..3 {
        run.take(755, node, held_in(9, SECOND));
    }
    let steps = run.tick(2_000);
    let defeat = run.expect_defeat(&steps);
    assert_eq!((defeat.verdict, defeat.tried), (Verdict::Held, 2));
}

#[test]
fn a_cancelled_waiter_leaves_the_queue() {
    let mut asking = Run::start(waiting_terms(3));
    assert_eq!(asking.acquire.cancel(), [asking.release_with(Parting::Leave)]);
    let mut refused = Run::refused(waiting_terms(3), SECOND);
    assert_eq!(refused.acquire.cancel(), [refused.release_with(Parting::Leave)]);
    let mut yielded = Run::yielded(waiting_terms(3));
    let steps = yielded.acquire.cancel();
    let [Step::Release { nodes, parting: Some(Parting::Leave(_)), .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*nodes, NodeSet::first(3), "the yielded attempt kept its queue positions");
}

#[test]
fn a_waiter_reports_the_queue_only_when_it_changes() {
    let mut run = Run::refused(waiting_terms(3), SECOND);
    run.tick(754);
    let steps = run.take_all(755, [held_in(9, SECOND), held_in(9, SECOND)]);
    assert_eq!(reports(&steps), Vec::<&Wait>::new(), "the queue has not changed");
    run.take(755, 2, held_in(9, SECOND));
    run.tick(1_600);
    let steps = run.take_all(1_601, [held_in(9, BEHIND_VOTER), held_in(9, BEHIND_VOTER)]);
    assert_eq!(reports(&steps).iter().map(|wait| (wait.position, wait.waiting)).collect::<Vec<_>>(), [(Some(1), 1)]);
    let mut run = Run::start(waiting_terms(3));
    let steps = run.take_all(4, [held_in(9, BEHIND_VOTER), held_in(9, SECOND)]);
    assert_eq!(reports(&steps)[0].position, Some(2), "the position on the node where the waiter is furthest back");
}

#[test]
fn a_mismatch_ends_the_wait_at_once() {
    for (outcomes, verdict) in [
        ([refuse(Refusal::Permits { stored: 3 }), refuse(Refusal::Permits { stored: 3 })], Verdict::Mismatch),
        ([refuse(Refusal::Upgrade), held_in(9, SECOND)], Verdict::Mismatch),
    ] {
        let mut run = Run::start(waiting_terms(3));
        let steps = run.take_all(4, outcomes);
        assert_eq!(steps[0], run.release_with(Parting::Leave));
        assert_eq!(run.expect_defeat(&steps).verdict, verdict);
    }
}

#[test]
fn a_waiter_replaces_a_proposal_that_is_too_far_ahead_once() {
    let too_far_ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::refused(waiting_terms(3), SECOND);
    run.tick(754);
    let ticket = run.acquire.ticket();
    let steps = run.take_all(755, [held_in(CLOCK * 9, FIRST), too_far_ahead()]);
    assert_eq!(steps[0], run.release_with(Parting::Leave));
    let steps = run.tick(755);
    assert_eq!((proposal(&steps), waiter(&steps).map(|waiter| waiter.ticket)), (CLOCK + 755_000, ticket));
    let steps = run.take_all(756, [held_in(CLOCK * 9, FIRST), too_far_ahead()]);
    assert_eq!(reports(&steps).len(), 1, "the waiter keeps its second proposal: {steps:?}");
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    /// Returns whether a waiter keeps its vote after this refusal when this rule is switched off.
    fn keeps_vote(rule: Rule, refusal: Outcome) -> bool {
        let mut run = Run::start(Terms { rules: Rules::without(rule), ..waiting_terms(3) });
        run.take(4, 0, grant(7, 0));
        !run.take(4, 1, refusal).iter().any(|step| matches!(step, Step::Release { .. }))
    }

    #[test]
    fn without_the_rule_yield_a_waiter_keeps_its_votes() {
        assert!(keeps_vote(Rule::Yield, behind(SECOND)));
        assert!(keeps_vote(Rule::Yield, held_in(9, BEHIND_VOTER)));
    }

    #[test]
    fn without_the_rule_yield_to_voters_a_waiter_yields_only_to_lower_tickets_in_the_queue() {
        assert!(!keeps_vote(Rule::YieldToVoters, behind(SECOND)));
        assert!(keeps_vote(Rule::YieldToVoters, held_in(9, BEHIND_VOTER)));
    }
}
