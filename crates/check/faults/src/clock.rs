//! The one clock by which everything is judged.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock: the same for all its processes, and Node.js has it, too.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// For people.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
