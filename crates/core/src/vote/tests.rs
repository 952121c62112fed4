use alloc::vec::Vec;

use super::*;

fn tally(votes: Vec<NodeVote>) -> Tally {
    Tally { votes, nodes: Vec::new() }
}

fn quarantined(seconds: u64) -> NodeVote {
    NodeVote::Silent(Silence::Quarantined(Duration::from_secs(seconds)))
}

fn away() -> NodeVote {
    NodeVote::Silent(Silence::Unreachable("gone".into()))
}

#[test]
fn a_majority_waits_for_the_last_quarantine_that_it_needs() {
    let three = |votes: [NodeVote; 3]| tally(votes.into()).quarantine_left().map(|left| left.as_secs());
    assert_eq!(three([quarantined(30), quarantined(10), quarantined(20)]), Some(20));
    assert_eq!(three([NodeVote::Granted, quarantined(10), quarantined(20)]), Some(10));
    assert_eq!(three([NodeVote::Granted, quarantined(10), away()]), Some(10));
    assert_eq!(three([quarantined(10), quarantined(20), away()]), Some(20));
}

#[test]
fn where_quarantines_are_not_what_is_missing_nobody_waits_for_them() {
    let three = |votes: [NodeVote; 3]| tally(votes.into()).quarantine_left();
    assert_eq!(three([quarantined(10), away(), away()]), None, "one of them has to come back");
    assert_eq!(three([NodeVote::Granted, NodeVote::Silent(Silence::Late), quarantined(10)]), None, "it was only late");
    assert_eq!(three([NodeVote::Granted, NodeVote::Granted, quarantined(10)]), None);
    assert_eq!(tally(Vec::new()).quarantine_left(), None);
}
