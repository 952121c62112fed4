//! The ids of the events of the stream.

use std::fmt;

/// The id of an event: a random number that identifies this run of the replica's process, and the number of the event
/// in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    run: u64,
    number: u64,
}

/// The id before the first event of a new run.
impl Default for EventId {
    fn default() -> Self {
        Self { run: fastrand::u64(..), number: 0 }
    }
}

impl EventId {
    pub(super) fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    /// Returns the number of events after `earlier`, up to and including the event with this id. Returns `None` if
    /// `earlier` is from another run, or is newer than this id.
    pub(super) fn count_after(self, earlier: Self) -> Option<usize> {
        let count = self.number.checked_sub(earlier.number).filter(|_| self.run == earlier.run)?;
        usize::try_from(count).ok()
    }

    /// Parses the output of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self { run: u64::from_str_radix(run, 16).ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.run, self.number)
    }
}
