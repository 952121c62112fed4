//! Waiting for conditions.

use std::time::Duration;

use quorlock_testkit::{eventually, eventually_async};

#[test]
fn eventually_waits_until_the_condition_holds() {
    let mut calls = 0;
    eventually("the third call", || {
        calls += 1;
        calls == 3
    });
    assert_eq!(calls, 3);
}

#[tokio::test]
async fn eventually_async_lets_other_tasks_run() {
    let task = tokio::spawn(tokio::time::sleep(Duration::from_millis(1)));
    eventually_async("the task to end", async || task.is_finished()).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_condition_of_eventually_async_may_change_captured_variables() {
    let mut calls = 0;
    eventually_async("the third call", async || {
        calls += 1;
        tokio::task::yield_now().await;
        calls == 3
    })
    .await;
    assert_eq!(calls, 3);
}
