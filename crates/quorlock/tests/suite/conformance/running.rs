//! Work under a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock::{LostError, RunError};
use tokio::sync::Notify;

use crate::conformance::backend::{Backend, LONG, is_free, is_held, takes_over};

pub(crate) async fn run_returns_the_value_and_releases(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let fence = ours
        .lock("a")
        .run(async |lease| {
            is_held(&theirs, "a").await;
            lease.fence()
        })
        .await;
    fence.unwrap().unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn run_drops_the_work_when_the_lease_is_lost(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (lock, begun, dropped) = (ours.lock("a"), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let work = tokio::spawn({
        let (begun, dropped) = (Arc::clone(&begun), OnDrop(Arc::clone(&dropped)));
        async move {
            let endless = async |_: &_| {
                let _dropped = dropped;
                begun.notify_one();
                std::future::pending::<()>().await;
            };
            lock.run(endless).await
        }
    });
    begun.notified().await;
    ours.close(LONG).await.unwrap();
    assert_eq!(work.await.unwrap(), Err(RunError::Lost(LostError::Closed)));
    assert!(dropped.load(Ordering::SeqCst));
    is_free(&theirs, "a").await;
}

pub(crate) async fn a_panic_in_the_work_releases(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.lock("a");
    let work =
        tokio::spawn(
            async move { lock.run(async |_| std::panic::resume_unwind(Box::new("the work went wrong"))).await },
        );
    assert!(work.await.unwrap_err().is_panic());
    takes_over(&theirs, "a").await.release().await.unwrap();
}

/// Records that it was dropped.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
