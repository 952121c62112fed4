//! The clock that times every event.

use rustix::time::{ClockId, clock_gettime};

/// The time of the machine's monotonic clock in nanoseconds. All processes can read this clock, also those of Node.js.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Converts nanoseconds to seconds, for messages.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
