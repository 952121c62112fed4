//! A short soak. It is the only test of its process, because it counts the process's memory, tasks and files.

use std::time::Duration;

use quorlock_soak::{Plan, run};

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_leases_leave_nothing_behind() {
    let plan = Plan { time: Duration::ZERO, busy: Duration::from_secs(2), seed: fastrand::u64(..), leak: 0 };
    let rounds = run(plan).await.unwrap_or_else(|growth| panic!("{growth}"));
    assert!(
        rounds.last().is_some_and(|figures| figures.leases > 0 && figures.cancelled > 0),
        "no lease was acquired or cancelled"
    );
    assert!(rounds.last().is_some_and(|figures| figures.together > 0), "no command had several requests");
}
