//! A lease whose roster changes. The list has the nodes 0 to 3; at first the members are 0, 1 and 2.

use alloc::sync::Arc;

use super::*;
use crate::quorum::Electors;
use crate::testing::{roster, under};

impl Run {
    /// Returns a run of a lease that these members granted at the origin.
    fn of_members(granted: [bool; 3]) -> Self {
        let electors = roster(4, 1, &[(0, 1), (1, 1), (2, 1)]);
        let ack = |node: usize| granted.get(node).is_some_and(|is_granted| *is_granted);
        let acks = (0..4).map(|node| ack(node).then_some(Ack { elector: under(1, node), sent: at(0) })).collect();
        let terms = Terms { electors, ..terms(3) };
        let hold = Hold::new(terms, ATTEMPT, Some(Fence::new(70)), acks, at(0)).expect("a majority granted");
        Self { hold, rng: CountingRng::low() }
    }

    fn change_roster(&mut self, now_ms: u64, electors: &Arc<Electors>) -> Vec<Step> {
        self.hold.change_roster(electors, at(now_ms), &mut self.rng)
    }

    /// Takes the outcome of the member at this position, which votes under this generation.
    fn take_under(&mut self, now_ms: u64, round: u32, generation: u64, node: usize, outcome: Outcome) -> Vec<Step> {
        self.take_from(now_ms, round, (node, under(generation, node)), outcome)
    }
}

/// Returns the second generation: member 3 has replaced member 2.
fn replaced() -> Arc<Electors> {
    roster(4, 2, &[(0, 1), (1, 1), (3, 2)])
}

/// Returns a run of a lease that only member 1 of the new roster has granted, at its first renewal.
fn renewing_after_a_change() -> Run {
    let mut run = Run::of_members([false, true, true]);
    assert_eq!(run.change_roster(1_000, &replaced()), []);
    assert_eq!(asked_round(&run.tick(3_000)), Some(1));
    run
}

#[test]
fn a_lease_keeps_its_validity_when_members_leave_and_the_new_majority_renews_it() {
    let mut run = renewing_after_a_change();
    assert_eq!(run.valid_until(), at(VALIDITY_MS));
    assert_eq!(run.take_under(3_001, 1, 2, 1, grant(70, 3_000)), []);
    assert_eq!(run.take_under(3_001, 1, 1, 2, grant(70, 3_000)), [], "the vote of a member that left");
    assert_eq!(run.valid_until(), at(VALIDITY_MS));
    assert_eq!(run.take_under(3_002, 1, 2, 0, grant(70, 3_001)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_000 + VALIDITY_MS));
}

#[test]
fn a_lease_ends_with_its_validity_if_the_new_majority_does_not_renew_it() {
    let mut run = renewing_after_a_change();
    run.take_under(3_001, 1, 1, 2, grant(70, 3_000));
    assert_eq!(run.tick(VALIDITY_MS), [Step::Lost(Loss::Expired)]);
}

#[test]
fn a_node_with_a_new_roster_keeps_its_vote_and_is_asked_again() {
    let mut run = Run::of_members([true; 3]);
    run.tick(3_000);
    for node in 0..3 {
        assert_eq!(run.take_under(3_001, 1, 1, node, refuse(Refusal::NewRoster)), []);
    }
    assert_eq!(run.valid_until(), at(VALIDITY_MS));
    let steps = run.change_roster(3_002, &replaced());
    assert!(matches!(&steps[..], [Step::Ask { nodes, round: 1, .. }] if nodes.iter().eq(0..3)), "{steps:?}");
    assert_eq!(run.take_under(3_003, 1, 2, 0, grant(70, 3_002)), []);
    assert_eq!(run.take_under(3_003, 1, 2, 1, grant(70, 3_002)), [Step::Renewed { round: 1 }]);
    assert_eq!(run.valid_until(), at(3_002 + VALIDITY_MS));
}

#[test]
fn a_grant_under_an_unknown_roster_does_not_renew() {
    let mut run = Run::of_members([true; 3]);
    run.tick(3_000);
    assert_eq!(run.take_under(3_001, 1, 2, 0, grant(70, 3_000)), []);
    assert_eq!(run.take_under(3_001, 1, 2, 1, grant(70, 3_000)), []);
    assert_eq!(run.valid_until(), at(VALIDITY_MS));
}

#[test]
fn a_renewal_drops_the_grants_of_members_that_left() {
    let mut run = Run::of_members([true; 3]);
    run.tick(3_000);
    run.take_under(3_001, 1, 1, 2, grant(70, 3_000));
    let steps = run.change_roster(3_002, &replaced());
    assert!(matches!(&steps[..], [Step::Ask { nodes, round: 1, .. }] if nodes.iter().eq([2])), "{steps:?}");
    assert_eq!(run.take_under(3_003, 1, 2, 0, grant(70, 3_000)), []);
    assert_eq!(run.take_under(3_003, 1, 2, 1, grant(70, 3_000)), [Step::Renewed { round: 1 }]);
}

#[test]
fn a_smaller_majority_counts_for_the_validity() {
    let electors = roster(4, 1, &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    let acks = [Some(500), Some(400), Some(0), None];
    let ack = |node: usize| acks[node].map(|ms| Ack { elector: under(1, node), sent: at(ms) });
    let terms = Terms { electors, ..terms(3) };
    let hold = Hold::new(terms, ATTEMPT, Some(Fence::new(70)), (0..4).map(ack).collect(), at(500)).unwrap();
    let mut run = Run { hold, rng: CountingRng::low() };
    run.change_roster(600, &roster(4, 2, &[(0, 1), (1, 1), (2, 1)]));
    assert_eq!(run.hold.valid_until(), at(400 + VALIDITY_MS));
}

#[test]
fn a_lease_without_a_new_majority_is_lost_when_a_vote_is_taken_back() {
    let mut run = renewing_after_a_change();
    assert_eq!(run.take_under(3_001, 1, 2, 0, held(90)), [], "member 0 had no vote for the lease");
    assert_eq!(run.take_under(3_002, 1, 2, 1, refuse(Refusal::Tombstoned)), [Step::Lost(Loss::Broken)]);
}

#[test]
fn a_lease_is_lost_when_the_new_majority_refuses_it() {
    let mut run = renewing_after_a_change();
    assert_eq!(run.take(3_001, 1, 2, late()), []);
    assert_eq!(run.take_under(3_001, 1, 2, 0, refuse(Refusal::Tombstoned)), []);
    assert_eq!(run.take_under(3_002, 1, 2, 3, refuse(Refusal::Tombstoned)), [Step::Lost(Loss::Broken)]);
}

#[test]
fn a_refusal_of_another_server_at_its_position_leaves_a_vote() {
    let mut run = Run::of_members([true, true, false]);
    assert_eq!(run.take_from(1, 0, (1, under(1, 3)), refuse(Refusal::Absent)), []);
    assert!(run.hold.is_held());
}

#[test]
fn two_positions_of_one_member_have_one_vote() {
    let mut run = Run::of_members([true, true, false]);
    assert_eq!(run.take_from(1, 0, (3, under(1, 0)), grant(70, 0)), []);
    assert_eq!(run.take_under(2, 0, 1, 1, held(90)), [Step::Lost(Loss::Removed)]);
}

#[test]
fn an_expired_lease_does_not_follow_the_roster() {
    let mut run = Run::of_members([true; 3]);
    assert_eq!(run.change_roster(VALIDITY_MS, &replaced()), [Step::Lost(Loss::Expired)]);
}
