//! The position of a reader in the stream.

use std::fmt;

/// The number of an event in this run of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    run: u64,
    number: u64,
}

/// The mark before the first event of a new run.
impl Default for Mark {
    fn default() -> Self {
        Self { run: fastrand::u64(..), number: 0 }
    }
}

impl Mark {
    pub(super) fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    /// Returns the number of events after `earlier`, up to this one; `None` if `earlier` is from another run or newer.
    pub(super) fn steps_after(self, earlier: Self) -> Option<usize> {
        let steps = self.number.checked_sub(earlier.number).filter(|_| self.run == earlier.run)?;
        usize::try_from(steps).ok()
    }

    /// Parses the output of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self { run: u64::from_str_radix(run, 16).ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.run, self.number)
    }
}
