//! A fault run: several clients use one lock while the network loses messages, a node is down, and clients die.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{AcquireError, Client, Lease, Progress};
use quorlock_testkit::{Loss, Proxy, RedisServer};
use tokio::sync::Notify;

use super::lease_history::{HeldPeriod, HoldMode, LeaseHistory};
use crate::common::builder;
use crate::common::random::Random;

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(1);
/// The time limit of a client. Only a client that never gets the lock reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The kind of lock that a client acquires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockKind {
    Exclusive,
    Read,
    Write,
    Slot { permits: u32 },
}

impl LockKind {
    /// Acquires the lock. Notifies `wait_started` whenever the acquire has to wait.
    async fn acquire(self, client: &Client, wait_started: Arc<Notify>) -> Result<Lease, AcquireError> {
        let observer = move |progress: &Progress| {
            if let Progress::Waiting(_) = progress {
                wait_started.notify_one();
            }
        };
        match self {
            Self::Exclusive => client.lock("job").observe(observer).acquire().await,
            Self::Read => client.rw("job").observe(observer).read().acquire().await,
            Self::Write => client.rw("job").observe(observer).write().acquire().await,
            Self::Slot { permits } => client.semaphore("job", permits).observe(observer).acquire().await,
        }
    }

    /// How the lease holds the lock.
    fn hold_mode(self, lease: &Lease) -> HoldMode {
        match self {
            Self::Exclusive | Self::Write => HoldMode::Exclusive,
            Self::Read => HoldMode::Shared,
            Self::Slot { permits } => {
                let slot = lease.slot().expect("a semaphore's lease has a slot");
                assert!(slot < permits, "slot {slot} of {permits}");
                HoldMode::Slot(slot)
            }
        }
    }
}

/// The size and the seed of a run.
#[derive(Clone, Copy)]
pub(crate) struct RunSettings {
    /// The number of clients. Each client dies during one of its leases, and a new client replaces it. Every third
    /// client dies while it waits, the others while they hold the lock.
    pub(crate) clients: usize,
    /// The number of leases that each client acquires.
    pub(crate) leases_per_client: usize,
    pub(crate) seed: u64,
}

/// Five nodes, of which one is down, and the history of the leases.
pub(crate) struct FaultRun {
    servers: Vec<RedisServer>,
    settings: RunSettings,
    pub(crate) history: LeaseHistory,
    died_waiting: AtomicUsize,
    died_holding: AtomicUsize,
    /// All clients, including dead clients. The proxies of a dead client must block its messages until the run ends.
    clients: Mutex<Vec<ProxiedClient>>,
}

/// A client behind its own proxies.
struct ProxiedClient {
    client: Client,
    proxies: Vec<Proxy>,
}

impl ProxiedClient {
    /// Cuts all connections and refuses new ones, so that no request of the client reaches a node any more.
    fn disconnect(&self) {
        for proxy in &self.proxies {
            proxy.refuse(true);
            proxy.cut();
        }
    }
}

impl FaultRun {
    /// Runs all clients to the end. Every living client must get the lock.
    pub(crate) async fn run(settings: RunSettings, choose_kind: fn(&mut Random) -> LockKind) -> Arc<Self> {
        let servers = RedisServer::start_many(NODES);
        let urls = servers.iter().map(RedisServer::url);
        short_lease_builder().nodes(urls).init_cluster().await.expect("a new cluster can be initialized");
        servers[NODES - 1].kill();
        let run = Arc::new(Self {
            servers,
            settings,
            history: LeaseHistory::default(),
            died_waiting: AtomicUsize::new(0),
            died_holding: AtomicUsize::new(0),
            clients: Mutex::default(),
        });
        let start_client = |number: usize| tokio::spawn(Arc::clone(&run).run_client(number as u64, choose_kind));
        let tasks: Vec<_> = (1..=settings.clients).map(start_client).collect();
        for task in tasks {
            let result = tokio::time::timeout(TIME_LIMIT, task).await.expect("every living client gets the lock");
            result.expect("no task panics");
        }
        let [died_waiting, died_holding] =
            [&run.died_waiting, &run.died_holding].map(|count| count.load(Ordering::SeqCst));
        let lost_bytes = run.lost_bytes();
        println!("{} leases; {died_waiting} clients died waiting, {died_holding} died holding", run.history.len());
        println!("the network lost {lost_bytes} bytes for good");
        assert!(lost_bytes > 0, "the network lost no bytes");
        run
    }

