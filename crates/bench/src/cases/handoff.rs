//! The time from a release to the next holder's grant.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorlock::{Client, Stats};
use quorlock_testkit::{Proxy, RedisServer};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{PlannedCase, count_with_noun};
use crate::Failure;
use crate::bare_handoff::BareHandoff;
use crate::case::{Bar, Case, Contender, Figures, Limit, P50, P99};
use crate::options::Options;
use crate::ping_round::PingRounds;
use crate::processor_time::ProcessorTime;
use crate::sorted_readings::SortedReadings;

const NODES: usize = 5;
/// How long each holder holds the lock.
const HOLD: Duration = Duration::from_millis(1);
/// One-way delay of the simulated network.
const DELAY: Duration = Duration::from_micros(500);
const WAITERS: [usize; 3] = [1, 8, 32];
const ROUND: &str = "a round";
/// The bar for a handoff, in rounds.
const ROUNDS_MAX: f64 = 3.0;
/// The bar for the most waiters, relative to one waiter. A tenth more counts as noise.
const GROWTH_MAX: f64 = 1.1;

const ABOUT: &str = "Each time is measured from the call of release to the next holder's grant. *a round* sends a PING \
    to all nodes and ends when a majority has replied. *floor* is a handoff between bare sockets, with one waiter \
    and the smallest scripts that work. *processor time* is for one round in the first row, for one handoff in the \
    second row, and for one lease in the other rows; it includes the refusal after which the holder of the lease had to \
    wait. *messages* are requests, replies and hints. The last bar of this case compares 32 waiters with 1 waiter; up to \
    10 % more counts as noise.";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![
        PlannedCase::new("handoff-loopback", |options| set_up("handoff-loopback", None, options)),
        PlannedCase::new("handoff-network", |options| set_up("handoff-network", Some(DELAY), options)),
    ]
}

fn set_up(name: &str, delay: Option<Duration>, options: &Options) -> Result<Case, Failure> {
    let servers = Arc::new(RedisServer::start_many(NODES));
    let mut nodes: Vec<SocketAddr> = servers.iter().map(RedisServer::addr).collect();
    let runtime = Arc::clone(&options.runtime);
    runtime.block_on(async {
        connect(&nodes).await?.init_cluster().await?;
        Ok::<(), Failure>(())
    })?;
    let title = match delay {
        Some(_) => "Handoff over 5 nodes, through a network with 1 ms round trips",
        None => "Handoff over 5 nodes, on loopback",
    };
    let mut case = Case::new(name, title, P50);
    case.about = ABOUT.into();
    if let Some(delay) = delay {
        let proxies: Vec<Proxy> = nodes.iter().copied().map(Proxy::start).collect();
        for proxy in &proxies {
            proxy.delay(delay);
        }
        nodes = proxies.iter().map(Proxy::addr).collect();
        case.keep_alive(proxies);
    }
    let measurement = Measurement { runtime, servers, nodes, count: options.operations_per_turn };
    case.add(ROUND, Rounds(measurement.clone()));
    case.add("floor", BareHandoffs(measurement.clone()));
    for waiters in WAITERS {
        case.add(waiters_label(waiters), Handoffs { measurement: measurement.clone(), waiters });
        case.bars.push(Bar::ratio(&waiters_label(waiters), P50, ROUND, Limit::AtMost(ROUNDS_MAX)));
    }
    case.bars.push(Bar::ratio(&waiters_label(WAITERS[2]), P50, &waiters_label(WAITERS[0]), Limit::AtMost(GROWTH_MAX)));
    Ok(case)
}

fn waiters_label(waiters: usize) -> String {
    count_with_noun(waiters, "waiter")
}

async fn connect(nodes: &[SocketAddr]) -> Result<Client, quorlock::ConnectError> {
    Client::connect(nodes.iter().map(|node| format!("redis://{node}"))).await
}

/// The runtime and the servers of a measurement.
#[derive(Clone)]
struct Measurement {
    runtime: Arc<Runtime>,
    servers: Arc<Vec<RedisServer>>,
    nodes: Vec<SocketAddr>,
    /// The number of rounds, handoffs or leases in a turn.
    count: usize,
}

impl Measurement {
    /// Runs `work` on a worker thread of the runtime, which receives the replies. The main thread would have to be woken
    /// for each reply.
    fn run(
        &self,
        work: impl Future<Output = Result<SortedReadings, Failure>> + Send + 'static,
    ) -> Result<(SortedReadings, ProcessorTime), Failure> {
        let before = ProcessorTime::now(&self.servers)?;
        let readings = self.runtime.block_on(self.runtime.spawn(work))??;
        let mut processor_time = ProcessorTime::default();
        processor_time.add_since(before, &self.servers)?;
        Ok((readings, processor_time))
    }
}

