//! Implements [`Library`] for quorlock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, ConnectError, Lease, Rule, Rules};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use super::{HeldLock, Library, RequestCounts};
use crate::Failure;
use crate::task::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, MAX_TTL, NAMES, NODE_DEADLINE, Task};

/// The wait limit of a client. It is longer than any episode: a waiter that never gets the lock must not give up, so that
/// it counts as starved.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// The pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The number of private names, for which no other client competes, that a client locks together with each other name.
/// The requests for other names then share commands with the requests for private names, as under load.
pub const PRIVATE_NAMES: usize = 6;

/// The requests that this process has sent about the names that clients compete for.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static BATCHED: AtomicU64 = AtomicU64::new(0);

fn count_request(key: &str, is_batched: bool) {
    if key.strip_prefix("quorlock:").is_some_and(|name| NAMES.contains(&name)) {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        BATCHED.fetch_add(u64::from(is_batched), Ordering::Relaxed);
    }
}

/// The library `quorlock`.
#[derive(Debug)]
pub struct QuorlockLibrary {
    client: Client,
    private_names: [String; PRIVATE_NAMES],
}

impl Library for QuorlockLibrary {
    type HeldLock = QuorlockLease;

    async fn connect(task: &Task) -> Result<Self, Failure> {
        quorlock::fuzzing::watch_requests(count_request);
        let mut builder = Client::builder()
            .nodes(&task.urls)
            .ttl(Duration::from_millis(task.ttl_ms))
            .max_ttl(MAX_TTL)
            .max_clock_skew(MAX_CLOCK_SKEW)
            .max_clock_step_back(MAX_CLOCK_STEP_BACK)
            .node_deadline(NODE_DEADLINE)
            .label(format!("c{}", task.client));
        if task.trusting {
            builder = builder.danger_trust_restarts();
        }
        if task.reviving {
            builder = builder.rules(Rules::without(Rule::LostIsFinal));
        }
        loop {
            match builder.clone().connect_lazy().await {
                Ok(client) => {
                    let private_names = std::array::from_fn(|which| format!("c{}/{which}", task.client));
                    return Ok(Self { client, private_names });
                }
                Err(ConnectError::Config(error)) => return Err(error.into()),
                // Faults can make the nodes unusable until the faults end.
                Err(_) => sleep(CONNECT_PAUSE).await,
            }
        }
    }

    async fn acquire(&self, name: &str) -> Result<QuorlockLease, Failure> {
        let private_leases = PrivateLeases::acquire(&self.client, &self.private_names).await;
        let lease = self.client.lock(name).acquire_within(MAX_WAIT).await?;
        let fence = lease.fence().ok().map(quorlock::Fence::get);
        Ok(QuorlockLease { lease, fence, private_leases })
    }

    fn request_counts(&self) -> RequestCounts {
        RequestCounts { requests: REQUESTS.load(Ordering::Relaxed), batched: BATCHED.load(Ordering::Relaxed) }
    }

    async fn close(self) {
        // If a release cannot be delivered, its vote expires on the node.
        let _ = self.client.close(NODE_DEADLINE).await;
    }
}

/// Leases of private names, which are not judged. Dropping this releases them.
#[derive(Debug)]
struct PrivateLeases(oneshot::Sender<()>);

impl PrivateLeases {
    /// Starts to acquire the private names in the background. Their requests are queued before those of the caller.
    async fn acquire(client: &Client, names: &[String]) -> Self {
        let (sender, ended) = oneshot::channel();
        let (client, names) = (client.clone(), names.to_vec());
        tokio::spawn(async move {
            let mut acquires = JoinSet::new();
            for name in names {
                let lock = client.lock(&name);
                acquires.spawn(async move { lock.acquire_within(Duration::ZERO).await });
            }
            // Because of faults, some acquires fail.
            let leases: Vec<Lease> = acquires.join_all().await.into_iter().flatten().collect();
            // Fails when the sender is dropped.
            let _ = ended.await;
            let mut releases = JoinSet::new();
            for lease in leases {
                releases.spawn(lease.release());
            }
            releases.join_all().await;
        });
        yield_now().await;
        Self(sender)
    }

    /// Starts to release the private names. Their requests are queued before those of the caller.
    async fn release(self) {
        drop(self.0);
        yield_now().await;
    }
}

/// A lease and its fence. The client uses the fence even after the lease has ended.
#[derive(Debug)]
pub struct QuorlockLease {
    lease: Lease,
    fence: Option<u64>,
    private_leases: PrivateLeases,
}

impl HeldLock for QuorlockLease {
    fn fence(&self) -> Option<u64> {
        self.fence
    }

    fn validity(&self) -> Duration {
        self.lease.validity()
    }

    /// Does nothing, because the watchdog renews the lease.
    async fn extend_if_needed(&mut self) -> bool {
        true
    }

    async fn lost(&self) {
        self.lease.lost().await;
    }

    async fn release(self) {
        self.private_leases.release().await;
        // An error needs no report: the client has reported a loss before, and the library repeats a release until the
        // nodes acknowledge it.
        let _ = self.lease.release().await;
    }
}
