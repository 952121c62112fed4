//! Who is to be called, and when.

use std::collections::BTreeMap;
use std::sync::Weak;

use quorlock_core::time::Moment;

use super::Timed;

/// A queue shorter than this is not swept.
const SWEEP_MIN: usize = 1_024;

/// Which call it is: its moment, and its number in the order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call(Moment, u64);

/// All calls to come, in their order.
#[derive(Default)]
pub(super) struct Calls {
    queue: BTreeMap<Call, Weak<dyn Timed>>,
    number: u64,
    /// How many calls were left by the last sweep.
    swept: usize,
}

impl Calls {
    pub(super) fn add(&mut self, at: Moment, whom: Weak<dyn Timed>) -> Call {
        // A `Weak` keeps the memory of an owner that is gone: most are gone before their time comes.
        if self.queue.len() > self.swept * 2 + SWEEP_MIN {
            self.queue.retain(|_, whom| whom.strong_count() > 0);
            self.swept = self.queue.len();
        }
        self.number += 1;
        let call = Call(at, self.number);
        self.queue.insert(call, whom);
        call
    }

    /// Whom it would have called, if it is still to come.
    pub(super) fn cancel(&mut self, call: Call) -> Option<Weak<dyn Timed>> {
        self.queue.remove(&call)
    }

    /// The moment of the next call. Nobody wakes up for owners that are gone.
    pub(super) fn next(&mut self) -> Option<Moment> {
        while let Some(first) = self.queue.first_entry() {
            if first.get().strong_count() > 0 {
                return Some(first.key().0);
            }
            first.remove();
        }
        None
    }

    /// Whoever is to be called next, if the time for it has come.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Weak<dyn Timed>> {
        self.next().filter(|at| *at <= now)?;
        self.queue.pop_first().map(|(_, whom)| whom)
    }

    /// Everyone.
    pub(super) fn take_all(&mut self) -> Vec<Weak<dyn Timed>> {
        std::mem::take(&mut self.queue).into_values().collect()
    }

    /// How many there are, to those who still exist.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn to_come(&self) -> usize {
        self.queue.values().filter(|whom| whom.strong_count() > 0).count()
    }
}

#[cfg(test)]
mod tests;
