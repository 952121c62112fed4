//! Waiters in separate tasks, and the queues on the nodes.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use quorlock::{AcquireError, Lease, Lock, Progress};
use quorlock_testkit::{RedisServer, eventually_async};
use tokio::task::JoinHandle;

/// An acquire in a separate task.
pub(crate) struct Waiter {
    position: Arc<Mutex<Option<u32>>>,
    task: JoinHandle<Result<Lease, AcquireError>>,
}

impl Waiter {
    /// Starts the acquire.
    pub(crate) fn start(lock: Lock) -> Self {
        let position = Arc::new(Mutex::new(None));
        let reported_position = Arc::clone(&position);
        let lock = lock.observe(move |progress| {
            if let Progress::Waiting(wait) = progress {
                *reported_position.lock().expect("no observer panics") = wait.position;
            }
        });
        Self { position, task: tokio::spawn(async move { lock.acquire().await }) }
    }

    /// Starts the acquire, and waits until it has a queue position.
    pub(crate) async fn start_and_queue(lock: Lock) -> Self {
        let waiter = Self::start(lock);
        eventually_async("the waiter to have a queue position", async || waiter.position().is_some()).await;
        waiter
    }

    /// The last reported queue position.
    pub(crate) fn position(&self) -> Option<u32> {
        *self.position.lock().expect("no observer panics")
    }

    /// Whether the acquire has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the result of the acquire.
    pub(crate) async fn outcome(self) -> Result<Lease, AcquireError> {
        crate::common::long_timeouts::expect_soon(self.task).await.expect("an acquire does not panic")
    }

    /// Waits for the lease.
    pub(crate) async fn expect_lease(self) -> Lease {
        self.outcome().await.expect("every waiter gets the lock")
    }

    /// Drops the future of the acquire, which must not have ended.
    pub(crate) async fn cancel(self) {
        self.task.abort();
        if let Ok(result) = self.task.await {
            panic!("the acquire ended before it was cancelled: {result:?}");
        }
    }
}

/// Waits until every waiter has got the lock, and releases each lease at once.
///
/// The waiters may get the lock in any order. A ticket is the client's estimate of the nodes' time. If replies arrive
/// late, the estimate is too low, and the ticket may be lower than the ticket of an earlier client.
pub(crate) async fn expect_all_served(waiters: Vec<Waiter>) {
    let releases = waiters.into_iter().map(async |waiter| waiter.expect_lease().await.release().await);
    for release in join_all(releases).await {
        release.expect("all nodes answer");
    }
}

/// The number of waiters in the queue of a name, for each node.
pub(crate) fn queue_lengths(servers: &[RedisServer], name: &str) -> Vec<i64> {
    let key = format!("quorlock~queue:quorlock:{name}");
    let count = |server: &RedisServer| server.command(&["ZCARD", &key]).as_int().expect("a queue is a sorted set");
    servers.iter().map(count).collect()
}

/// Waits until each of these nodes has `count` waiters in the queue of the name.
pub(crate) async fn wait_for_queue_length(servers: &[RedisServer], name: &str, count: i64) {
    let what = format!("every node to have {count} waiters in its queue");
    eventually_async(&what, async || queue_lengths(servers, name).iter().all(|length| *length == count)).await;
}
