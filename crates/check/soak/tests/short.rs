//! A short soak: alone in its process, for its memory, tasks and files are looked at.

use std::time::Duration;

use quorlock_soak::{Plan, run};

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_leases_that_came_and_went() {
    let plan = Plan { time: Duration::ZERO, busy: Duration::from_secs(2), seed: fastrand::u64(..), leak: 0 };
    let rounds = run(plan).await.unwrap_or_else(|growth| panic!("{growth}"));
    assert!(rounds.last().is_some_and(|figures| figures.leases > 0 && figures.cancelled > 0), "nobody came");
    assert!(rounds.last().is_some_and(|figures| figures.together > 0), "nothing was sent together");
}
