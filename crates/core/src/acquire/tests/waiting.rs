//! Waiting in the queue: tickets, polls, hints, yields, and the ways out.

mod handoffs;
mod hints;

use super::*;
use crate::name::{Channel, Holder};
use crate::testing::held_in;
use crate::vote::QueuePosition;

const CHANNEL: Channel = Channel(77);
/// Nobody is before the asker, neither in the queue nor with a vote.
const FIRST: QueuePosition = QueuePosition { place: Some(1), waiting: 1, lower: false };
/// Somebody with a lower ticket has the vote, and is the only one before the asker.
const NEXT: QueuePosition = QueuePosition { place: Some(1), waiting: 1, lower: true };
const SECOND: QueuePosition = QueuePosition { place: Some(2), waiting: 2, lower: true };

fn waiting(nodes: usize) -> Terms {
    Terms { channel: Some(CHANNEL), ..patient(nodes) }
}

fn behind(queue: QueuePosition) -> Outcome {
    refuse(Refusal::Behind { fence: Fence::new(9), queue })
}

impl Run {
    /// Was refused by all three nodes, which see the queue like this.
    fn refused(terms: Terms, queue: QueuePosition) -> Self {
        let mut run = Self::asking(terms);
        for node in 0..3 {
            run.take(4, node, held_in(9, queue));
        }
        assert!(!run.acquire.is_finished());
        run
    }

    /// Had one vote of three and has given it back.
    fn yielded(terms: Terms) -> Self {
        let mut run = Self::asking(terms);
        run.take(4, 0, grant(7, 0));
        let steps = run.take(4, 1, held_in(9, SECOND));
        assert_eq!(steps[0], run.parted(Parting::Yield));
        run
    }

    fn hint(&mut self, now: u64, node: usize) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now * 1_000).unwrap();
        let steps = self.acquire.hint(node, at(now), Some(clock));
        self.noting(steps)
    }

    fn parted(&self, how: fn(Waiter) -> Parting) -> Step {
        let Step::Release { attempt, nodes, .. } = self.released() else { panic!("not a release") };
        Step::Release { attempt, nodes, parting: self.acquire.waiter().map(how) }
    }
}

fn asked_nodes(steps: &[Step]) -> Vec<usize> {
    asked(steps).map(|(nodes, _)| nodes).unwrap_or_default()
}

fn waiter(steps: &[Step]) -> Option<Waiter> {
    match asked(steps) {
        Some((_, Request::Acquire { waiter, .. })) => *waiter,
        other => panic!("not asked: {other:?}"),
    }
}

fn told(steps: &[Step]) -> Vec<&Wait> {
    steps.iter().filter_map(|step| if let Step::Waits(wait) = step { Some(wait) } else { None }).collect()
}

#[test]
fn the_first_request_carries_a_ticket_by_the_nodes_clock() {
    let mut run = Run::new(waiting(3));
    assert_eq!(run.acquire.ticket(), None);
    let waiter = waiter(&run.tick(5)).unwrap();
    assert_eq!((waiter.ticket.at, waiter.channel, waiter.shared), (CLOCK + 5_000, CHANNEL, false));
    assert_eq!(run.acquire.ticket(), Some(waiter.ticket));
    let reader = Mode::Shared { owner: crate::name::OwnerId::from_bits(1), reenters: false };
    let steps = Run::new(Terms { mode: reader, ..waiting(3) }).tick(5);
    assert!(super::waiting::waiter(&steps).unwrap().shared);
}

#[test]
fn without_the_nodes_clock_there_is_no_ticket_yet() {
    let mut run = Run::new(waiting(3));
    let steps = run.acquire.tick(at(0), None, &mut run.rng);
    assert_eq!(waiter(&steps), None);
    run.noting(steps);
    let steps = run.take_all(4, [held(9), held(9)]);
    assert_eq!(steps[0], run.parted(Parting::Leave), "turned away, like one who does not wait");
    assert_eq!(waiter(&run.tick(1_000)).unwrap().ticket.at, CLOCK + 1_000_000);
}

#[test]
fn who_does_not_wait_draws_no_ticket() {
    for terms in [terms(3), Terms { plain: true, ..waiting(3) }] {
        let mut run = Run::asking(Terms { retry: Retry::ONCE, ..terms });
        assert_eq!(run.acquire.ticket(), None);
        assert_eq!(run.hint(1, 0), [], "nor does it listen to hints");
        let steps = run.take_all(4, [held(9), held(9)]);
        assert_eq!(run.defeated(&steps).verdict, Verdict::Held);
    }
}

