//! The results of the searches: tables for the page, and counter-examples.

use std::sync::Arc;

use super::scenarios::{CONFIGURATIONS, Configuration, MUTANTS, Mutant};
use super::search::{find_shortest_path_to_stuck, find_shortest_violation, search_all_states};
use super::setup::Setup;
use crate::report::describe;
use crate::search::SearchResult;

/// The result of one configuration with all rules.
pub struct ConfigurationResult {
    configuration: Configuration,
    finding: SearchResult,
    stuck: usize,
}

impl ConfigurationResult {
    /// Searches the configurations for which `is_wanted` returns true.
    pub fn all(is_wanted: impl Fn(&Configuration) -> bool) -> impl Iterator<Item = Self> {
        CONFIGURATIONS.iter().filter(move |configuration| is_wanted(configuration)).map(Self::search)
    }

    fn search(configuration: &Configuration) -> Self {
        let (finding, stuck) = search_all_states(&Arc::new((configuration.setup)()));
        Self { configuration: *configuration, finding, stuck }
    }

    /// The reason why this result is a failure: a violation, an unfinished search, or a state without recovery.
    pub fn failure(&self) -> Option<String> {
        let name = self.configuration.name;
        if self.stuck > 0 {
            let counter_example = find_shortest_path_to_stuck(&Arc::new((self.configuration.setup)())).counter_example;
            let trace = counter_example.as_ref().map(describe).unwrap_or_default();
            return Some(format!("{name}: from {} states, no client can acquire the lock\n{trace}", self.stuck));
        }
        match &self.finding {
            SearchResult { counter_example: Some(counter_example), .. } => {
                Some(format!("{name}\n{}", describe(counter_example)))
            }
            SearchResult { is_complete: false, .. } => Some(format!("{name}: the search did not end")),
            _ => None,
        }
    }

    /// The row of the table, in Markdown.
    pub fn table_row(&self) -> String {
        format!("| {} | {} |", self.configuration.about, self.finding.states)
    }
}

/// The result of one mutant: a search without one rule.
pub struct MutantResult {
    mutant: Mutant,
    finding: SearchResult,
}

impl MutantResult {
    /// Searches the mutants for which `is_wanted` returns true.
    pub fn all(is_wanted: impl Fn(&Mutant) -> bool) -> impl Iterator<Item = Self> {
        MUTANTS.iter().filter(move |mutant| is_wanted(mutant)).map(Self::search)
    }

    fn search(mutant: &Mutant) -> Self {
        let setup = Arc::new(Setup { flaw: Some(mutant.flaw), ..(mutant.setup)() });
        Self { mutant: *mutant, finding: find_shortest_violation(&setup) }
    }

    /// The reason why this result is a failure: there is no violation without the rule.
    pub fn failure(&self) -> Option<String> {
        let is_caught = self.finding.counter_example.is_some();
        (!is_caught).then(|| format!("{}: no violation without the rule", self.mutant.name))
    }

    /// The counter-example, step by step.
    pub fn trace(&self) -> String {
        let Mutant { rule, mutant, .. } = self.mutant;
        let ending = self.finding.counter_example.as_ref().map_or_else(|| "no violation\n".into(), describe);
        format!("rule: {rule}\nmutant: {mutant}\n{ending}")
    }

    /// The row of the table, in Markdown.
    pub fn table_row(&self) -> String {
        let Mutant { rule, mutant, .. } = self.mutant;
        let (length, violation) = match &self.finding.counter_example {
            Some(counter_example) => (counter_example.length.to_string(), counter_example.violation.to_string()),
            None => ("none".into(), "no violation".into()),
        };
        format!("| {rule} | {mutant} | {} | {length} | {violation} |", self.finding.states)
    }
}

/// The head of the table of configurations.
pub const HEAD: &str = "| scenario | states |\n|---|---|";

/// The head of the table of mutants.
pub const MUTANTS_HEAD: &str = "\
| rule | mutant | states until the counter-example | its length | violation |
|---|---|---|---|---|";

/// The section of the page, in Markdown.
pub fn section(searched: &[ConfigurationResult], caught: &[MutantResult]) -> String {
    let rows = |head: &str, lines: Vec<String>| format!("{head}\n{}\n", lines.join("\n"));
    let searched = rows(HEAD, searched.iter().map(ConfigurationResult::table_row).collect());
    let caught = rows(MUTANTS_HEAD, caught.iter().map(MutantResult::table_row).collect());
    format!("\n## Who may vote\n\n{INTRODUCTION}{searched}\nWithout one of the rules:\n\n{caught}")
}

const INTRODUCTION: &str = "\
These searches run the rules about the roster, the list of the members that may vote: `node::roster` on every server, and in every
client `View` and `Proposer` of `core::roster`, an `Acquire`, and then a `Hold`, which follow the client's roster while they live. A
*generation* is a version of the roster. It is *settled* when no earlier one can get a majority any more. The library does not use these
rules yet.

The search checks in every state that at most one lease is valid, that fences grow, and that a generation has one roster. From every
seventh state it lets all clients vanish, and a new client must be able to acquire the lock. Operators, restarts, requests for votes and
steps of time are limited.

Simplified: a request and its answer are one step; requests that would be refused are not sent, neither those that name an old epoch nor
those to a server that has granted another client; clients neither wait in the queue nor release; a client reads all servers that it
reaches in one step; in most scenarios a proposer gets all promises in one step; time passes by `max_ttl` and a tenth, or by half of that.
Settings do not change.

";
