//! A short soak. It is the only test of its process, because it counts the process's memory, tasks and files.

use std::time::Duration;

use quorlock_soak::{Plan, run};

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_leases_leave_nothing_behind() {
    let plan = Plan { time: Duration::ZERO, busy: Duration::from_secs(2), seed: fastrand::u64(..), leak: 0 };
    let rounds = run(plan).await.unwrap_or_else(|leaks| panic!("{leaks}"));
    assert!(
        rounds.last().is_some_and(|counts| counts.leases > 0 && counts.cancelled > 0),
        "no lease was acquired or cancelled"
    );
    assert!(rounds.last().is_some_and(|counts| counts.batched > 0), "no command had several requests");
}
