//! Sorted readings and their quantiles.

use std::time::Duration;

/// Readings in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedReadings(Vec<f64>);

impl SortedReadings {
    /// Sorts the readings.
    pub(crate) fn of(mut readings: Vec<f64>) -> Self {
        readings.sort_by(f64::total_cmp);
        Self(readings)
    }

    pub(crate) fn add(&mut self, reading: f64) {
        let index = self.0.partition_point(|other| *other < reading);
        self.0.insert(index, reading);
    }

    pub(crate) fn add_micros(&mut self, reading: Duration) {
        self.add(reading.as_secs_f64() * 1e6);
    }

    /// The quantile, e.g. the median for a share of 0.5. Zero without readings.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
