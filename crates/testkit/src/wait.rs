//! Waiting for conditions. No test sleeps for a fixed time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a test waits for a condition before the test fails. The time is long enough for a slow machine. It is shorter
/// than the ttl in tests that wait for a release, because such a test must fail if the vote is not released but expires.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Blocks until `condition` holds. Panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Runs `work`. Returns its result, and the longest time for which a thread of this process could not run, because the
/// machine was paused or overloaded. If this time exceeds the margin of a deadline, a test of the deadline proves
/// nothing.
pub fn with_longest_stall<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let before = Instant::now();
                thread::sleep(POLL_INTERVAL);
                longest = longest.max(before.elapsed().saturating_sub(POLL_INTERVAL));
            }
            longest
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, watcher.join().expect("the watching thread does not panic"))
    })
}

/// Waits until `condition` holds. Panics with `what` after [`DEADLINE`].
///
/// Between two checks it sleeps in tokio's time, so that timers of the test's runtime fire even if that time is paused.
/// [`DEADLINE`] counts real time.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
