//! Waiting for conditions. No test sleeps for a fixed time.

use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(5);

/// Long enough for the slowest machine. Only a failing test waits this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Blocks until `condition` holds. Panics with `what` when it never does.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        thread::sleep(INTERVAL);
    }
}

/// Waits until `condition` holds. Panics with `what` when it never does.
///
/// The pauses are tokio sleeps, so timers of the test's runtime go on, also
/// under paused time. The deadline is in real time.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}