#[test]
fn refused_everywhere_it_stays_in_queue_and_polls_with_the_same_attempt() {
    let mut run = Run::asking(waiting(3));
    let first = run.attempt;
    let steps = run.take_all(4, [held_in(9, SECOND), held_in(9, SECOND)]);
    assert_eq!((steps.len(), told(&steps).len()), (1, 1), "nothing is given back: {steps:?}");
    assert_eq!(run.take(5, 2, held_in(9, SECOND)), []);
    assert_eq!(run.acquire.next_tick(), Some(at(754)), "three quarters of a second, with this rng");
    let ticket = run.acquire.ticket();
    let steps = run.tick(754);
    assert_eq!((asked_nodes(&steps), run.attempt), (alloc::vec![0, 1, 2], first));
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket);
}

#[test]
fn it_polls_each_second_and_the_first_in_queue_each_third_of_a_short_ttl() {
    for (millis, queue, low, high) in [
        (10_000, SECOND, 750, 1_000),
        (10_000, FIRST, 750, 1_000),
        (900, SECOND, 750, 1_000),
        (900, FIRST, 225, 300),
        (900, NEXT, 225, 300),
    ] {
        for (rng, pause) in [(Loaded::low(), low), (Loaded::high(), high)] {
            let mut run = Run { rng, ..Run::new(Terms { ttl: ttl(millis), ..waiting(3) }) };
            run.tick(0);
            run.take_all(4, [behind(queue), behind(queue)]);
            run.take(4, 2, behind(queue));
            assert_eq!(run.acquire.next_tick(), Some(at(4 + pause)), "{millis} {queue:?}");
            assert_eq!(asked(&run.tick(4 + pause - 1)), None);
            assert!(asked(&run.tick(4 + pause)).is_some());
        }
    }
}

#[test]
fn the_first_in_queue_asks_again_when_the_holders_time_is_over() {
    let left = |millis, queue| {
        let (holder, fence) = (None, Fence::new(9));
        refuse(Refusal::Held { holder, remaining: Some(ms(millis)), fence, queue })
    };
    for (queue, poll) in [(NEXT, 4 + 301), (SECOND, 754)] {
        let mut run = Run::asking(waiting(3));
        run.take_all(4, [left(300, queue), left(400, queue)]);
        run.take(4, 2, held_in(9, queue));
        run.tick(200);
        assert_eq!(asked_nodes(&run.tick(poll - 1)), [], "{queue:?}");
        assert_eq!(asked_nodes(&run.tick(poll)), [0, 1, 2], "a lapse gives no hint: {queue:?}");
    }
}

#[test]
fn who_becomes_the_first_polls_like_the_first() {
    let mut run = Run::refused(waiting(3), SECOND);
    run.hint(100, 0);
    run.take(101, 0, held_in(9, NEXT));
    run.hint(102, 1);
    run.take(103, 1, held_in(9, NEXT));
    assert_eq!(asked_nodes(&run.tick(753)), []);
    assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2], "nor does a later answer put the poll off");
    let short = Terms { ttl: ttl(900), ..waiting(1) };
    let mut run = Run::asking(short);
    run.take(4, 0, held_in(9, SECOND));
    run.hint(100, 0);
    run.take(101, 0, held_in(9, NEXT));
    assert_eq!(asked_nodes(&run.tick(101 + 225)), [0]);
}

#[test]
fn votes_are_given_back_when_a_lower_ticket_wants_the_lock() {
    for refusal in [behind(SECOND), held_in(9, SECOND), held_in(9, NEXT)] {
        let mut run = Run::asking(waiting(3));
        let old = run.attempt;
        run.take(4, 0, grant(7, 0));
        let steps = run.take(4, 1, refusal);
        assert_eq!(steps[0], run.parted(Parting::Yield), "on all nodes");
        assert_eq!((asked(&steps), told(&steps).len()), (None, 1));
        assert_eq!(run.take(5, 2, grant(7, 0)), [], "the old attempt is over");
        assert_eq!((run.tick(200), run.acquire.next_tick()), (alloc::vec![], Some(at(754))), "silence");
        assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2]);
        assert_ne!(run.attempt, old);
    }
}

#[test]
fn after_a_yield_a_hint_is_enough() {
    let mut run = Run::yielded(waiting(3));
    let (old, ticket) = (run.attempt, run.acquire.ticket());
    let steps = run.hint(100, 1);
    assert_eq!(asked_nodes(&steps), [1]);
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket, "the place is kept");
    assert_ne!(run.attempt, old);
}

