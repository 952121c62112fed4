//! `quorlock bench`: measures the speed of the nodes.

mod histogram;
mod measure;
mod servers;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use quorlock::{Client, ClientBuilder, Lock};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, counted};
use crate::output::{LiveText, Output, ask};
use crate::signals::Signals;
use crate::table::Table;
use histogram::Histogram;
use measure::{Case, measure_cycles, measure_handoffs, with_warm_up};
use servers::Servers;

/// How long to wait for the releases at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of clients that compete for one name when handoffs are measured.
const CONTENDERS: usize = 2;
const CALLERS_MAX: u64 = 10_000;
/// The largest number of servers that `--local` can start, which is the largest number of nodes that a client supports.
const LOCAL_MAX: u64 = 31;
/// The width of the progress bar, in columns.
const BAR_WIDTH: usize = 30;
/// The interval at which the progress bar is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Measure the nodes: cycles per second, latencies, handoffs.
#[derive(Args, Debug)]
#[command(before_help = "\
A cycle is one acquire and one release. Every caller has its own lock; all callers run in one thread. A handoff is the \
time from a release to the grant of the next waiter, in another client. An acquire needs a second round if the \
nodes granted different fences. This puts load on the servers. The names begin with quorlock-bench/, and their fences \
expire a day later.")]
#[command(after_help = "\
Example:
  quorlock bench --local 5")]
pub(crate) struct BenchArgs {
    /// Start N redis-servers on this host, measure and stop them.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=LOCAL_MAX))]
    local: Option<usize>,

    /// Measure for N seconds per part.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Measure with N callers at once, one part per N.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,64,512",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=CALLERS_MAX))]
    callers: Vec<usize>,

    /// Use plain locks: the Redlock algorithm, with no fence, queue or handoff.
    #[arg(long)]
    plain: bool,

    /// Do not ask before putting load on servers of other hosts.
    #[arg(long)]
    yes: bool,
}

/// Measures the nodes, and prints the result.
pub(crate) async fn bench(context: &Context, args: BenchArgs) -> Outcome {
    let output = context.output;
    // Declared before the clients, so that the servers are dropped after them.
    let _servers;
    let (mut signals, bench);
    if let Some(count) = args.local {
        // From here on, a signal makes us stop the servers before we exit.
        signals = Signals::listen()?;
        let servers = Servers::start(count).await?;
        let builder = Client::builder().nodes(servers.urls());
        _servers = servers;
        builder.clone().init_cluster().await?;
        bench = Bench::connect(builder, args).await?;
        bench.announce(output);
    } else {
        bench = Bench::connect(context.builder()?, args).await?;
        bench.announce(output);
        bench.confirm()?;
        signals = Signals::listen()?;
    }
    let measured = tokio::select! {
        measured = bench.measure(output) => Ok(measured),
        signal = signals.next_fatal() => Err(signal.as_raw()),
    };
    let (nodes, plain, seconds) = (bench.nodes(), bench.args.plain, bench.args.seconds);
    for client in bench.clients {
        if let Err(error) = client.close(CLOSE_TIMEOUT).await {
            output.note(error);
        }
    }
    let (cases, handoff) = match measured {
        Ok(measured) => measured?,
        Err(signal) => return Ok(Exit::signal(signal)),
    };
    if output.json {
        let report = json!({ "nodes": nodes, "plain": plain, "seconds": seconds, "cases": cases, "handoff": handoff });
        output.json(&report)
    } else {
        print_results(output, &cases, handoff.as_ref())
    }
}

/// The clients, and the prefix of the names that they use.
struct Bench {
    clients: Vec<Client>,
    prefix: String,
    args: BenchArgs,
}

impl Bench {
    async fn connect(builder: ClientBuilder, args: BenchArgs) -> Outcome<Self> {
        let builder = builder.label("quorlock bench");
        let mut clients = Vec::new();
        for _ in 0..CONTENDERS {
            clients.push(builder.clone().connect_lazy().await?);
        }
        Ok(Self { clients, prefix: format!("quorlock-bench/{:016x}", random()), args })
    }

    fn nodes(&self) -> Vec<String> {
        self.clients[0].nodes().into_iter().map(|(node, _)| node).collect()
    }

