//! `./x model`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use quorlock_model::report::{HEAD, RuleResult, WIDE_HEAD, WideResult, page, traces};
use quorlock_model::roster::{self, ConfigurationResult, MutantResult};
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
    /// Search only the rules about who may vote.
    #[arg(long)]
    rosters: bool,
    /// Write the page to this file.
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let is_wanted = |name: &str| options.rule.as_ref().is_none_or(|rule| rule == name);
    let scenarios = ALL
        .iter()
        .filter(|scenario| (scenario.is_quick || !options.quick) && is_wanted(scenario.name) && !options.rosters);
    let mut rows = Vec::new();
    println!("{HEAD}");
    for scenario in scenarios {
        let row = RuleResult::search(scenario);
        println!("{}", row.table_row());
        rows.push(row);
    }
    if options.rule.is_some() {
        for row in &rows {
            println!("{}", row.trace());
        }
    }
    let wide =
        if options.quick || options.rule.is_some() || options.rosters { Vec::new() } else { WideResult::search_all() };
    if !wide.is_empty() {
        println!("\n{WIDE_HEAD}");
    }
    for search in &wide {
        println!("{}", search.table_row());
    }
    let (searched, caught) = search_rosters(&options);
    let failures = rows.iter().filter_map(RuleResult::failure).chain(wide.iter().filter_map(WideResult::failure));
    let failures = failures.chain(searched.iter().filter_map(ConfigurationResult::failure));
    let failures: Vec<String> = failures.chain(caught.iter().filter_map(MutantResult::failure)).collect();
    for failure in &failures {
        eprintln!("{failure}");
    }
    if rows.is_empty() && searched.is_empty() && caught.is_empty() {
        eprintln!("unknown rule; see the names in crates/check/model/src/scenario.rs and roster/scenarios.rs");
        return ExitCode::from(64);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let all_traces = caught.iter().map(MutantResult::trace).fold(traces(&rows), |text, trace| text + "\n" + &trace);
    let mut texts = vec![(target.join("model/traces.txt"), all_traces)];
    let section = roster::section(&searched, &caught);
    texts.extend(options.write.map(|path| (path, page(&RunInfo::now("model"), &rows, &wide, &section))));
    for (path, text) in texts {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| std::fs::write(&path, text)) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Searches the rules about who may vote, and prints the tables.
fn search_rosters(options: &Options) -> (Vec<ConfigurationResult>, Vec<MutantResult>) {
    let is_wanted = |name: &str, is_quick: bool| {
        options.rule.as_ref().is_none_or(|rule| rule == name) && (is_quick || !options.quick)
    };
    println!("\n{}", roster::HEAD);
    let searched = ConfigurationResult::all(|configuration| is_wanted(configuration.name, configuration.is_quick));
    let searched = searched.inspect(|search| println!("{}", search.table_row())).collect();
    println!("\n{}", roster::MUTANTS_HEAD);
    let caught = MutantResult::all(|mutant| is_wanted(mutant.name, mutant.is_quick));
    let caught: Vec<MutantResult> = caught.inspect(|search| println!("{}", search.table_row())).collect();
    if options.rule.is_some() {
        for search in &caught {
            println!("{}", search.trace());
        }
    }
    (searched, caught)
}
