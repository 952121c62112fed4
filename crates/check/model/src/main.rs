//! `./x model`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use quorlock_model::report::{HEAD, Row, WIDE_HEAD, WideResult, page, stories};
use quorlock_model::run_info::RunInfo;
use quorlock_model::scenario::ALL;

/// Search every state of the core within bounds, with all rules and without each of them
#[derive(Parser)]
#[command(name = "./x model")]
struct Options {
    /// Run only the scenarios that take seconds.
    #[arg(long)]
    quick: bool,
    /// Run only the scenario of this rule, and print its counter-example.
    #[arg(long)]
    rule: Option<String>,
    /// Write the page to this file.
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let is_wanted = |name: &str| options.rule.as_ref().is_none_or(|rule| rule == name);
    let scenarios = ALL.iter().filter(|scenario| (scenario.is_quick || !options.quick) && is_wanted(scenario.name));
    let mut rows = Vec::new();
    println!("{HEAD}");
    for scenario in scenarios {
        let row = Row::search(scenario);
        println!("{}", row.line());
        rows.push(row);
    }
    if options.rule.is_some() {
        for row in &rows {
            println!("{}", row.story());
        }
    }
    let wide = if options.quick || options.rule.is_some() { Vec::new() } else { WideResult::search_all() };
    if !wide.is_empty() {
        println!("\n{WIDE_HEAD}");
    }
    for search in &wide {
        println!("{}", search.line());
    }
    let failures = rows.iter().filter_map(Row::failure).chain(wide.iter().filter_map(WideResult::failure));
    let failures: Vec<String> = failures.collect();
    for failure in &failures {
        eprintln!("{failure}");
    }
    if rows.is_empty() {
        eprintln!("unknown rule; see the names in crates/check/model/src/scenario.rs");
        return ExitCode::from(64);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let mut texts = vec![(target.join("model/stories.txt"), stories(&rows))];
    texts.extend(options.write.map(|path| (path, page(&RunInfo::now("model"), &rows, &wide))));
    for (path, text) in texts {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| std::fs::write(&path, text)) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
