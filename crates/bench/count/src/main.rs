//! Counts the instructions and allocations of one cycle of acquire and release. The counts do not depend on the load of
//! the machine.
//!
//! `quorlock-count` compares the counts with the committed counts, `--commit` replaces the committed counts, and `--json`
//! prints the counts.
//! `quorlock-count cycles KIND COUNT ADDRESS..` is the counted program. It is a separate process, because callgrind counts
//! a whole process.

mod committed;
mod counts;
mod cycles;
mod relay;
mod replies;

use std::alloc::System;
use std::error::Error;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => counts::count().and_then(|counts| committed::compare_with(&counts)),
        ["--commit"] => counts::count().and_then(|counts| committed::write(&counts)),
        ["--json"] => counts::count().and_then(|counts| Ok(println!("{}", serde_json::to_string(&counts)?))),
        ["cycles", kind, count, ref servers @ ..] => cycles::run(kind == "plain", count, servers),
        _ => Err("usage: quorlock-count [--commit or --json]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
