//! A histogram of durations, in constant memory.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

/// The ratio of a bucket's end to its beginning: quantiles are accurate to one percent.
const GROWTH: f64 = 1.01;

/// Measured durations.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// The number of durations in each bucket. An hour is in bucket 2211.
    counts: BTreeMap<u16, u64>,
    /// The number of durations.
    pub(super) total: u64,
}

impl Spread {
    pub(super) fn add(&mut self, reading: Duration) {
        let micros = reading.as_secs_f64() * 1e6;
        let bucket = (micros + 1.0).ln() / GROWTH.ln();
        *self.counts.entry(bucket as u16).or_default() += 1;
        self.total += 1;
    }

    /// Returns the value, in microseconds, below which this share of the durations lies; `None` if there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let (bucket, _) = self.counts.iter().find(|(_, count)| {
            seen += *count;
            seen >= wanted
        })?;
        Some(GROWTH.powf(f64::from(*bucket) + 0.5) - 1.0)
    }
}

/// Serializes as `{"count":4711,"p50_us":212.3,"p99_us":401.7}`.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tenths = |share| self.quantile(share).map(|micros| (micros * 10.0).round() / 10.0);
        json!({ "count": self.total, "p50_us": tenths(0.5), "p99_us": tenths(0.99) }).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_one_in_a_hundred() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile(0.5), None);
        for millis in 1..=1_000 {
            spread.add(Duration::from_millis(millis));
        }
        for (share, micros) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.0, 1_000.0), (1.0, 1_000_000.0)] {
            let read = spread.quantile(share).unwrap();
            assert!((read / micros - 1.0).abs() < 0.01, "{share}: {read}");
        }
    }

    #[test]
    fn nothing_is_too_short_or_too_long() {
        let mut spread = Spread::default();
        for reading in [Duration::from_secs(86_400), Duration::ZERO, Duration::from_micros(3)] {
            spread.add(reading);
        }
        assert_eq!(spread.total, 3);
        assert!(spread.quantile(0.5).unwrap() < 4.0);
        assert!(spread.quantile(1.0).unwrap() > 1e6);
    }
}
