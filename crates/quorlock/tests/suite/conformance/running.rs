//! Runs work while holding a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock::{LostError, RunError};
use tokio::sync::Notify;

use crate::conformance::backend::{Backend, LONG, assert_free, assert_held, take_over};

pub(crate) async fn run_returns_the_result_of_the_work_and_releases_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let fence = our_client
        .lock("a")
        .run(async |lease| {
            assert_held(&their_client, "a").await;
            lease.fence()
        })
        .await;
    fence.unwrap().unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn run_drops_the_work_when_its_lease_is_lost(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (lock, work_started, is_dropped) =
        (our_client.lock("a"), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let work = tokio::spawn({
        let (work_started, is_dropped) = (Arc::clone(&work_started), SetOnDrop(Arc::clone(&is_dropped)));
        async move {
            let endless = async |_: &_| {
                let _guard = is_dropped;
                work_started.notify_one();
                std::future::pending::<()>().await;
            };
            lock.run(endless).await
        }
    });
    work_started.notified().await;
    our_client.close(LONG).await.unwrap();
    assert_eq!(work.await.unwrap(), Err(RunError::Lost(LostError::Closed)));
    assert!(is_dropped.load(Ordering::SeqCst));
    assert_free(&their_client, "a").await;
}

pub(crate) async fn a_panic_in_the_work_releases_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.lock("a");
    let work =
        tokio::spawn(async move { lock.run(async |_| std::panic::resume_unwind(Box::new("the work panics"))).await });
    assert!(work.await.unwrap_err().is_panic());
    take_over(&their_client, "a").await.release().await.unwrap();
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
