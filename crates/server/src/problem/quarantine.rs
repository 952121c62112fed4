//! When quarantines have ended that a majority waits for.

use std::time::Duration;

use quorlock::{Ballot, Silence, Tally};

/// How long it takes until enough nodes vote, if quarantines are what a majority waits for. The others of so many nodes are
/// not counted on: nobody knows when they come back.
pub(super) fn ends_in(nodes: usize, voting: usize, mut left: Vec<Duration>) -> Option<Duration> {
    left.sort_unstable();
    let missing = (nodes / 2 + 1).checked_sub(voting)?;
    left.get(missing.checked_sub(1)?).copied()
}

/// The same, by what came of a request. A node that was only late, or not heard, may well vote the next time.
pub(super) fn ends_for(tally: &Tally) -> Option<Duration> {
    let (mut voting, mut left) = (0, Vec::new());
    for ballot in &tally.ballots {
        match ballot {
            Ballot::Silent(Silence::Quarantined(time) | Silence::Founding(time)) => left.push(*time),
            Ballot::Silent(Silence::Unreachable(_) | Silence::Waiting(_) | Silence::Unfit(_) | Silence::Skewed(_)) => {}
            _ => voting += 1,
        }
    }
    ends_in(tally.ballots.len(), voting, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(ballots: Vec<Ballot>) -> Tally {
        Tally { ballots, nodes: Vec::new() }
    }

    fn quarantined(seconds: u64) -> Ballot {
        Ballot::Silent(Silence::Quarantined(Duration::from_secs(seconds)))
    }

    fn away() -> Ballot {
        Ballot::Silent(Silence::Unreachable("gone".into()))
    }

    #[test]
    fn a_majority_waits_for_the_last_quarantine_that_it_needs() {
        let three = |ballots: [Ballot; 3]| ends_for(&tally(ballots.into())).map(|left| left.as_secs());
        assert_eq!(three([quarantined(30), quarantined(10), quarantined(20)]), Some(20));
        assert_eq!(three([Ballot::Granted, quarantined(10), quarantined(20)]), Some(10));
        assert_eq!(three([Ballot::Granted, quarantined(10), away()]), Some(10));
        assert_eq!(three([quarantined(10), quarantined(20), away()]), Some(20));
    }

    #[test]
    fn where_quarantines_are_not_what_is_missing_nobody_waits_for_them() {
        let three = |ballots: [Ballot; 3]| ends_for(&tally(ballots.into()));
        assert_eq!(three([quarantined(10), away(), away()]), None, "one of them has to come back");
        assert_eq!(three([Ballot::Granted, Ballot::Silent(Silence::Late), quarantined(10)]), None, "it was only late");
        assert_eq!(three([Ballot::Granted, Ballot::Granted, quarantined(10)]), None);
        assert_eq!(ends_for(&tally(Vec::new())), None);
    }
}
