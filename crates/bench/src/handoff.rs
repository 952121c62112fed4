//! From a release to the next holder's grant.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorlock::{Client, Stats};
use quorlock_testkit::{Proxy, RedisServer};
use tokio::sync::watch;

use crate::Outcome;
use crate::bare::Bare;
use crate::busy::Busy;
use crate::round::Rounds;
use crate::spread::Spread;
use crate::turns::TurnArgs;

const NODES: usize = 5;
/// How long each holder holds.
const HOLD: Duration = Duration::from_millis(1);
/// The network's part, where there is one: for each direction.
const DELAY: Duration = Duration::from_micros(500);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    turns: TurnArgs,
    /// How many wait.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32])]
    waiters: Vec<usize>,
    /// Leave the millisecond of network out.
    #[arg(long)]
    direct: bool,
    /// Whoever has let go asks again at once, while the lock is being handed on: then others than the next holder ask, too.
    #[arg(long)]
    again: bool,
}

/// One network, and what was measured on it.
struct Network {
    name: &'static str,
    addresses: Vec<SocketAddr>,
    round: Spread,
    /// Bare handoffs, in rounds of the same turn.
    bare: Spread,
    /// What rounds and bare handoffs have used.
    round_busy: Busy,
    bare_busy: Busy,
    cases: Vec<Case>,
}

struct Case {
    waiters: usize,
    handoff: Spread,
    /// Messages that all links have carried, and leases that were won.
    messages: u64,
    requests: u64,
    leases: u64,
    /// The median of each turn, in rounds of the same turn.
    ratios: Spread,
    busy: Busy,
}

/// Measures and prints.
pub(crate) async fn run(args: &Args) -> Outcome {
    let servers = RedisServer::start_many(NODES);
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
    for proxy in &proxies {
        proxy.delay(DELAY);
    }
    client(servers.iter().map(RedisServer::addr)).await?.init_cluster().await?;
    let mut networks = vec![Network::new("loopback", servers.iter().map(RedisServer::addr).collect(), &args.waiters)];
    if !args.direct {
        networks.push(Network::new("1 ms", proxies.iter().map(Proxy::addr).collect(), &args.waiters));
    }
    for _ in 0..args.turns.turns {
        for network in &mut networks {
            network.take_turn(args, &servers).await?;
        }
    }
    if args.turns.json {
        print_json(&networks);
    } else {
        print_table(&networks, args.again);
        print_busy(&networks, args);
    }
    Ok(())
}

async fn client(nodes: impl Iterator<Item = SocketAddr>) -> Result<Client, quorlock::ConnectError> {
    Client::connect(nodes.map(|node| format!("redis://{node}"))).await
}

impl Network {
    fn new(name: &'static str, addresses: Vec<SocketAddr>, waiters: &[usize]) -> Self {
        let case = |waiters: &usize| Case {
            waiters: *waiters,
            handoff: Spread::default(),
            messages: 0,
            requests: 0,
            leases: 0,
            ratios: Spread::default(),
            busy: Busy::default(),
        };
        let (round, bare, round_busy, bare_busy) =
            (Spread::default(), Spread::default(), Busy::default(), Busy::default());
        Self { name, addresses, round, bare, round_busy, bare_busy, cases: waiters.iter().map(case).collect() }
    }

    /// The floor and every case, one after the other.
    async fn take_turn(&mut self, args: &Args, servers: &[RedisServer]) -> Outcome {
        let each = args.turns.each;
        let mut floor = Bare::open(&self.addresses).await?;
        for index in 0..self.cases.len() {
            let mut rounds = Rounds::open(self.addresses.iter().copied()).await?;
            let mut round = Spread::default();
            let before = Busy::now(servers)?;
            for _ in 0..each {
                // As cold as a handoff finds them.
                tokio::time::sleep(HOLD).await;
                round.add_micros(rounds.measure().await?);
            }
            self.round_busy.add_since(before, servers)?;
            self.round.add(round.median());
            let mut bare = Spread::default();
            let before = Busy::now(servers)?;
            for _ in 0..each {
                tokio::time::sleep(HOLD).await;
                bare.add_micros(floor.measure().await?);
            }
            self.bare_busy.add_since(before, servers)?;
            self.bare.add(bare.median() / round.median());
            let case = &mut self.cases[index];
            let mut handoff = Spread::default();
            for reading in case.measure(&self.addresses, args, servers).await? {
                handoff.add_micros(reading);
                case.handoff.add_micros(reading);
            }
            case.ratios.add(handoff.median() / round.median());
        }
        Ok(())
    }
}