#[test]
fn a_hint_after_a_yield_asks_for_what_was_given_back_as_well() {
    let mut run = Run::asking(waiting(5));
    run.take(4, 0, grant(7, 0));
    // A holder that is letting go: some nodes have heard of it, and this one has not.
    let steps = run.take(4, 4, held_in(9, NEXT));
    assert_eq!(steps[0], run.parted(Parting::Yield));
    let asked: Vec<_> = run
        .hint(5, 4)
        .iter()
        .filter_map(|step| match step {
            Step::Ask { nodes, .. } => Some(nodes.iter().collect::<Vec<_>>()),
            _ => None,
        })
        .collect();
    assert_eq!(asked.concat(), [4, 0, 1, 2, 3], "nobody will give the yielder a hint for those");
    assert_eq!(asked_nodes(&run.hint(5, 3)), [], "it is being asked");
}

#[test]
fn the_order_of_the_answers_does_not_matter_for_a_yield() {
    let mut run = Run::asking(waiting(5));
    assert_eq!(run.take_all(4, [held_in(9, FIRST), behind(SECOND)]), []);
    assert_eq!(run.take(4, 2, grant(7, 0))[0], run.parted(Parting::Yield));
}

#[test]
fn votes_are_kept_when_nobody_is_lower() {
    let mut run = Run::asking(waiting(3));
    let first = run.attempt;
    let steps = run.take_all(4, [grant(7, 0), held_in(9, FIRST)]);
    assert_eq!(steps, []);
    let steps = run.take(4, 2, held_in(9, FIRST));
    assert_eq!((steps.len(), told(&steps).len()), (1, 1), "nothing is given back: {steps:?}");
    run.tick(200);
    let steps = run.tick(754);
    assert_eq!(
        (asked_nodes(&steps), run.attempt),
        (alloc::vec![0, 1, 2], first),
        "the vote, too, shall stand for longer"
    );
    run.take(755, 0, late());
    assert_eq!(run.take(755, 0, grant(7, 754)), []);
    assert!(won(&run.take(756, 1, grant(7, 754))).acks[0] == Some(at(754)));
}

#[test]
fn a_majority_wins_whoever_else_waits() {
    let mut run = Run::asking(waiting(3));
    run.take(4, 0, grant(7, 0));
    won(&run.take(4, 1, grant(7, 0)));
}

#[test]
fn without_a_quorum_it_leaves_the_queue_and_comes_back_with_its_ticket() {
    let mut run = Run::refused(waiting(3), SECOND);
    let (old, ticket) = (run.attempt, run.acquire.ticket());
    run.tick(754);
    let steps = run.tick(954);
    assert_eq!(steps, [run.parted(Parting::Leave)]);
    assert_eq!(run.acquire.next_tick(), Some(at(954 + 50)));
    assert_eq!(run.hint(960, 0), [], "everyone will be asked");
    let steps = run.tick(1_004);
    assert_eq!(asked_nodes(&steps), [0, 1, 2]);
    assert_eq!(waiter(&steps).map(|waiter| waiter.ticket), ticket);
    assert_ne!(run.attempt, old);
}

#[test]
fn giving_up_leaves_the_queue_at_the_deadline_and_names_the_holder() {
    let holder = Holder::decode("1 host job");
    assert!(holder.is_some());
    let named = || {
        let (holder, remaining, fence) = (holder.clone(), Some(ms(5_000)), Fence::new(9));
        refuse(Refusal::Held { holder, remaining, fence, queue: SECOND })
    };
    let terms = || Terms { give_up: Some(at(800)), ..waiting(3) };
    let waiting = || {
        let mut run = Run::asking(terms());
        (0..3).for_each(|node| drop(run.take(4, node, named())));
        run
    };
    let polling = || {
        let mut run = waiting();
        assert_eq!(asked_nodes(&run.tick(754)), [0, 1, 2]);
        run
    };
    let hinted = || {
        let mut run = waiting();
        run.hint(799, 1);
        run
    };
    let yielded = || {
        let mut run = Run::asking(terms());
        run.take(4, 0, grant(7, 0));
        run.take(4, 1, named());
        run.hint(700, 2);
        run
    };
    for mut run in [waiting(), polling(), hinted(), yielded()] {
        assert!(!run.tick(799).iter().any(|step| matches!(step, Step::Defeated(_) | Step::Release { .. })));
        let steps = run.tick(800);
        let defeat = run.defeated(&steps);
        assert_eq!(steps[0], run.parted(Parting::Leave));
        assert_eq!(defeat.verdict, Verdict::Held);
        let names = |vote: &NodeVote| matches!(vote, NodeVote::Refused(Refusal::Held { holder: Some(_), .. }));
        assert!(defeat.tally.votes.iter().any(names), "{:?}", defeat.tally);
    }
}

#[test]
fn nothing_is_asked_after_giving_up() {
    let mut run = Run::refused(Terms { give_up: Some(at(800)), ..waiting(3) }, SECOND);
    assert_eq!(asked(&run.hint(800, 0)), None);
    let steps = run.tick(801);
    assert_eq!(run.defeated(&steps).verdict, Verdict::Held);
}

