//! Statistics of one node: its round trip times, and how often it has lost its memory.

use std::collections::VecDeque;
use std::time::Duration;

use quorlock_core::node::Epoch;

use crate::platform::sync::Mutex;

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

/// The statistics of one node, as measured by its link.
#[derive(Default)]
pub(crate) struct Latency(Mutex<Measured>);

#[derive(Default)]
struct Measured {
    /// The newest round trips.
    trips: VecDeque<Duration>,
    epoch: Option<Epoch>,
    restarts: u64,
}

impl Latency {
    /// Records a round trip.
    pub(super) fn record_trip(&self, trip: Duration) {
        let trips = &mut self.0.lock().trips;
        if trips.len() >= TRIPS_KEPT {
            trips.pop_front();
        }
        trips.push_back(trip);
    }

    /// Records the epoch (the id of the node's memory). Counts a memory loss if it differs from the last epoch.
    pub(super) fn record_epoch(&self, epoch: Epoch) {
        let mut measured = self.0.lock();
        let before = measured.epoch.replace(epoch);
        measured.restarts += u64::from(before.is_some_and(|before| before != epoch));
    }

    /// Returns how often this link has seen the node lose its memory.
    pub(crate) fn restarts(&self) -> u64 {
        self.0.lock().restarts
    }

    /// Returns the newest round trip times.
    pub(crate) fn round_trips(&self) -> Option<RoundTrips> {
        let mut trips: Vec<Duration> = self.0.lock().trips.iter().copied().collect();
        trips.sort_unstable();
        let percentile = |percent: usize| trips.get((trips.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(RoundTrips { p50: percentile(50)?, p99: percentile(99)? })
    }
}

#[cfg(test)]
mod tests;
