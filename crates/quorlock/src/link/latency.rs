//! How a node does: how long its answers take, and how often it has lost its memory.

use crate::platform::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use quorlock_core::node::Epoch;

/// How many round trips are remembered: the newest ones.
const TRIPS_KEPT: usize = 256;

/// How long answers took, from the sending of a batch to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundTrips {
    /// Half of them took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
}

/// One node's pulse, taken by its link.
#[derive(Debug)]
pub(crate) struct Latency {
    /// In microseconds, from 1; zero where there was none yet.
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

    /// An answer took so long.
    pub(super) fn took(&self, trip: Duration) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % TRIPS_KEPT;
        let micros = u32::try_from(trip.as_micros()).unwrap_or(u32::MAX).max(1);
        self.trips[at].store(micros, Ordering::Relaxed);
    }

    /// The node lives its life under this name; another than before means that it has forgotten.
    pub(super) fn lives(&self, epoch: Epoch) {
        let before = self.epoch.lock().replace(epoch);
        if before.is_some_and(|before| before != epoch) {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the node has lost its memory, as far as this link has seen.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// How long the newest answers took.
    pub(crate) fn round_trips(&self) -> Option<RoundTrips> {
        let taken = self.trips.iter().map(|trip| trip.load(Ordering::Relaxed)).filter(|trip| *trip > 0);
        let mut trips: Vec<u32> = taken.collect();
        trips.sort_unstable();
        let share = |percent: usize| trips.get((trips.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        let micros = |micros: u32| Duration::from_micros(micros.into());
        Some(RoundTrips { p50: micros(share(50)?), p99: micros(share(99)?) })
    }
}

#[cfg(test)]
mod tests;
