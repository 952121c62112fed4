//! `quorlock demo`: locks that survive crashes, with nothing to install.

mod checker;
pub(super) mod plan;
mod scene;
mod screen;
mod terminal;
mod workers;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use quorlock::{Client, ClientBuilder, MemoryNodes};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::bench::random;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Paint, terminal_size};
use crate::signals::Signals;
use crate::table::Table;
use checker::Findings;
use plan::{Fault, plan};
use scene::Scene;
use terminal::Terminal;

const NODES: usize = 5;
const WORKERS: usize = 12;
const NAMES: [&str; 3] = ["deploy", "report", "invoices/42"];
/// The ttl of every lease.
const TTL: Duration = Duration::from_secs(1);
/// Short, so that a user can watch a whole quarantine: the time in which a node that lost its memory must not vote.
const MAX_TTL: Duration = Duration::from_secs(3);
/// 1.1 x `MAX_TTL`.
const QUARANTINE: Duration = Duration::from_millis(3_300);
/// The interval between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(80);
/// The longest time for the workers to release their locks at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest number of violations that are printed.
const VIOLATIONS_MAX: usize = 10;

/// Watch locks survive crashes, freezes and cuts, with nothing to install.
#[derive(Args, Debug)]
#[command(before_help = "\
Twelve workers compete for three names on five nodes, all in this process. The demo freezes nodes, cuts them off, and \
restarts them with an empty memory; now and then it stops a majority. At the end a checker examines the whole history: \
no two leases of a name were valid at the same time, and fences only grew.")]
#[command(after_help = "\
Exit codes:
  0 no violation   70 the checker found a violation   130, 143 interrupted

Example:
  quorlock demo --seconds 60 --seed 7")]
