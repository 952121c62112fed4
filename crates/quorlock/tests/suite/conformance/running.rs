//! Running work under a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock::{LostError, RunError};
use tokio::sync::Notify;

use crate::conformance::backend::{Backend, LONG, assert_free, assert_held, take_over};

pub(crate) async fn run_returns_the_result_of_the_work_and_releases_the_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let fence = ours
        .lock("a")
        .run(async |lease| {
            assert_held(&theirs, "a").await;
            lease.fence()
        })
        .await;
    fence.unwrap().unwrap();
    assert_free(&theirs, "a").await;
}

pub(crate) async fn run_drops_the_work_when_its_lease_is_lost(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (lock, has_begun, dropped) = (ours.lock("a"), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let work = tokio::spawn({
        let (has_begun, dropped) = (Arc::clone(&has_begun), SetOnDrop(Arc::clone(&dropped)));
        async move {
            let endless = async |_: &_| {
                let _dropped = dropped;
                has_begun.notify_one();
                std::future::pending::<()>().await;
            };
            lock.run(endless).await
        }
    });
    has_begun.notified().await;
    ours.close(LONG).await.unwrap();
    assert_eq!(work.await.unwrap(), Err(RunError::Lost(LostError::Closed)));
    assert!(dropped.load(Ordering::SeqCst));
    assert_free(&theirs, "a").await;
}

pub(crate) async fn a_panic_in_the_work_releases_the_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.lock("a");
    let work =
        tokio::spawn(async move { lock.run(async |_| std::panic::resume_unwind(Box::new("the work panics"))).await });
    assert!(work.await.unwrap_err().is_panic());
    take_over(&theirs, "a").await.release().await.unwrap();
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
