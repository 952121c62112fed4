//! The command `./x model`: runs the searches, prints their results, and writes the page.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use quorlock_model::report::{RULES_HEAD, RuleResult, WIDE_HEAD, WideResult, page, traces};
use quorlock_model::roster::{self, ConfigurationResult, MutantResult};
use quorlock_model::run_info::RunInfo;
use quorlock_model::scenario::SCENARIOS;

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
    let scenarios = SCENARIOS
        .iter()
        .filter(|scenario| (scenario.is_quick || !options.quick) && is_wanted(scenario.name) && !options.rosters);
    let mut rule_results = Vec::new();
    println!("{RULES_HEAD}");
    for scenario in scenarios {
        let rule_result = RuleResult::search(scenario);
        println!("{}", rule_result.table_row());
        rule_results.push(rule_result);
    }
    if options.rule.is_some() {
        for rule_result in &rule_results {
            println!("{}", rule_result.trace());
        }
    }
    let wide_results =
        if options.quick || options.rule.is_some() || options.rosters { Vec::new() } else { WideResult::search_all() };
    if !wide_results.is_empty() {
        println!("\n{WIDE_HEAD}");
    }
    for result in &wide_results {
        println!("{}", result.table_row());
    }
    let (configurations, mutants) = search_rosters(&options);
    let failures =
        rule_results.iter().filter_map(RuleResult::failure).chain(wide_results.iter().filter_map(WideResult::failure));
    let failures = failures.chain(configurations.iter().filter_map(ConfigurationResult::failure));
    let failures: Vec<String> = failures.chain(mutants.iter().filter_map(MutantResult::failure)).collect();
    for failure in &failures {
        eprintln!("{failure}");
    }
    if rule_results.is_empty() && configurations.is_empty() && mutants.is_empty() {
        eprintln!("unknown rule; see the names in crates/check/model/src/scenario.rs and roster/scenarios.rs");
        return ExitCode::from(64);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let all_traces =
        mutants.iter().map(MutantResult::trace).fold(traces(&rule_results), |text, trace| text + "\n" + &trace);
    let mut texts = vec![(target.join("model/traces.txt"), all_traces)];
    let roster_section = roster::section(&configurations, &mutants);
    texts.extend(
        options.write.map(|path| (path, page(&RunInfo::now("model"), &rule_results, &wide_results, &roster_section))),
    );
    for (path, text) in texts {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| std::fs::write(&path, text)) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the searches about who may vote, and prints their tables.
fn search_rosters(options: &Options) -> (Vec<ConfigurationResult>, Vec<MutantResult>) {
    let is_wanted = |name: &str, is_quick: bool| {
        options.rule.as_ref().is_none_or(|rule| rule == name) && (is_quick || !options.quick)
    };
    println!("\n{}", roster::HEAD);
    let configurations =
        ConfigurationResult::all(|configuration| is_wanted(configuration.name, configuration.is_quick));
    let configurations = configurations.inspect(|result| println!("{}", result.table_row())).collect();
    println!("\n{}", roster::MUTANTS_HEAD);
    let mutants = MutantResult::all(|mutant| is_wanted(mutant.name, mutant.is_quick));
    let mutants: Vec<MutantResult> = mutants.inspect(|result| println!("{}", result.table_row())).collect();
    if options.rule.is_some() {
        for result in &mutants {
            println!("{}", result.trace());
        }
    }
    (configurations, mutants)
}
