//! quorlock, as a client sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, ConnectError, Lease, Rule, Rules};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use super::{Held, Library, Sent};
use crate::Failure;
use crate::task::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, MAX_TTL, NAMES, NODE_DEADLINE, Task};

/// Longer than any episode: whoever is not served by its end is starved.
const PATIENCE: Duration = Duration::from_secs(600);
/// How soon a client that found its nodes unfit tries again.
const RECONNECT: Duration = Duration::from_millis(100);

/// Names of a client's own that it asks for together with each that it takes turns with: more than are sent at once, so that
/// what is judged goes to the nodes together with other requests.
pub const COMPANY: usize = 6;

/// What a process has sent about the names that clients compete for.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static TOGETHER: AtomicU64 = AtomicU64::new(0);

fn count(key: &str, together: bool) {
    if key.strip_prefix("quorlock:").is_some_and(|name| NAMES.contains(&name)) {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        TOGETHER.fetch_add(u64::from(together), Ordering::Relaxed);
    }
}

/// quorlock itself.
#[derive(Debug)]
pub struct Own {
    client: Client,
    company: [String; COMPANY],
}

impl Library for Own {
    type Held = OwnHeld;

    async fn connect(task: &Task) -> Result<Self, Failure> {
        quorlock::fuzzing::watch_requests(count);
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
                    let company = std::array::from_fn(|which| format!("c{}/{which}", task.client));
                    return Ok(Self { client, company });
                }
                Err(ConnectError::Config(error)) => return Err(error.into()),
                // Faults have begun already: it may be fit soon.
                Err(_) => sleep(RECONNECT).await,
            }
        }
    }

    async fn acquire(&self, name: &str) -> Result<OwnHeld, Failure> {
        let company = Company::ask(&self.client, &self.company).await;
        let lease = self.client.lock(name).acquire_within(PATIENCE).await?;
        let fence = lease.fence().ok().map(quorlock::Fence::get);
        Ok(OwnHeld { lease, fence, company })
    }

    fn sent(&self) -> Sent {
        Sent { requests: REQUESTS.load(Ordering::Relaxed), together: TOGETHER.load(Ordering::Relaxed) }
    }

    async fn close(self) {
        // What could not be delivered lapses.
        let _ = self.client.close(NODE_DEADLINE).await;
    }
}

/// Leases that nobody judges. They end when this is dropped.
#[derive(Debug)]
struct Company(oneshot::Sender<()>);

impl Company {
    /// Asks for them, and does not wait: whoever asks next is behind them.
    async fn ask(client: &Client, names: &[String]) -> Self {
        let (sender, ended) = oneshot::channel();
        let (client, names) = (client.clone(), names.to_vec());
        tokio::spawn(async move {
            let mut asking = JoinSet::new();
            for name in names {
                let lock = client.lock(&name);
                asking.spawn(async move { lock.acquire_within(Duration::ZERO).await });
            }
            // With faults about, some are not granted.
            let leases: Vec<Lease> = asking.join_all().await.into_iter().flatten().collect();
            // It is the sender's end that is waited for.
            let _ = ended.await;
            let mut releasing = JoinSet::new();
            for lease in leases {
                releasing.spawn(lease.release());
            }
            releasing.join_all().await;
        });
        yield_now().await;
        Self(sender)
    }

    /// Lets them go, before whoever lets go next.
    async fn end(self) {
        drop(self.0);
        yield_now().await;
    }
}

/// A lease, and its fence: whoever has it uses it, also when it is too late.
#[derive(Debug)]
pub struct OwnHeld {
    lease: Lease,
    fence: Option<u64>,
    company: Company,
}

impl Held for OwnHeld {
    fn fence(&self) -> Option<u64> {
        self.fence
    }

    fn validity(&self) -> Duration {
        self.lease.validity()
    }

    /// The watchdog does it.
    async fn keep(&mut self) -> bool {
        true
    }

    async fn lost(&self) {
        self.lease.lost().await;
    }

    async fn release(self) {
        self.company.end().await;
        // That it was lost is told already; a release that too few have acknowledged is delivered later.
        let _ = self.lease.release().await;
    }
}
