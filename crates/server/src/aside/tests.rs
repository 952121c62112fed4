use std::thread;

use super::*;

#[tokio::test]
async fn what_is_looked_at_is_looked_at_by_another_thread() {
    let aside = Aside::start("looks").unwrap();
    let name = aside.run(async { thread::current().name().map(str::to_owned) }).await;
    assert_eq!(name.flatten().as_deref(), Some("looks"));
}

#[tokio::test]
async fn whoever_does_not_wait_any_more_takes_the_task_along() {
    let aside = Aside::start("looks").unwrap();
    let (alive, gone) = oneshot::channel::<()>();
    let (begun, begins) = oneshot::channel();
    let task = async move {
        let _alive = alive;
        begun.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = aside.run(task) => panic!("it never ends"),
        _ = begins => {}
    }
    assert!(gone.await.is_err(), "it was dropped");
}

#[tokio::test]
#[should_panic(expected = "over there")]
async fn a_panic_is_that_of_whoever_asked() {
    let aside = Aside::start("looks").unwrap();
    aside.run(async { panic!("over there") }).await;
}

#[tokio::test]
async fn the_thread_ends_with_the_last_who_knows_it() {
    let aside = Aside::start("looks").unwrap();
    let (alive, gone) = oneshot::channel::<()>();
    aside.spawn(async move {
        let _alive = alive;
        std::future::pending::<()>().await;
    });
    let other = aside.clone();
    drop(aside);
    assert_eq!(other.run(async { 1 }).await, Some(1));
    drop(other);
    assert!(gone.await.is_err(), "what ran there has ended");
}