    /// The number of bytes that the proxies dropped and did not send again.
    fn lost_bytes(&self) -> u64 {
        let clients = self.clients.lock().expect("the mutex is not poisoned");
        let proxies = clients.iter().flat_map(|client| &client.proxies);
        proxies.map(|proxy| proxy.dropped_up() + proxy.dropped_down()).sum()
    }

    async fn run_client(self: Arc<Self>, number: u64, choose_kind: fn(&mut Random) -> LockKind) {
        let mut random = Random(self.settings.seed ^ number);
        let fatal_lease = random.below(self.settings.leases_per_client);
        let mut client = self.connect(&mut random).await;
        for lease_index in 0..self.settings.leases_per_client {
            let kind = choose_kind(&mut random);
            if lease_index != fatal_lease {
                self.hold_once(&client, kind, random.below(20)).await;
                continue;
            }
            if number.is_multiple_of(3) {
                self.die_waiting(&client, kind).await;
            } else {
                self.die_holding(&client, kind).await;
            }
            let dead_client = std::mem::replace(&mut client, self.connect(&mut random).await);
            self.clients.lock().expect("the mutex is not poisoned").push(dead_client);
        }
        self.clients.lock().expect("the mutex is not poisoned").push(client);
    }

    /// Connects a client through proxies that lose a tenth of the messages.
    async fn connect(&self, random: &mut Random) -> ProxiedClient {
        let proxies: Vec<Proxy> = self.servers.iter().map(|server| Proxy::start(server.addr())).collect();
        for proxy in &proxies {
            let resend_delay = Duration::from_millis(150);
            let seed = random.below(usize::MAX) as u64;
            proxy.lose(Some(Loss { lost_one_in: 10, resend_delay, never_resent_one_in: 5, seed }));
        }
        let client =
            short_lease_builder().nodes(proxies.iter().map(Proxy::url)).connect_lazy().await.expect("no node is unfit");
        ProxiedClient { client, proxies }
    }

    /// Acquires the lock, holds it for some time, and releases it.
    async fn hold_once(&self, client: &ProxiedClient, kind: LockKind, hold_ms: usize) {
        let lease = kind.acquire(&client.client, Arc::default()).await.expect("a living client gets the lock");
        let Some(period) = HeldPeriod::start(&lease, kind.hold_mode(&lease)) else { return };
        tokio::time::sleep(Duration::from_millis(hold_ms as u64)).await;
        self.history.record(period.end(&lease));
        // If the network loses replies, a majority may not acknowledge the release in time.
        let _ = lease.release().await;
    }

    /// Acquires the lock with a client that dies while it holds the lock.
    async fn die_holding(&self, client: &ProxiedClient, kind: LockKind) {
        let lease = kind.acquire(&client.client, Arc::default()).await.expect("a living client gets the lock");
        let period = HeldPeriod::start(&lease, kind.hold_mode(&lease));
        client.disconnect();
        if let Some(period) = period {
            self.history.record(period.abandon(&lease));
            self.died_holding.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Acquires the lock with a client that dies as soon as it has to wait. If it need not wait, it dies with the lock.
    async fn die_waiting(&self, client: &ProxiedClient, kind: LockKind) {
        let wait_started = Arc::new(Notify::new());
        let mut acquire = tokio::spawn({
            let (client, wait_started) = (client.client.clone(), Arc::clone(&wait_started));
            async move { kind.acquire(&client, wait_started).await }
        });
        let result = tokio::select! {
            () = wait_started.notified() => {
                client.disconnect();
                acquire.abort();
                acquire.await
            }
            result = &mut acquire => result,
        };
        client.disconnect();
        match result {
            Err(_) => drop(self.died_waiting.fetch_add(1, Ordering::SeqCst)),
            Ok(acquired) => {
                let lease = acquired.expect("a living client gets the lock");
                if let Some(period) = HeldPeriod::start(&lease, kind.hold_mode(&lease)) {
                    self.history.record(period.abandon(&lease));
                }
            }
        }
    }
}

/// A builder with a short ttl and a short node deadline.
fn short_lease_builder() -> quorlock::ClientBuilder {
    let second = Duration::from_secs(1);
    builder()
        .ttl(TTL)
        .max_ttl(2 * TTL)
        .max_clock_skew(second / 2)
        .max_clock_step_back(second / 2)
        .node_deadline(Duration::from_millis(100))
}