impl Case {
    /// One more contender than there are waiters: each takes the lock, holds it for a while, lets it go, and lines up
    /// again when somebody else has it.
    async fn measure(
        &mut self,
        addresses: &[SocketAddr],
        args: &Args,
        servers: &[RedisServer],
    ) -> Result<Vec<Duration>, crate::Failure> {
        let mut clients = Vec::new();
        for _ in 0..=self.waiters {
            clients.push(client(addresses.iter().copied()).await?);
        }
        let began = Busy::now(servers)?;
        let before: Vec<Stats> = clients.iter().map(Client::stats).collect();
        let log = Arc::new(Mutex::new(Log { left: args.turns.each, released: None, handoffs: Vec::new() }));
        let turns = Arc::new(watch::Sender::new(0_u64));
        let again = args.again;
        let contend = |client: Client| {
            let (log, turns) = (Arc::clone(&log), Arc::clone(&turns));
            tokio::spawn(async move {
                let lock = client.lock("handoff");
                while log.lock().unwrap_or_else(PoisonError::into_inner).left > 0 {
                    let lease = lock.acquire().await?;
                    log.lock().unwrap_or_else(PoisonError::into_inner).granted(Instant::now());
                    turns.send_modify(|turn| *turn += 1);
                    let mut next = turns.subscribe();
                    tokio::time::sleep(HOLD).await;
                    log.lock().unwrap_or_else(PoisonError::into_inner).released = Some(Instant::now());
                    lease.release().await?;
                    // Everybody else waits as long as there is something left to measure.
                    if !again && log.lock().unwrap_or_else(PoisonError::into_inner).left > 0 {
                        next.changed().await?;
                    }
                }
                Ok::<(), crate::Failure>(())
            })
        };
        let tasks: Vec<_> = clients.iter().cloned().map(contend).collect();
        for task in tasks {
            task.await??;
        }
        self.busy.add_since(began, servers)?;
        for (before, after) in before.iter().zip(clients.iter().map(Client::stats)) {
            self.requests += after.requests - before.requests;
            self.messages += messages(&after) - messages(before);
            self.leases += after.acquired - before.acquired;
        }
        for client in clients {
            client.close(Duration::from_secs(5)).await?;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut log.handoffs))
    }
}

fn messages(stats: &Stats) -> u64 {
    stats.requests + stats.replies + stats.hints
}

/// When the lock was let go and when it was had again.
struct Log {
    left: usize,
    released: Option<Instant>,
    handoffs: Vec<Duration>,
}

impl Log {
    fn granted(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(1);
        if let Some(released) = self.released.take() {
            self.handoffs.push(now - released);
        }
    }
}

fn print_table(networks: &[Network], again: bool) {
    println!("Handoff over {NODES} nodes: from the call of release to the next holder's grant.");
    println!(
        "A round is a PING to all nodes until the majority has answered, measured in the same turn. The floor is a"
    );
    println!("handoff between bare sockets, with the smallest scripts that could do and one waiter.");
    let when = if again { "at once" } else { "when the next one has it" };
    println!("Whoever has let go lines up again {when}.");
    println!();
    println!(
        "| network | waiters | round p50 (us) | floor, in rounds | handoff p50 (us) | p99 (us) | in rounds | spread | messages a lease | requests a lease |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for network in networks {
        for case in &network.cases {
            let (low, high) = (case.ratios.quantile(0.0), case.ratios.quantile(1.0));
            println!(
                "| {} | {} | {:.0} | {:.2} | {:.0} | {:.0} | {:.2} | {low:.2} to {high:.2} | {:.1} | {:.1} |",
                network.name,
                case.waiters,
                network.round.median(),
                network.bare.median(),
                case.handoff.median(),
                case.handoff.quantile(0.99),
                case.ratios.median(),
                per_lease(case.messages, case),
                per_lease(case.requests, case),
            );
        }
    }
}

/// What was used, as text: for each round, each bare handoff, and each lease of a case, with its refusal.
fn print_busy(networks: &[Network], args: &Args) {
    println!();
    println!("| network | processor time (us) | servers | client |");
    println!("|---|---|---|---|");
    for network in networks {
        let rounds = args.turns.turns * args.turns.each * network.cases.len();
        let row = |what: &str, (servers, own)| println!("| {} | {what} | {servers:.0} | {own:.0} |", network.name);
        row("a round", network.round_busy.each(rounds));
        row("a bare handoff", network.bare_busy.each(rounds));
        for case in &network.cases {
            row(&format!("a lease, {} waiters", case.waiters), case.busy.each(case.leases as usize));
        }
    }
}

fn per_lease(count: u64, case: &Case) -> f64 {
    count as f64 / case.leases.max(1) as f64
}

fn print_json(networks: &[Network]) {
    let cases = networks.iter().flat_map(|network| {
        network.cases.iter().map(|case| {
            format!(
                "{{\"network\":\"{}\",\"waiters\":{},\"handoffs\":{},\"round_us\":{:.1},\"handoff_p50_us\":{:.1},\
                 \"handoff_p99_us\":{:.1},\"rounds\":{:.3},\"floor_rounds\":{:.3},\"messages_per_lease\":{:.1}}}",
                network.name,
                case.waiters,
                case.handoff.len(),
                network.round.median(),
                case.handoff.median(),
                case.handoff.quantile(0.99),
                case.ratios.median(),
                network.bare.median(),
                per_lease(case.messages, case),
            )
        })
    });
    println!("[{}]", cases.collect::<Vec<_>>().join(","));
}
