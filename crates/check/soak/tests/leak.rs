//! A soak that leaks: alone in its process, for its memory is looked at.

use std::time::Duration;

use quorlock_soak::{Plan, run};

/// In each round.
const LEAK_KIB: usize = 32 * 1024;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_never_given_back_is_noticed() {
    let plan = Plan { time: Duration::ZERO, busy: Duration::from_secs(1), seed: fastrand::u64(..), leak: LEAK_KIB };
    let growth = run(plan).await.expect_err("it leaks");
    assert!(growth.to_string().contains("KiB of memory more"), "{growth}");
}
