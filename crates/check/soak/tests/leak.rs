//! A soak with a deliberate leak. It is the only test of its process, because it measures the process's memory.

use std::time::Duration;

use quorlock_soak::{Plan, run};

/// The memory that the test leaks in each round.
const LEAK_KIB: usize = 8 * 1024;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_leak_is_detected() {
    let plan = Plan { time: Duration::ZERO, busy: Duration::from_secs(1), seed: fastrand::u64(..), leak: LEAK_KIB };
    let leaks = run(plan).await.expect_err("the soak must notice the leak");
    assert!(leaks.to_string().contains("allocated memory grew by"), "{leaks}");
}
