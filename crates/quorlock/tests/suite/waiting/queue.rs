//! A waiter in a task of its own, and the queues on the nodes.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use quorlock::{AcquireError, Lease, Lock, Progress};
use quorlock_testkit::{RedisServer, eventually_async};
use tokio::task::JoinHandle;

/// An acquire in a task of its own.
pub(crate) struct Queued {
    place: Arc<Mutex<Option<u32>>>,
    task: JoinHandle<Result<Lease, AcquireError>>,
}

impl Queued {
    /// Starts the acquire.
    pub(crate) fn up(lock: Lock) -> Self {
        let place = Arc::new(Mutex::new(None));
        let told = Arc::clone(&place);
        let lock = lock.observe(move |progress| {
            if let Progress::Waiting(wait) = progress {
                *told.lock().expect("no observer panics") = wait.place;
            }
        });
        Self { place, task: tokio::spawn(async move { lock.acquire().await }) }
    }

    /// Starts the acquire, and waits until it has a queue position.
    pub(crate) async fn placed(lock: Lock) -> Self {
        let waiter = Self::up(lock);
        eventually_async("a place in the queue", async || waiter.place().is_some()).await;
        waiter
    }

    /// The last reported queue position.
    pub(crate) fn place(&self) -> Option<u32> {
        *self.place.lock().expect("no observer panics")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the result.
    pub(crate) async fn outcome(self) -> Result<Lease, AcquireError> {
        crate::common::long::soon(self.task).await.expect("an acquire does not panic")
    }

    /// Waits for the lease.
    pub(crate) async fn served(self) -> Lease {
        self.outcome().await.expect("every waiter is served")
    }

    /// Drops the acquire at its current point.
    pub(crate) async fn drop_it(self) {
        self.task.abort();
        if let Ok(decided) = self.task.await {
            panic!("decided before it was dropped: {decided:?}");
        }
    }
}

/// Waits until all are served; each releases at once. The order may differ: a client with late replies takes the nodes'
/// clocks to be behind, and its ticket may be lower than an earlier one.
pub(crate) async fn all_are_served(waiters: Vec<Queued>) {
    let served = waiters.into_iter().map(async |waiter| waiter.served().await.release().await);
    for released in join_all(served).await {
        released.expect("the nodes are there");
    }
}

/// The number of waiters in the queue of a name, on each node.
pub(crate) fn waiting(servers: &[RedisServer], name: &str) -> Vec<i64> {
    let key = format!("quorlock~queue:quorlock:{name}");
    let count = |server: &RedisServer| server.command(&["ZCARD", &key]).as_int().expect("a queue is a sorted set");
    servers.iter().map(count).collect()
}

/// Waits until `wanted` waiters are queued on each of these nodes.
pub(crate) async fn queued(servers: &[RedisServer], name: &str, wanted: i64) {
    let what = format!("{wanted} in the queue on every node");
    eventually_async(&what, async || waiting(servers, name).iter().all(|count| *count == wanted)).await;
}