fn figures(readings: &SortedReadings, processor_time: ProcessorTime, count: usize) -> Figures {
    let (servers, own) = processor_time.micros_per_cycle(count);
    Figures::from([
        (P50.into(), readings.median()),
        (P99.into(), readings.quantile(0.99)),
        ("processor_time_of_servers_us".into(), servers),
        ("processor_time_of_client_us".into(), own),
    ])
}

struct Rounds(Measurement);

impl Contender for Rounds {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let (nodes, count) = (self.0.nodes.clone(), self.0.count);
        let (readings, processor_time) = self.0.run(async move {
            let mut rounds = PingRounds::open(nodes).await?;
            let mut readings = SortedReadings::default();
            for _ in 0..count {
                // Before a handoff the connections are idle for this time, so they must also be idle before a round.
                tokio::time::sleep(HOLD).await;
                readings.add_micros(rounds.measure().await?);
            }
            Ok(readings)
        })?;
        Ok(figures(&readings, processor_time, count))
    }
}

struct BareHandoffs(Measurement);

impl Contender for BareHandoffs {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let (nodes, count) = (self.0.nodes.clone(), self.0.count);
        let (readings, processor_time) = self.0.run(async move {
            let mut bare = BareHandoff::open(&nodes).await?;
            let mut readings = SortedReadings::default();
            for _ in 0..count {
                tokio::time::sleep(HOLD).await;
                readings.add_micros(bare.measure().await?);
            }
            Ok(readings)
        })?;
        Ok(figures(&readings, processor_time, count))
    }
}

/// Measures handoffs between clients. While one client holds the lock, all others wait. Each client acquires the lock,
/// holds it for a millisecond and releases it. When the next client has the lock, the previous holder queues again.
struct Handoffs {
    measurement: Measurement,
    waiters: usize,
}

impl Contender for Handoffs {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let runtime = Arc::clone(&self.measurement.runtime);
        let clients = runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..=self.waiters {
                clients.push(connect(&self.measurement.nodes).await?);
            }
            Ok::<_, Failure>(clients)
        })?;
        let before: Vec<Stats> = clients.iter().map(Client::stats).collect();
        let (readings, processor_time) = self.measurement.run(run_handoffs(clients.clone(), self.measurement.count))?;
        let (mut requests, mut messages, mut leases) = (0, 0, 0);
        for (before, after) in before.iter().zip(clients.iter().map(Client::stats)) {
            requests += after.requests - before.requests;
            messages += all_messages(&after) - all_messages(before);
            leases += after.acquired - before.acquired;
        }
        for client in clients {
            runtime.block_on(client.close(Duration::from_secs(5)))?;
        }
        let mut figures = figures(&readings, processor_time, leases as usize);
        let per_lease = |count: u64| count as f64 / leases.max(1) as f64;
        figures.insert("messages_per_lease".into(), per_lease(messages));
        figures.insert("requests_per_lease".into(), per_lease(requests));
        Ok(figures)
    }
}

fn all_messages(stats: &Stats) -> u64 {
    stats.requests + stats.replies + stats.hints
}

/// Runs until the clients have acquired the lock `count` times.
async fn run_handoffs(clients: Vec<Client>, count: usize) -> Result<SortedReadings, Failure> {
    let log =
        Arc::new(Mutex::new(HandoffLog { remaining: count, released_at: None, handoffs: SortedReadings::default() }));
    let grants = Arc::new(watch::Sender::new(0_u64));
    let has_more_clients_than_handoffs = clients.len() > count;
    let mut client_tasks = JoinSet::new();
    for client in clients {
        let (log, grants) = (Arc::clone(&log), Arc::clone(&grants));
        client_tasks.spawn(async move {
            let lock = client.lock("handoff");
            while log.lock().unwrap_or_else(PoisonError::into_inner).remaining > 0 {
                let lease = lock.acquire().await?;
                log.lock().unwrap_or_else(PoisonError::into_inner).granted(Instant::now());
                grants.send_modify(|count| *count += 1);
                let mut later_grants = grants.subscribe();
                tokio::time::sleep(HOLD).await;
                log.lock().unwrap_or_else(PoisonError::into_inner).released_at = Some(Instant::now());
                // An error means that too few nodes acknowledged the release in time. The handoff is then late, and
                // the figures show it.
                let _ = lease.release().await;
                // A client queues again only if there are more handoffs to measure.
                if log.lock().unwrap_or_else(PoisonError::into_inner).remaining > 0 {
                    later_grants.changed().await?;
                }
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = client_tasks.join_next().await {
        done??;
        if has_more_clients_than_handoffs {
            client_tasks.shutdown().await;
        }
    }
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut log.handoffs))
}

/// The handoffs so far.
struct HandoffLog {
    /// The number of grants that are still to come.
    remaining: usize,
    released_at: Option<Instant>,
    handoffs: SortedReadings,
}

impl HandoffLog {
    fn granted(&mut self, now: Instant) {
        self.remaining = self.remaining.saturating_sub(1);
        if let Some(released_at) = self.released_at.take() {
            self.handoffs.add_micros(now - released_at);
        }
    }
}
