//! `quorlock bench`: how fast these nodes are.

mod measure;
mod progress;
mod servers;
mod spread;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use quorlock::{Client, ClientBuilder, Lock};
use serde::Serialize;

use crate::Outcome;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Output, ask};
use crate::signals::Signals;
use crate::table::Table;
use measure::{Case, Handoffs, cycles, handoffs, whole};
use progress::Progress;
use servers::{Servers, random};
use spread::Spread;

/// How long the releases at the end may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// So many clients hand a name to each other.
const CONTENDERS: usize = 2;
const CALLERS_MAX: u64 = 10_000;
/// Votes of more servers than this would not fit a client.
const LOCAL_MAX: u64 = 31;

/// Measure the nodes: cycles a second, how long they take, handoffs.
///
/// A cycle is one acquire and one release. Every caller has a name of its own, and all are tasks of one client in one
/// thread. A handoff is the time from a release to the grant of the next in the queue, who has another client. A second round
/// is what an acquire needs when the nodes granted unequal fences.
///
/// It puts load on the servers. The names are below quorlock-bench/ and a random number, and are free afterwards; their
/// fences lapse by themselves, a day later.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  quorlock bench --local 5")]
pub(crate) struct BenchArgs {
    /// Start this many redis-servers on this machine, measure them, and stop them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=LOCAL_MAX))]
    local: Option<u64>,

    /// How long each part takes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// How many callers at once, one part for each number.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,64,512",
        value_parser = clap::value_parser!(u64).range(1..=CALLERS_MAX))]
    callers: Vec<u64>,

    /// Plain locks, to the letter of the Redlock page: no fence, no queue, and so no handoff to be measured.
    #[arg(long)]
    plain: bool,

    /// Do not ask before load is put on servers that are not on this machine.
    #[arg(long)]
    yes: bool,
}

/// Measures, and shows what came of it.
pub(crate) async fn bench(context: &Context, args: BenchArgs) -> Outcome {
    let output = context.output;
    // Dropped after the clients, however this ends.
    let _servers;
    let (mut signals, bench);
    if let Some(count) = args.local {
        // From here on a signal ends the servers, too.
        signals = Signals::listen()?;
        let servers = Servers::start(count as usize).await?;
        let builder = Client::builder().nodes(servers.urls());
        _servers = servers;
        builder.clone().init_cluster().await?;
        bench = Bench::connect(builder, &args).await?;
        bench.announce(output);
    } else {
        bench = Bench::connect(context.builder()?, &args).await?;
        bench.announce(output);
        bench.ask(args.yes)?;
        signals = Signals::listen()?;
    }
    let measured = tokio::select! {
        report = bench.measure(output) => Ok(report),
        signal = signals.next_fatal() => Err(signal.as_raw()),
    };
    bench.close(output).await;
    let report = match measured {
        Ok(report) => report?,
        Err(signal) => return Ok(Exit::signal(signal)),
    };
    if output.json {
        output.json(&report)?;
    } else {
        report.print(output)?;
    }
    Ok(Exit::OK)
}

/// The clients, the names that they use, and what they do.
struct Bench {
    clients: Vec<Client>,
    prefix: String,
    callers: Vec<usize>,
    plain: bool,
    /// Of each part.
    length: Duration,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    nodes: Vec<String>,
    plain: bool,
    seconds: u64,
    cases: Vec<Case>,
    handoff: Option<Handoffs>,
}

impl Bench {
    async fn connect(builder: ClientBuilder, args: &BenchArgs) -> Result<Self, Failure> {
        let builder = builder.label("quorlock bench");
        let mut clients = Vec::new();
        for _ in 0..CONTENDERS {
            clients.push(builder.clone().connect_lazy().await?);
        }
        Ok(Self {
            clients,
            prefix: format!("quorlock-bench/{:016x}", random()),
            callers: args.callers.iter().map(|callers| *callers as usize).collect(),
            plain: args.plain,
            length: Duration::from_secs(args.seconds),
        })
    }

    fn nodes(&self) -> Vec<String> {
        self.clients[0].nodes().into_iter().map(|(node, _)| node).collect()
    }

    /// How long all of it takes.
    fn whole(&self) -> Duration {
        whole(self.length) * (self.callers.len() as u32 + u32::from(!self.plain))
    }

