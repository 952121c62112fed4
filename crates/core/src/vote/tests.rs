use alloc::vec::Vec;

use super::*;

fn tally(votes: Vec<NodeVote>) -> Tally {
    Tally { votes, nodes: Vec::new() }
}

fn quarantined(seconds: u64) -> NodeVote {
    NodeVote::Silent(Silence::Quarantined(Duration::from_secs(seconds)))
}

fn unreachable() -> NodeVote {
    NodeVote::Silent(Silence::Unreachable("gone".into()))
}

#[test]
fn quarantine_left_is_the_last_quarantine_that_a_majority_needs() {
    let left_of_three = |votes: [NodeVote; 3]| tally(votes.into()).quarantine_left().map(|left| left.as_secs());
    assert_eq!(left_of_three([quarantined(30), quarantined(10), quarantined(20)]), Some(20));
    assert_eq!(left_of_three([NodeVote::Granted, quarantined(10), quarantined(20)]), Some(10));
    assert_eq!(left_of_three([NodeVote::Granted, quarantined(10), unreachable()]), Some(10));
    assert_eq!(left_of_three([quarantined(10), quarantined(20), unreachable()]), Some(20));
}

#[test]
fn quarantine_left_is_none_if_quarantines_do_not_prevent_a_majority() {
    let left_of_three = |votes: [NodeVote; 3]| tally(votes.into()).quarantine_left();
    assert_eq!(
        left_of_three([quarantined(10), unreachable(), unreachable()]),
        None,
        "a majority needs an unreachable node"
    );
    assert_eq!(
        left_of_three([NodeVote::Granted, NodeVote::Silent(Silence::Late), quarantined(10)]),
        None,
        "a late node can vote"
    );
    assert_eq!(left_of_three([NodeVote::Granted, NodeVote::Granted, quarantined(10)]), None);
    assert_eq!(tally(Vec::new()).quarantine_left(), None);
}
