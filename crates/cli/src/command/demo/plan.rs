//! What will be done to the nodes, and when: decided by the seed before anything begins.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::dice::Dice;
use super::{NODES, QUARANTINE, TTL};

/// Something that is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    /// It stops, with its connections open, as on SIGSTOP.
    Freeze,
    /// It goes on, with everything that it was asked meanwhile.
    Thaw,
    /// It cannot be reached, but keeps its memory.
    CutOff,
    /// It can be reached again.
    Reconnect,
    /// It is gone, and so is its memory.
    Crash,
    /// It is there again, and knows nothing.
    RestartEmpty,
}

/// One entry of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Deed {
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub(crate) at: Duration,
    /// From 0.
    pub(crate) node: usize,
    pub(crate) act: Act,
}

fn millis<S: Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(at.as_millis() as u64)
}

/// Workers first get used to each other.
const CALM: Duration = Duration::from_secs(1);
/// How long clients may take to find a node again that is back.
const COMEBACK: Duration = Duration::from_millis(1_200);
/// Crashes, freezes, cuts.
const KINDS: usize = 3;
/// How many may be out at a time, except in a storm: a minority.
const OUT_MAX: usize = (NODES - 1) / 2;
/// How many are frozen at once in a storm: a majority.
const STORM: usize = quorlock::Quorum::majority_of(NODES);
/// After so many faults, a storm.
const STORM_AFTER: usize = 4;

/// The plan of a seed, for this long: first one of each fault, then whatever the dice say.
pub(crate) fn plan(seed: u64, length: Duration) -> Vec<Deed> {
    let dice = Dice::new(seed, 0);
    let mut planner = Planner { dice, out_until: [Duration::ZERO; NODES], faults: 0, calm: STORM_AFTER, deeds: vec![] };
    let mut at = CALM;
    while at + CALM <= length {
        at = if planner.calm == 0 { planner.storm(at) } else { planner.fault(at) };
    }
    planner.deeds.sort_by_key(|deed| deed.at);
    planner.deeds
}

struct Planner {
    dice: Dice,
    /// Until when each node is out, and being found again after that.
    out_until: [Duration; NODES],
    faults: usize,
    /// How many faults there are until the next storm.
    calm: usize,
    deeds: Vec<Deed>,
}

impl Planner {
    fn well(&self, at: Duration) -> Vec<usize> {
        (0..NODES).filter(|node| self.out_until[*node] <= at).collect()
    }

    /// Takes a node out for this long. `after` is how long it is of no use once it is back.
    fn take_out(&mut self, node: usize, at: Duration, [begins, ends]: [Act; 2], length: Duration, after: Duration) {
        self.deeds.push(Deed { at, node, act: begins });
        self.deeds.push(Deed { at: at + length, node, act: ends });
        self.out_until[node] = at + length + after + COMEBACK;
    }

    /// Plans a fault of one node, and says when the next may come.
    fn fault(&mut self, at: Duration) -> Duration {
        let mut well = self.well(at);
        if NODES - well.len() >= OUT_MAX {
            let first_back = self.out_until.iter().filter(|until| **until > at).min();
            return first_back.copied().unwrap_or(at);
        }
        let Some(node) = self.dice.draw(&mut well) else { return at };
        let kind = if self.faults < KINDS { self.faults } else { self.dice.below(KINDS) };
        self.faults += 1;
        self.calm -= 1;
        match kind {
            0 => {
                let down = self.dice.millis(300, 1_200);
                self.take_out(node, at, [Act::Crash, Act::RestartEmpty], down, QUARANTINE);
            }
            1 => {
                let frozen = self.dice.millis(700, 2_500);
                self.take_out(node, at, [Act::Freeze, Act::Thaw], frozen, Duration::ZERO);
            }
            _ => {
                let away = self.dice.millis(500, 2_000);
                self.take_out(node, at, [Act::CutOff, Act::Reconnect], away, Duration::ZERO);
            }
        }
        at + self.dice.millis(700, 1_900)
    }

    /// A majority stops for longer than a lease lasts: everyone who holds something loses it, and is told in time.
    fn storm(&mut self, at: Duration) -> Duration {
        self.calm = STORM_AFTER;
        let mut well = self.well(at);
        let frozen = TTL + self.dice.millis(300, 900);
        for _ in 0..STORM {
            if let Some(node) = self.dice.draw(&mut well) {
                self.take_out(node, at, [Act::Freeze, Act::Thaw], frozen, Duration::ZERO);
            }
        }
        at + frozen + self.dice.millis(900, 1_900)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(60);

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_seed_another() {
        assert_eq!(plan(7, LENGTH), plan(7, LENGTH));
        assert_ne!(plan(7, LENGTH), plan(8, LENGTH));
    }

    #[test]
    fn a_longer_run_begins_as_a_shorter_one() {
        let (long, short) = (plan(7, LENGTH), plan(7, LENGTH / 4));
        let begun = |plan: &[Deed]| plan.iter().filter(|deed| deed.at + CALM < LENGTH / 4).copied().collect::<Vec<_>>();
        assert_eq!(begun(&long), begun(&short));
    }

    #[test]
    fn every_kind_of_fault_comes_early_and_a_storm_after_that() {
        for seed in 0..50 {
            let plan = plan(seed, LENGTH / 3);
            for act in [Act::Crash, Act::RestartEmpty, Act::Freeze, Act::Thaw, Act::CutOff, Act::Reconnect] {
                assert!(plan.iter().any(|deed| deed.act == act), "seed {seed}: no {act:?} in {plan:?}");
            }
            let storm = plan.iter().any(|deed| plan.iter().filter(|other| other.at == deed.at).count() >= STORM);
            assert!(storm, "seed {seed}: {plan:?}");
        }
    }

    #[test]
    fn nothing_is_done_to_a_node_that_is_out_but_to_bring_it_back() {
        for seed in 0..50 {
            for node in 0..NODES {
                let deeds: Vec<Act> =
                    plan(seed, LENGTH).iter().filter(|deed| deed.node == node).map(|deed| deed.act).collect();
                for pair in deeds.chunks(2) {
                    let fits = matches!(
                        pair,
                        [Act::Crash, Act::RestartEmpty] | [Act::Freeze, Act::Thaw] | [Act::CutOff, Act::Reconnect]
                    );
                    assert!(fits, "seed {seed}, node {node}: {deeds:?}");
                }
            }
        }
    }
}