    /// Returns the length of each part, without its warm-up.
    fn part_length(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    /// Returns the duration of all parts, with their warm-ups.
    fn total_duration(&self) -> Duration {
        with_warm_up(self.part_length()) * (self.args.callers.len() as u32 + u32::from(!self.args.plain))
    }

    fn announce(&self, output: Output) {
        let (nodes, seconds) = (self.nodes().join(", "), self.total_duration().as_secs_f64());
        output.note(format_args!("this puts load on {nodes} for {seconds:.0}s"));
    }

    /// Asks for confirmation on a terminal, unless all nodes are on this host.
    fn confirm(&self) -> Outcome<()> {
        let is_interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        if self.args.yes || !is_interactive || self.nodes().iter().all(|node| is_on_this_host(node)) {
            return Ok(());
        }
        match ask("not all of these nodes are on this host. Continue? [y/N]")?.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::usage("nothing was measured; --yes measures without asking")),
        }
    }

    /// Measures the cycles with each number of callers, and then the handoffs.
    async fn measure(&self, output: Output) -> Outcome<(Vec<Case>, Option<Histogram>)> {
        let client = &self.clients[0];
        // Fail now if the nodes cannot vote, not after every caller has timed out.
        drop(self.lock(client, "probe").try_acquire().await?);
        let start = Instant::now();
        let mut cases = Vec::new();
        for &callers in &self.args.callers {
            let title = counted(callers, "caller");
            let locks = (0..callers).map(|caller| self.lock(client, &caller.to_string())).collect();
            let cycles = measure_cycles(client, locks, self.part_length());
            cases.push(self.run_with_progress(output, start, &title, cycles).await?);
        }
        if self.args.plain {
            return Ok((cases, None));
        }
        let contenders = self.clients.iter().map(|client| self.lock(client, "handoff")).collect();
        let handoffs = measure_handoffs(contenders, self.part_length());
        let handoff = self.run_with_progress(output, start, "handoff", handoffs).await?;
        Ok((cases, Some(handoff)))
    }

    /// Runs one part of the benchmark, and shows the progress of the whole benchmark: `████████░░░░  7s left  64
    /// callers`.
    async fn run_with_progress<T>(
        &self,
        output: Output,
        start: Instant,
        title: &str,
        work: impl Future<Output = T>,
    ) -> T {
        let (mut live, total) = (LiveText::new(output), self.total_duration());
        tokio::pin!(work);
        loop {
            if let Some(live) = &mut live {
                let elapsed = start.elapsed();
                let full = ((elapsed.as_secs_f64() / total.as_secs_f64()).min(1.0) * BAR_WIDTH as f64) as usize;
                let left = total.saturating_sub(elapsed).as_secs_f64().ceil();
                live.draw([format!("{}{}  {left:.0}s left  {title}", "█".repeat(full), "░".repeat(BAR_WIDTH - full))]);
            }
            if let Ok(result) = timeout(REDRAW_INTERVAL, &mut work).await {
                return result;
            }
        }
    }

    fn lock(&self, client: &Client, name: &str) -> Lock {
        let lock = client.lock(format!("{}/{name}", self.prefix));
        if self.args.plain { lock.plain() } else { lock }
    }
}

/// Returns 64 random bits, seeded by the operating system each time.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns whether a node, given by its URL without secrets, is on this host.
fn is_on_this_host(node: &str) -> bool {
    let (scheme, rest) = node.split_once(':').unwrap_or((node, ""));
    if !scheme.starts_with("redis") || scheme.ends_with("unix") {
        return true;
    }
    let authority = rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn print_results(output: Output, cases: &[Case], handoff: Option<&Histogram>) -> Outcome {
    let mut table =
        Table::new(["CALLERS", "CYCLES/S", "CYCLE P50", "P99", "ACQUIRE P50", "P99", "SECOND ROUNDS", "FAILED"]);
    for case in cases {
        table.row([
            case.callers.to_string(),
            format!("{:.0}", case.cycles_per_second),
            quantile_text(&case.cycle, 0.5),
            quantile_text(&case.cycle, 0.99),
            quantile_text(&case.acquire, 0.5),
            quantile_text(&case.acquire, 0.99),
            format!("{:.2}%", case.second_rounds as f64 / case.leases.max(1) as f64 * 100.0),
            case.failures.to_string(),
        ]);
    }
    let exit = table.print(output)?;
    let Some(handoff) = handoff else { return Ok(exit) };
    let (p50, p99, count) = (quantile_text(handoff, 0.5), quantile_text(handoff, 0.99), handoff.total);
    output.line(format_args!("\nhandoff: p50 {p50}, p99 {p99}, of {count} handoffs between {CONTENDERS} clients"))
}

/// Formats a quantile in milliseconds, or a dash if nothing was measured.
fn quantile_text(durations: &Histogram, fraction: f64) -> String {
    durations.quantile(fraction).map_or_else(|| "-".into(), |micros| format!("{:.2} ms", micros / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_this_host_are_recognized() {
        for node in [
            "sqlite:/var/lib/locks.db",
            "memory:",
            "redis://localhost",
            "redis://127.0.0.1:6379/2",
            "rediss://user@[::1]:7000",
            "redis+unix:/run/redis.sock",
            "unix:/run/redis.sock",
        ] {
            assert!(is_on_this_host(node), "{node}");
        }
        for node in
            ["redis://10.0.0.1", "redis://127.0.0.1.example.org", "rediss://[2001:db8::1]:6379", "redis://db-1:6379"]
        {
            assert!(!is_on_this_host(node), "{node}");
        }
    }
}
