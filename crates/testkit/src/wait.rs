//! Waiting for conditions. No test sleeps for a fixed time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(5);

/// Long enough for a slow machine. Only a failing test waits this long. Shorter than the long leases of tests: a test
/// that waits for a release must fail if the vote only expires.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Blocks until `condition` holds. Panics with `what` at the time limit.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        thread::sleep(INTERVAL);
    }
}

/// Runs `work`, and returns its result and the longest time for which a thread of this process did not run, because the
/// machine was paused or overloaded. A test of a deadline has no verdict if that time exceeds the margin of the
/// deadline.
pub fn with_longest_stall<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let before = Instant::now();
                thread::sleep(INTERVAL);
                longest = longest.max(before.elapsed().saturating_sub(INTERVAL));
            }
            longest
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, watch.join().expect("the watching thread does not panic"))
    })
}

/// Waits until `condition` holds. Panics with `what` at the time limit.
///
/// The pauses are tokio sleeps, so timers of the test's runtime continue, also
/// under paused time. The time limit is in real time.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}
