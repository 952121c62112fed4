//! A histogram of durations, in constant memory.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

/// The ratio of a bucket's end to its beginning: quantiles are accurate to one percent.
const GROWTH: f64 = 1.01;

/// A histogram of measured durations. Each bucket is one percent longer than the bucket before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// The number of durations in each bucket. An hour is in bucket 2211.
    counts: BTreeMap<u16, u64>,
    /// The number of durations.
    pub(super) total: u64,
}

impl Histogram {
    pub(super) fn add(&mut self, duration: Duration) {
        let micros = duration.as_secs_f64() * 1e6;
        let bucket = (micros + 1.0).ln() / GROWTH.ln();
        *self.counts.entry(bucket as u16).or_default() += 1;
        self.total += 1;
    }

    /// Returns the duration, in microseconds, below which this fraction of all durations lies. Returns `None` if no
    /// duration was added.
    pub(super) fn quantile(&self, fraction: f64) -> Option<f64> {
        let rank = ((self.total as f64 * fraction).ceil() as u64).max(1);
        let mut passed = 0;
        let (bucket, _) = self.counts.iter().find(|(_, count)| {
            passed += *count;
            passed >= rank
        })?;
        Some(GROWTH.powf(f64::from(*bucket) + 0.5) - 1.0)
    }
}

/// Serializes as `{"count":4711,"p50_us":212.3,"p99_us":401.7}`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tenths = |fraction| self.quantile(fraction).map(|micros| (micros * 10.0).round() / 10.0);
        json!({ "count": self.total, "p50_us": tenths(0.5), "p99_us": tenths(0.99) }).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_accurate_to_one_percent() {
        let mut durations = Histogram::default();
        assert_eq!(durations.quantile(0.5), None);
        for millis in 1..=1_000 {
            durations.add(Duration::from_millis(millis));
        }
        for (fraction, micros) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.0, 1_000.0), (1.0, 1_000_000.0)] {
            let quantile = durations.quantile(fraction).unwrap();
            assert!((quantile / micros - 1.0).abs() < 0.01, "{fraction}: {quantile}");
        }
    }

    #[test]
    fn durations_from_zero_to_a_day_are_counted() {
        let mut durations = Histogram::default();
        for duration in [Duration::from_secs(86_400), Duration::ZERO, Duration::from_micros(3)] {
            durations.add(duration);
        }
        assert_eq!(durations.total, 3);
        assert!(durations.quantile(0.5).unwrap() < 4.0);
        assert!(durations.quantile(1.0).unwrap() > 1e6);
    }
}
