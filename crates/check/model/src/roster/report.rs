//! The results of the searches: tables for the page, and counter-examples.

use std::sync::Arc;

use super::scenarios::{CONFIGURATIONS, Configuration, MUTANTS, Mutant};
use super::search::{exhaust, shortest, shortest_to_stuck};
use super::setup::Setup;
use crate::report::describe;
use crate::search::Finding;

/// The results for one configuration, with all rules.
pub struct Searched {
    configuration: Configuration,
    finding: Finding,
    stuck: usize,
}

impl Searched {
    /// Searches all configurations that are wanted.
    pub fn all(is_wanted: impl Fn(&Configuration) -> bool) -> impl Iterator<Item = Self> {
        CONFIGURATIONS.iter().filter(move |configuration| is_wanted(configuration)).map(Self::search)
    }

    fn search(configuration: &Configuration) -> Self {
        let (finding, stuck) = exhaust(&Arc::new((configuration.setup)()));
        Self { configuration: *configuration, finding, stuck }
    }

    /// The reason why this search fails.
    pub fn failure(&self) -> Option<String> {
        let name = self.configuration.name;
        if self.stuck > 0 {
            let counter = shortest_to_stuck(&Arc::new((self.configuration.setup)())).counter;
            let story = counter.as_ref().map(describe).unwrap_or_default();
            return Some(format!("{name}: from {} states nobody can acquire the lock\n{story}", self.stuck));
        }
        match &self.finding {
            Finding { counter: Some(counter), .. } => Some(format!("{name}\n{}", describe(counter))),
            Finding { exhausted: false, .. } => Some(format!("{name}: the search did not end")),
            _ => None,
        }
    }

    /// The row of the table, in Markdown.
    pub fn line(&self) -> String {
        format!("| {} | {} |", self.configuration.about, self.finding.states)
    }
}

/// The result for one rule: a search without it.
pub struct Caught {
    mutant: Mutant,
    finding: Finding,
}

impl Caught {
    /// Searches without each rule that is wanted.
    pub fn all(is_wanted: impl Fn(&Mutant) -> bool) -> impl Iterator<Item = Self> {
        MUTANTS.iter().filter(move |mutant| is_wanted(mutant)).map(Self::search)
    }

    fn search(mutant: &Mutant) -> Self {
        let setup = Arc::new(Setup { flaw: Some(mutant.flaw), ..(mutant.setup)() });
        Self { mutant: *mutant, finding: shortest(&setup) }
    }

    /// The reason why this search fails: the rule is not needed.
    pub fn failure(&self) -> Option<String> {
        let is_caught = self.finding.counter.is_some();
        (!is_caught).then(|| format!("{}: no violation without the rule", self.mutant.name))
    }

    /// The counter-example, step by step.
    pub fn story(&self) -> String {
        let Mutant { rule, mutant, .. } = self.mutant;
        let ending = self.finding.counter.as_ref().map_or_else(|| "no violation\n".into(), describe);
        format!("rule: {rule}\nmutant: {mutant}\n{ending}")
    }

    /// The row of the table, in Markdown.
    pub fn line(&self) -> String {
        let Mutant { rule, mutant, .. } = self.mutant;
        let (length, breach) = match &self.finding.counter {
            Some(counter) => (counter.length.to_string(), counter.breach.to_string()),
            None => ("none".into(), "no violation".into()),
        };
        format!("| {rule} | {mutant} | {} | {length} | {breach} |", self.finding.states)
    }
}

/// The head of the table of configurations.
pub const HEAD: &str = "| scenario | states |\n|---|---|";

/// The head of the table of mutants.
pub const MUTANTS_HEAD: &str = "\
| rule | mutant | states until the counter-example | its length | violation |
|---|---|---|---|---|";

/// The section of the page, in Markdown.
pub fn section(searched: &[Searched], caught: &[Caught]) -> String {
    let rows = |head: &str, lines: Vec<String>| format!("{head}\n{}\n", lines.join("\n"));
    let searched = rows(HEAD, searched.iter().map(Searched::line).collect());
    let caught = rows(MUTANTS_HEAD, caught.iter().map(Caught::line).collect());
    format!("\n## Who may vote\n\n{INTRODUCTION}{searched}\nWithout one of the rules:\n\n{caught}")
}

const INTRODUCTION: &str = "\
These searches run the rules about the roster, the list of the members that may vote: `node::roster` on every server, and `View` and
`Proposer` of `core::roster` in every client. A *generation* is a version of the roster. It is *settled* when no earlier one can get a
majority any more. The library does not use these rules yet.

The search checks in every state that at most one lease is valid, that fences grow, and that a generation has one roster. From every
seventh state it lets all clients vanish, and a new client must be able to acquire the lock. Operators, restarts, requests for votes and
steps of time are limited.

Simplified: clients ask one server at a time instead of running `Acquire` and `Hold`; a request and its answer are one step; a client
reads all servers that it reaches in one step; in most scenarios a proposer gets all promises in one step; time passes by `max_ttl` and a
tenth, or by half of that. Settings do not change. A request that names an old epoch is not sent: the node would refuse it.

";
