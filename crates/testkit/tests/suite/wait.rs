//! Waiting for conditions.

use std::time::Duration;

use quorlock_testkit::{eventually, eventually_async};

#[test]
fn eventually_waits_until_the_condition_holds() {
    let mut asked = 0;
    eventually("the third question", || {
        asked += 1;
        asked == 3
    });
    assert_eq!(asked, 3);
}

#[tokio::test]
async fn eventually_async_lets_other_tasks_run() {
    let task = tokio::spawn(tokio::time::sleep(Duration::from_millis(1)));
    eventually_async("the task to end", async || task.is_finished()).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_condition_of_eventually_async_may_change_its_variables() {
    let mut asked = 0;
    eventually_async("the third question", async || {
        asked += 1;
        tokio::task::yield_now().await;
        asked == 3
    })
    .await;
    assert_eq!(asked, 3);
}
