//! Measures quorlock against the floor, the ceiling and its peers: all take turns in one run, and what counts is ratios.

mod bare;
mod busy;
mod case;
mod cases;
mod ceiling;
mod cycles;
mod etcd;
mod machine;
mod options;
mod parrot;
mod peers;
mod record;
#[path = "../count/src/replies.rs"]
mod replies;
mod report;
mod round;
mod run;
mod service;
mod spread;
mod stage;
mod worker;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use cases::Planned;
use options::Options;
use report::{Measured, Pages, Report, case_as_markdown};
use worker::Task;

/// quorlock against the floor, the ceiling and its peers, side by side in one run.
///
/// Prints a table for each case; the figures of every turn are in bench/report.json of the folder for builds, with the
/// tables beside them.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only cases whose name begins like this; may be said more than once [default: all].
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// How often every contender takes its turn, after one that does not count.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// How long a turn is, in milliseconds, where it is a time.
    #[arg(long, default_value_t = 400)]
    length: u64,
    /// How many measurements make up a turn, where it is not.
    #[arg(long, default_value_t = 100)]
    each: usize,
    /// Put the figures into docs/performance.json, and write docs/performance.md and the README's table from them.
    #[arg(long)]
    write: bool,
    /// Measure nothing: write the pages from docs/performance.json as it is.
    #[arg(long)]
    write_only: bool,
}

#[derive(Subcommand)]
enum Command {
    /// A contender in a process of its own; started by this program.
    #[command(hide = true)]
    Worker { kind: Kind, task: String },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Own,
    Floor,
    Mutex,
    Flock,
    Leases,
    HandedOver,
    Http,
    HttpBeside,
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome = Result<(), Failure>;

fn main() -> Outcome {
    let args = Args::parse();
    if let Some(Command::Worker { kind, task }) = args.command {
        return work(kind, &serde_json::from_str(&task)?);
    }
    let pages = Pages::here();
    if args.write_only {
        return pages.write(&Report::read(&pages.figures())?);
    }
    measure(&args, &pages)
}

fn work(kind: Kind, task: &Task) -> Outcome {
    let threads = if task.one_thread { 1 } else { 2 };
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    match kind {
        Kind::Own => worker::own::work(task, &runtime()?),
        Kind::Floor => worker::floor::work(task),
        Kind::Mutex => worker::local::mutex(),
        Kind::Leases => worker::leases::work(task, &runtime()?),
        Kind::Flock => worker::local::flock(task),
        Kind::HandedOver => worker::own::hand_over(task, &runtime()?),
        Kind::Http => worker::load::together(task),
        Kind::HttpBeside => worker::load::beside(task, &runtime()?),
    }
}

fn measure(args: &Args, pages: &Pages) -> Outcome {
    let (begun, options) = (Instant::now(), Options::new(Duration::from_millis(args.length), args.each)?);
    let mut planned = cases::all();
    let order: Vec<String> = planned.iter().map(|case| case.name.clone()).collect();
    if !args.cases.is_empty() {
        planned.retain(|case| args.cases.iter().any(|wanted| case.name.starts_with(wanted)));
    }
    if args.list {
        for case in &planned {
            println!("{}", case.name);
        }
        return Ok(());
    }
    if planned.is_empty() {
        return Err("no such case; --list names them".into());
    }
    let (mut report, mut tables, mut failed) = (Report::default(), String::new(), Vec::new());
    for case in planned {
        let name = case.name.clone();
        match attempt(case, &options, args.turns) {
            Ok(measured) => {
                let table = case_as_markdown(&measured);
                println!("{table}");
                tables.push_str(&table);
                tables.push('\n');
                report.add(measured);
                // What was measured is kept, whatever becomes of the rest.
                report.write(&options.folder.join("report.json"))?;
                std::fs::write(options.folder.join("report.md"), &tables)?;
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                failed.push(name);
            }
        }
    }
    eprintln!("{} cases in {:.0} minutes", report.cases.len(), begun.elapsed().as_secs_f64() / 60.0);
    if args.write {
        let mut all = Report::read(&pages.figures())?;
        report.cases.into_iter().for_each(|case| all.add(case));
        all.put_in_order(&order);
        all.write(&pages.figures())?;
        pages.write(&all)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failed.join(", ")).into()) }
}

/// The others do not have to go with one that fails, not even if it panics, as servers do that do not start.
fn attempt(case: Planned, options: &Options, turns: usize) -> Result<Measured, Failure> {
    let work = || (case.set_up)(options).and_then(|case| run::measure(case, turns));
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it has panicked".into()))
}
