//! Who is to be called, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Weak;

use quorlock_core::time::Moment;

use super::Timed;

/// A queue shorter than this is not swept.
const SWEEP_MIN: usize = 1_024;

/// Which call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// In the order of asking.
    number: u64,
    desk: usize,
}

/// All calls to come. One that is cancelled frees its desk at once, and leaves an entry that leads nowhere.
#[derive(Default)]
pub(super) struct Calls {
    heap: BinaryHeap<Reverse<(Moment, Call)>>,
    desks: Vec<Desk>,
    /// Desks that nobody sits at.
    free: Vec<usize>,
    number: u64,
    /// How many entries there were when those that lead nowhere were last swept out.
    swept: usize,
}

struct Desk {
    /// The last call that was here.
    number: u64,
    whom: Option<Weak<dyn Timed>>,
}

impl Calls {
    pub(super) fn add(&mut self, at: Moment, whom: Weak<dyn Timed>) -> Call {
        self.sweep();
        self.number += 1;
        let desk = Desk { number: self.number, whom: Some(whom) };
        let place = if let Some(place) = self.free.pop() {
            self.desks[place] = desk;
            place
        } else {
            self.desks.push(desk);
            self.desks.len() - 1
        };
        let call = Call { number: self.number, desk: place };
        self.heap.push(Reverse((at, call)));
        call
    }

    /// Whom it would have called, if it is still to come.
    pub(super) fn cancel(&mut self, call: Call) -> Option<Weak<dyn Timed>> {
        let desk = self.desks.get_mut(call.desk).filter(|desk| desk.number == call.number)?;
        let whom = desk.whom.take()?;
        self.free.push(call.desk);
        Some(whom)
    }

    /// The moment of the next call. Those who are gone are forgotten before that: nobody wakes up for them.
    pub(super) fn next(&mut self) -> Option<Moment> {
        while let Some(&Reverse((at, call))) = self.heap.peek() {
            if self.is_to_come(call) {
                return Some(at);
            }
            self.heap.pop();
            self.cancel(call);
        }
        None
    }

    /// Whoever is to be called next, if the time for it has come.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Weak<dyn Timed>> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, call)) = self.heap.pop()?;
        self.cancel(call)
    }

    /// Everyone, in no order that matters.
    pub(super) fn take_all(&mut self) -> Vec<Weak<dyn Timed>> {
        let entries = std::mem::take(&mut self.heap);
        entries.into_iter().filter_map(|Reverse((_, call))| self.cancel(call)).collect()
    }

    /// How many there are, to those who still exist.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn to_come(&self) -> usize {
        self.heap.iter().filter(|Reverse((_, call))| self.is_to_come(*call)).count()
    }

    fn is_to_come(&self, call: Call) -> bool {
        let desk = &self.desks[call.desk];
        desk.number == call.number && desk.whom.as_ref().is_some_and(|whom| whom.strong_count() > 0)
    }

    /// Most of those who wait here are gone before their time comes.
    fn sweep(&mut self) {
        if self.heap.len() <= self.swept * 2 + SWEEP_MIN {
            return;
        }
        let mut heap = std::mem::take(&mut self.heap);
        heap.retain(|Reverse((_, call))| {
            let is_to_come = self.is_to_come(*call);
            if !is_to_come {
                self.cancel(*call);
            }
            is_to_come
        });
        self.swept = heap.len();
        self.heap = heap;
    }
}

#[cfg(test)]
mod tests;