#[test]
fn a_win_at_the_last_moment_is_a_win() {
    let mut run = Run::refused(Terms { give_up: Some(at(800)), ..waiting(3) }, NEXT);
    run.hint(798, 0);
    run.hint(798, 1);
    run.take(799, 0, grant(50, 798));
    won(&run.take(799, 1, grant(50, 798)));
}

#[test]
fn the_number_of_attempts_counts_polls_too() {
    let mut run = Run::refused(Terms { retry: Retry { attempts: Some(2), ..patient(3).retry }, ..waiting(3) }, SECOND);
    assert!(asked(&run.tick(754)).is_some());
    for node in 0..3 {
        run.take(755, node, held_in(9, SECOND));
    }
    let steps = run.tick(2_000);
    let defeat = run.defeated(&steps);
    assert_eq!((defeat.verdict, defeat.tried), (Verdict::Held, 2));
}

#[test]
fn cancel_leaves_the_queue() {
    let mut asking = Run::asking(waiting(3));
    assert_eq!(asking.acquire.cancel(), [asking.parted(Parting::Leave)]);
    let mut waits = Run::refused(waiting(3), SECOND);
    assert_eq!(waits.acquire.cancel(), [waits.parted(Parting::Leave)]);
    let mut yielded = Run::yielded(waiting(3));
    let steps = yielded.acquire.cancel();
    let [Step::Release { nodes, parting: Some(Parting::Leave(_)), .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*nodes, NodeSet::first(3), "its places are still there");
}

#[test]
fn it_is_told_once_how_the_queue_looks() {
    let mut run = Run::refused(waiting(3), SECOND);
    run.tick(754);
    let steps = run.take_all(755, [held_in(9, SECOND), held_in(9, SECOND)]);
    assert_eq!(told(&steps), Vec::<&Wait>::new(), "nothing has changed");
    run.take(755, 2, held_in(9, SECOND));
    run.tick(1_600);
    let steps = run.take_all(1_601, [held_in(9, NEXT), held_in(9, NEXT)]);
    assert_eq!(told(&steps).iter().map(|wait| (wait.place, wait.waiting)).collect::<Vec<_>>(), [(Some(1), 1)]);
    let mut run = Run::asking(waiting(3));
    let steps = run.take_all(4, [held_in(9, NEXT), held_in(9, SECOND)]);
    assert_eq!(told(&steps)[0].place, Some(2), "where it is furthest back");
}

#[test]
fn a_mismatch_ends_it_at_once() {
    for (outcomes, verdict) in [
        ([refuse(Refusal::Permits { stored: 3 }), refuse(Refusal::Permits { stored: 3 })], Verdict::Mismatch),
        ([refuse(Refusal::Upgrade), held_in(9, SECOND)], Verdict::Mismatch),
    ] {
        let mut run = Run::asking(waiting(3));
        let steps = run.take_all(4, outcomes);
        assert_eq!(steps[0], run.parted(Parting::Leave));
        assert_eq!(run.defeated(&steps).verdict, verdict);
    }
}

#[test]
fn one_who_waits_proposes_again_without_the_fence_that_is_too_far_ahead() {
    let ahead = || refuse(Refusal::TooFarAhead);
    let mut run = Run::refused(waiting(3), SECOND);
    run.tick(754);
    let ticket = run.acquire.ticket();
    let steps = run.take_all(755, [held_in(CLOCK * 9, FIRST), ahead()]);
    assert_eq!(steps[0], run.parted(Parting::Leave));
    let steps = run.tick(755);
    assert_eq!((proposal(&steps), waiter(&steps).map(|waiter| waiter.ticket)), (CLOCK + 755_000, ticket));
    let steps = run.take_all(756, [held_in(CLOCK * 9, FIRST), ahead()]);
    assert_eq!(told(&steps).len(), 1, "only once: {steps:?}");
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    fn keeps(rule: Rule, refusal: Outcome) -> bool {
        let mut run = Run::asking(Terms { rules: Rules::without(rule), ..waiting(3) });
        run.take(4, 0, grant(7, 0));
        !run.take(4, 1, refusal).iter().any(|step| matches!(step, Step::Release { .. }))
    }

    #[test]
    fn without_yield_votes_are_kept() {
        assert!(keeps(Rule::Yield, behind(SECOND)));
        assert!(keeps(Rule::Yield, held_in(9, NEXT)));
    }

    #[test]
    fn without_yield_to_voters_a_lower_ticket_has_to_wait_in_queue() {
        assert!(!keeps(Rule::YieldToVoters, behind(SECOND)));
        assert!(keeps(Rule::YieldToVoters, held_in(9, NEXT)));
    }
}
