//! The cycles (one acquire and one release each) that a worker measured in one turn.

use std::time::{Duration, Instant};

use crate::case::{Figures, P50, P99, RATE};
use crate::sorted_readings::SortedReadings;

/// The times of the cycles that succeeded, and the number of those that failed.
#[derive(Default)]
pub(crate) struct Cycles {
    micros: Vec<f64>,
    failures: usize,
}

impl Cycles {
    /// Records a cycle that began at `begun` and ends now.
    pub(crate) fn record_success(&mut self, begun: Instant) {
        self.micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }

    pub(crate) fn record_failure(&mut self) {
        self.failures += 1;
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.micros.append(&mut others.micros);
        self.failures += others.failures;
    }

    pub(crate) fn figures(self, elapsed: Duration) -> Figures {
        let mut figures = Figures::from([(RATE.to_owned(), self.micros.len() as f64 / elapsed.as_secs_f64())]);
        let readings = SortedReadings::of(self.micros);
        if readings.len() > 0 {
            figures.insert(P50.into(), readings.median());
            figures.insert(P99.into(), readings.quantile(0.99));
        }
        // A contender that never fails needs no column for it.
        if self.failures > 0 {
            figures.insert("failures".into(), self.failures as f64);
        }
        figures
    }
}