pub(crate) struct DemoArgs {
    /// Run for N seconds.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Repeat the workload and faults of seed N [default: random].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Runs and shows the demonstration, and prints the verdict of the checker.
pub(crate) async fn demo(context: &Context, args: DemoArgs) -> Outcome {
    let output = context.output;
    // Short enough to type.
    let seed = args.seed.unwrap_or_else(|| random() % 1_000_000);
    let mut signals = Signals::listen()?;
    let plan = plan(seed, Duration::from_secs(args.seconds));
    let scene = Arc::new(Mutex::new(Scene::new(seed, Duration::from_secs(args.seconds))));
    let (stop, stopped) = watch::channel(false);
    // Dropping `_background` ends the faults and the observer of the nodes.
    let (workers, _background) = workers::start(&scene, &plan, &stopped).await?;
    if output.json {
        output.note(format_args!("the demonstration takes {}s, with seed {seed}", args.seconds));
    }
    let signal = tokio::select! {
        shown = show(output, &scene) => shown.map(|()| None)?,
        signal = signals.next_fatal() => Some(signal.as_raw()),
    };
    stop.send_replace(true);
    // Every worker reports its lease before the release, so the timeout hides no lease from the checker.
    let _ = timeout(CLOSE_TIMEOUT, workers.join_all()).await;
    let scene = scene.lock();
    let findings = scene.findings();
    if output.json {
        let mut report = serde_json::to_value(&findings).map_err(Failure::cannot("write JSON"))?;
        report["seed"] = seed.into();
        report["seconds"] = args.seconds.into();
        report["nodes"] = NODES.into();
        report["workers"] = WORKERS.into();
        report["plan"] = json!(plan);
        output.json(&report)?;
    } else {
        print_report(output, &scene, &findings)?;
    }
    Ok(exit_code(&findings, signal))
}

/// Returns a builder for nodes in this process. Their clocks may differ by `skew`, and may step back by `skew`.
pub(super) fn memory_builder(nodes: &MemoryNodes, ttl: Duration, max_ttl: Duration, skew: Duration) -> ClientBuilder {
    Client::builder().memory(nodes).ttl(ttl).max_ttl(max_ttl).max_clock_skew(skew).max_clock_step_back(skew)
}

/// Returns the exit code. A violation takes precedence over a signal.
fn exit_code(findings: &Findings, signal: Option<i32>) -> Exit {
    match signal {
        _ if !findings.violations.is_empty() => Exit::INTERNAL,
        Some(signal) => Exit::signal(signal),
        None => Exit::OK,
    }
}

/// Shows the scene, as a picture on a terminal and as lines elsewhere. Returns when the time is over or the user types
/// q.
async fn show(output: Output, scene: &Mutex<Scene>) -> Outcome<()> {
    let is_drawn = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let terminal =
        if is_drawn && !output.json { Some(Terminal::open().map_err(Failure::cannot("draw"))?) } else { None };
    let mut frames = interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut printed_lines = 0;
    loop {
        frames.tick().await;
        let scene = scene.lock();
        if terminal.is_some() {
            let drawn = Terminal::draw(&screen::picture(&scene, output, terminal_size(io::stdout())));
            if drawn.and_then(|()| Terminal::is_q_typed()).map_err(Failure::cannot("draw"))? {
                return Ok(());
            }
        } else if !output.json {
            for line in &scene.log[printed_lines..] {
                let at = output.paint(Paint::DIM, format_args!("{:7.3}", line.at.as_secs_f64()));
                let text = line.paint.map_or_else(|| line.text.clone(), |paint| output.paint(paint, &line.text));
                output.line(format_args!("{at}  {text}"))?;
            }
            printed_lines = scene.log.len();
        }
        if scene.age() >= scene.length {
            return Ok(());
        }
    }
}

/// Prints the counts of faults and leases, the violations, and the verdict.
fn print_report(output: Output, scene: &Scene, findings: &Findings) -> Outcome {
    let count = |fault: Fault| scene.faults.iter().filter(|other| **other == fault).count();
    output.line(format_args!(
        "seed {}: {WORKERS} workers, {} names, {NODES} nodes; crashes {}, freezes {}, cuts {}\n",
        scene.seed,
        NAMES.len(),
        count(Fault::Crash),
        count(Fault::Freeze),
        count(Fault::Cut),
    ))?;
    let mut table = Table::new(["NAME", "GRANTS", "LOST", "OVERLAPS", "FENCES", "LAST FENCE"]);
    for name in &findings.names {
        let fences = if name.fences_increasing { "increasing" } else { "OUT OF ORDER" };
        table.row([
            name.name.to_owned(),
            name.grants.to_string(),
            name.losses.to_string(),
            name.overlaps.to_string(),
            fences.into(),
            name.last_fence.map_or_else(|| "-".into(), |fence| fence.to_string()),
        ]);
    }
    table.print(output)?;
    for violation in findings.violations.iter().take(VIOLATIONS_MAX) {
        output.line(output.paint(Paint::BAD, violation))?;
    }
    output.line(format_args!("\n{}", screen::verdict(output, findings)))
}

#[cfg(test)]
mod tests {
    use super::checker::PastLease;
    use super::*;

    #[test]
    fn a_violation_sets_the_exit_code_even_after_an_interrupt() {
        let past_lease = |fence: u64, from: u64, until: u64| PastLease {
            name: NAMES[0],
            worker: fence as usize,
            fence,
            from: Duration::from_millis(from),
            until: Duration::from_millis(until),
            is_lost: false,
        };
        let good = Findings::of(&NAMES, &[past_lease(1, 0, 10), past_lease(2, 10, 20)]);
        let bad = Findings::of(&NAMES, &[past_lease(1, 0, 11), past_lease(2, 10, 20)]);
        assert_eq!([exit_code(&good, None), exit_code(&good, Some(2))], [Exit::OK, Exit(130)]);
        assert_eq!([exit_code(&bad, None), exit_code(&bad, Some(2))], [Exit::INTERNAL; 2]);
    }
}
