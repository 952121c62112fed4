//! A histogram of durations, in constant memory.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

/// The ratio of a bucket's end to its beginning: quantiles are accurate to one percent.
const GROWTH: f64 = 1.01;
/// Enough buckets for more than an hour.
const BUCKETS: usize = 2_300;

/// Measured durations.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Spread {
    pub(super) fn add(&mut self, reading: Duration) {
        let micros = reading.as_secs_f64() * 1e6;
        let bucket = (micros + 1.0).ln() / GROWTH.ln();
        self.counts[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// Returns the number of durations.
    pub(super) fn len(&self) -> u64 {
        self.total
    }

    /// Returns the value, in microseconds, below which this share of the durations lies; `None` if there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(GROWTH.powf(bucket as f64 + 0.5) - 1.0)
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
        assert_eq!(spread.len(), 3);
        assert!(spread.quantile(0.5).unwrap() < 4.0);
        assert!(spread.quantile(1.0).unwrap() > 1e6);
    }
}
