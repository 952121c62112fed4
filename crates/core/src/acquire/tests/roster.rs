//! An acquire whose roster changes. The list has the nodes 0 to 3; at first the members are 0, 1 and 2.

use super::*;
use crate::digest::Digest;
use crate::quorum::Electors;
use crate::testing::{held_in, roster, under};
use crate::vote::{Handoff, QueuePosition};

impl Run {
    /// Creates a run that has asked all nodes at the origin.
    fn of_members(terms: Terms) -> Self {
        let electors = roster(4, 1, &[(0, 1), (1, 1), (2, 1)]);
        Self::start(Terms { electors, ..terms })
    }

    fn change_roster(&mut self, now_ms: u64, electors: &Arc<Electors>) -> Vec<Step> {
        let steps = self.acquire.change_roster(electors, at(now_ms), &mut self.rng);
        self.track_attempt(steps)
    }

    /// Takes the outcome of the member at this position, which votes under this generation.
    fn take_under(&mut self, now_ms: u64, generation: u64, node: usize, outcome: Outcome) -> Vec<Step> {
        self.take_from(now_ms, node, under(generation, node), outcome)
    }
}

/// Returns the second generation: member 3 has replaced member 2.
fn replaced() -> Arc<Electors> {
    roster(4, 2, &[(0, 1), (1, 1), (3, 2)])
}

fn asked(steps: &[Step]) -> Option<Vec<usize>> {
    first_ask(steps).map(|(nodes, _)| nodes)
}

#[test]
fn the_vote_of_a_member_that_left_does_not_complete_a_majority() {
    let mut run = Run::of_members(terms(3));
    assert_eq!(run.take_under(1, 1, 2, grant(7, 0)), []);
    assert_eq!(asked(&run.change_roster(2, &replaced())), Some([2].into()), "another server may be there now");
    assert_eq!(run.take_under(3, 1, 0, grant(7, 0)), [], "granted before the node had the new roster");
    assert_eq!(run.take_under(3, 1, 2, grant(7, 2)), []);
    let won = expect_win(&run.take_under(4, 2, 1, grant(7, 0)));
    assert_eq!(acks(&won), send_times([Some(0), Some(0), None, None]));
}

#[test]
fn a_smaller_majority_wins_at_once() {
    let electors = roster(4, 1, &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    let mut run = Run::start(Terms { electors, ..terms(3) });
    run.take_under(1, 1, 0, grant(7, 0));
    run.take_under(1, 1, 1, grant(7, 1));
    let won = expect_win(&run.change_roster(2, &roster(4, 2, &[(0, 1), (1, 1), (2, 1)])));
    assert_eq!(won.valid_until(), at(10_000 - 102));
}

#[test]
fn an_acquire_asks_nodes_with_a_new_roster_again_after_it_has_read_the_roster() {
    let mut run = Run::of_members(terms(3));
    for node in 0..3 {
        assert_eq!(run.take_under(1, 1, node, refuse(Refusal::NewRoster)), []);
    }
    assert_eq!(asked(&run.change_roster(2, &replaced())), Some([0, 1, 2].into()));
    assert_eq!(run.take_under(3, 2, 0, grant(7, 2)), []);
    expect_win(&run.take_under(3, 2, 1, grant(7, 2)));
}

#[test]
fn a_request_that_named_an_older_roster_than_the_client_is_repeated() {
    let mut run = Run::of_members(terms(3));
    run.change_roster(1, &replaced());
    run.take_under(2, 1, 0, refuse(Refusal::NewRoster));
    assert_eq!(asked(&run.change_roster(3, &replaced())), Some([0].into()));
    assert_eq!(asked(&run.change_roster(4, &replaced())), None);
}

#[test]
fn a_roster_that_is_not_read_by_the_node_deadline_is_no_quorum() {
    let mut run = Run::of_members(terms(3));
    for node in 0..3 {
        run.take_under(1, 1, node, refuse(Refusal::NewRoster));
    }
    let steps = run.tick(200);
    let defeat = run.expect_defeat(&steps);
    assert_eq!(defeat.verdict, Verdict::NoQuorum);
    assert_eq!(defeat.tally.votes[0], NodeVote::Silent(Silence::Waiting("the node has a new roster".into())));
}

#[test]
fn votes_under_an_unknown_roster_do_not_win() {
    let mut run = Run::of_members(terms(3));
    assert_eq!(run.take_under(1, 2, 0, grant(7, 0)), []);
    assert_eq!(run.take_under(1, 2, 1, grant(7, 0)), []);
    assert_eq!(asked(&run.change_roster(2, &replaced())), Some([0, 1].into()));
}

#[test]
fn two_positions_of_one_member_do_not_win() {
    let mut run = Run::of_members(terms(3));
    assert_eq!(run.take_under(1, 1, 0, grant(7, 0)), []);
    assert_eq!(run.take_from(1, 3, under(1, 0), grant(7, 0)), []);
    expect_win(&run.take_under(1, 1, 1, grant(7, 0)));
}

#[test]
fn a_list_with_a_minority_of_the_members_fails() {
    let electors = roster(1, 1, &[(0, 1), (1, 1), (2, 1)]);
    let mut run = Run::start(Terms { electors, ..terms(3) });
    let steps = run.take_under(1, 1, 0, grant(7, 0));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::NoQuorum);
}

#[test]
fn a_handoff_under_a_roster_in_which_it_does_not_count_is_a_hint() {
    let channel = Some(crate::name::Channel(1));
    for (electors, elector, is_vote) in [
        (replaced(), under(1, 0), true),
        (replaced(), under(3, 0), false),
        (replaced(), under(1, 2), false),
        (roster(4, 2, &[(0, 2), (1, 1), (3, 2)]), under(1, 0), false),
    ] {
        let mut run = Run::of_members(Terms { channel, ..terms(3) });
        for node in 0..3 {
            run.take_under(1, 1, node, held_in(9, QueuePosition::default()));
        }
        run.change_roster(2, &electors);
        let handoff = Handoff { attempt: Digest::of(run.attempt), fence: Fence::new(10) };
        let node = elector.member.0 as usize;
        run.acquire.take_handoff(node, elector, handoff, at(3), Some(1), &mut run.rng);
        let State::Asking(current) = &run.acquire.state else { panic!("over") };
        assert_eq!(current.is_granted(node), is_vote, "{elector:?}");
    }
}