    fn announce(&self, output: Output) {
        let (nodes, seconds) = (self.nodes().join(", "), self.whole().as_secs_f64());
        output.note(format_args!("this puts load on {nodes} for {seconds:.0} s"));
    }

    /// Asks whoever can be asked, if it is not only this machine that has to bear it.
    fn ask(&self, yes: bool) -> Result<(), Failure> {
        let somebody = io::stdin().is_terminal() && io::stderr().is_terminal();
        if yes || !somebody || self.nodes().iter().all(|node| is_local(node)) {
            return Ok(());
        }
        let answer = ask("not all of these nodes are on this host. Continue? [y/N]")?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::usage("nothing was measured; --yes measures without asking")),
        }
    }

    async fn measure(&self, output: Output) -> Result<Report, Failure> {
        let client = &self.clients[0];
        // Nodes that cannot vote are told at once, and not after everyone has lost patience.
        drop(self.lock(client, "probe").try_acquire().await?);
        let progress = Progress::new(output.quiet, self.whole());
        let mut cases = Vec::new();
        for &callers in &self.callers {
            let title = if callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") };
            let own = |caller: usize| self.lock(client, &caller.to_string());
            cases.push(progress.during(&title, cycles(client, own, callers, self.length)).await?);
        }
        let handoff = if self.plain {
            None
        } else {
            let contenders = self.clients.iter().map(|client| self.lock(client, "handoff")).collect();
            Some(progress.during("handoff", handoffs(contenders, self.length)).await?)
        };
        Ok(Report { nodes: self.nodes(), plain: self.plain, seconds: self.length.as_secs(), cases, handoff })
    }

    fn lock(&self, client: &Client, name: &str) -> Lock {
        let lock = client.lock(format!("{}/{name}", self.prefix));
        if self.plain { lock.plain() } else { lock }
    }

    /// Nothing stays locked.
    async fn close(self, output: Output) {
        for client in self.clients {
            if let Err(error) = client.close(FAREWELL).await {
                output.note(error);
            }
        }
    }
}

/// Whether a node, by its URL without secrets, is on this machine.
fn is_local(node: &str) -> bool {
    let (scheme, rest) = node.split_once(':').unwrap_or((node, ""));
    if !scheme.starts_with("redis") || scheme.ends_with("unix") {
        return true;
    }
    let rest = rest.trim_start_matches('/');
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Report {
    fn print(&self, output: Output) -> Result<(), Failure> {
        let head = ["CALLERS", "CYCLES/S", "CYCLE P50", "P99", "ACQUIRE P50", "P99", "SECOND ROUNDS", "FAILED"];
        let mut table = Table::new(head);
        for case in &self.cases {
            table.row([
                case.callers.to_string(),
                format!("{:.0}", case.cycles_per_second),
                millis(&case.cycle, 0.5),
                millis(&case.cycle, 0.99),
                millis(&case.acquire, 0.5),
                millis(&case.acquire, 0.99),
                format!("{:.2}%", case.second_rounds as f64 / case.leases.max(1) as f64 * 100.0),
                case.failures.to_string(),
            ]);
        }
        table.print(output)?;
        let Some(Handoffs { handoffs, handoff }) = &self.handoff else { return Ok(()) };
        let (median, most) = (millis(handoff, 0.5), millis(handoff, 0.99));
        output.line(format_args!("\nhandoff: p50 {median}, p99 {most}, of {handoffs} between {CONTENDERS} clients"))
    }
}

fn millis(spread: &Spread, share: f64) -> String {
    spread.quantile(share).map_or_else(|| "-".into(), |micros| format!("{:.2} ms", micros / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_this_machine_are_measured_without_asking() {
        for node in [
            "sqlite:/var/lib/locks.db",
            "memory:",
            "redis://localhost",
            "redis://127.0.0.1:6379/2",
            "rediss://user@[::1]:7000",
            "redis+unix:/run/redis.sock",
            "unix:/run/redis.sock",
        ] {
            assert!(is_local(node), "{node}");
        }
        for node in
            ["redis://10.0.0.1", "redis://127.0.0.1.example.org", "rediss://[2001:db8::1]:6379", "redis://db-1:6379"]
        {
            assert!(!is_local(node), "{node}");
        }
    }
}
