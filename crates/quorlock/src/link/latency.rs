//! Statistics of one node: its round trip times, and how often it has lost its memory.

use crate::platform::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use quorlock_core::node::Epoch;

/// The number of round trips that are kept: the newest ones.
const TRIPS_KEPT: usize = 256;

/// The round trip times of a node, from sending a batch to its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundTrips {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// The latency of one node, as measured by its link.
#[derive(Debug)]
pub(crate) struct Latency {
    /// The newest round trips in microseconds, each at least 1; zero for unused elements.
    trips: [AtomicU32; TRIPS_KEPT],
    next: AtomicUsize,
    epoch: Mutex<Option<Epoch>>,
    restarts: AtomicU64,
}

impl Latency {
    pub(super) fn new() -> Self {
        Self {
            trips: [const { AtomicU32::new(0) }; TRIPS_KEPT],
            next: AtomicUsize::new(0),
            epoch: Mutex::new(None),
            restarts: AtomicU64::new(0),
        }
    }

    /// Records a round trip.
    pub(super) fn record_trip(&self, trip: Duration) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % TRIPS_KEPT;
        let micros = u32::try_from(trip.as_micros()).unwrap_or(u32::MAX).max(1);
        self.trips[at].store(micros, Ordering::Relaxed);
    }

    /// Records the epoch, which names the current life of the node's memory. If it differs from the last epoch, counts
    /// a memory loss.
    pub(super) fn record_epoch(&self, epoch: Epoch) {
        let before = self.epoch.lock().replace(epoch);
        if before.is_some_and(|before| before != epoch) {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how often this link has seen the node lose its memory.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Returns the newest round trip times.
    pub(crate) fn round_trips(&self) -> Option<RoundTrips> {
        let recorded = self.trips.iter().map(|trip| trip.load(Ordering::Relaxed)).filter(|trip| *trip > 0);
        let mut trips: Vec<u32> = recorded.collect();
        trips.sort_unstable();
        let percentile = |percent: usize| trips.get((trips.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        let micros = |micros: u32| Duration::from_micros(micros.into());
        Some(RoundTrips { p50: micros(percentile(50)?), p99: micros(percentile(99)?) })
    }
}

#[cfg(test)]
mod tests;
