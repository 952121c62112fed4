//! What can be asked of one name, and what must come of it.

use proptest::prelude::*;
use quorlock::{Period, Report};

/// How many owners of reentrant locks there are, and how many parties that read and write.
pub(crate) const PARTIES: usize = 3;

/// A way to ask for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Exclusive,
    Plain,
    /// As one of the owners.
    Enter(usize),
    /// As one of the parties.
    Read(usize),
    /// As one of the parties.
    Write(usize),
    /// With so many permits.
    Slot(u32),
}

pub(crate) fn exclusive() -> BoxedStrategy<Ask> {
    prop_oneof![3 => Just(Ask::Exclusive), 1 => Just(Ask::Plain)].boxed()
}

pub(crate) fn reentrant() -> BoxedStrategy<Ask> {
    (0..PARTIES).prop_map(Ask::Enter).boxed()
}

pub(crate) fn shared() -> BoxedStrategy<Ask> {
    prop_oneof![2 => (0..PARTIES).prop_map(Ask::Read), 1 => (0..PARTIES).prop_map(Ask::Write)].boxed()
}

pub(crate) fn slots() -> BoxedStrategy<Ask> {
    prop_oneof![6 => Just(Ask::Slot(3)), 1 => (1..=4_u32).prop_map(Ask::Slot)].boxed()
}

pub(crate) fn any() -> BoxedStrategy<Ask> {
    prop_oneof![exclusive(), reentrant(), shared(), slots()].boxed()
}

/// What must come of asking once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Refused,
    /// The party reads what it wants alone.
    Upgrade,
    /// It is held with so many permits.
    Permits(u32),
}

/// Who holds the name, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) holds: Vec<Ask>,
}

impl Model {
    pub(crate) fn outcome(&self, ask: Ask) -> Outcome {
        let Some(held) = self.holds.first() else { return Outcome::Granted };
        match (*held, ask) {
            (Ask::Enter(owner), Ask::Enter(other)) if owner == other => Outcome::Granted,
            (Ask::Read(_), Ask::Read(_)) => Outcome::Granted,
            (Ask::Read(_), Ask::Write(party) | Ask::Enter(party)) if self.holds.contains(&Ask::Read(party)) => {
                Outcome::Upgrade
            }
            (Ask::Slot(permits), Ask::Slot(other)) if permits != other => Outcome::Permits(permits),
            (Ask::Slot(permits), Ask::Slot(_)) if self.holds.len() < permits as usize => Outcome::Granted,
            _ => Outcome::Refused,
        }
    }

    /// Whether it would be one more entry of an owner who is in already.
    pub(crate) fn is_reentry(&self, ask: Ask) -> bool {
        matches!(ask, Ask::Enter(_)) && self.holds.contains(&ask)
    }

    /// Whether a node that has heard everything says so.
    pub(crate) fn fits(&self, report: &Report) -> bool {
        let like = |period: Period| match (self.holds.first(), period) {
            (Some(Ask::Exclusive | Ask::Plain | Ask::Write(_)), Period::Exclusive)
            | (Some(Ask::Enter(_)), Period::Reentrant(_))
            | (Some(Ask::Read(_)), Period::Shared) => true,
            (Some(Ask::Slot(permits)), Period::Slots(stored)) => *permits == stored,
            _ => false,
        };
        let as_held = match &report.held {
            Some(held) => like(held.period) && held.holds as usize == self.holds.len(),
            None => self.holds.is_empty(),
        };
        as_held && report.waiting == 0
    }
}
