//! The results of the searches: tables for the page, and counter-examples.

use std::fmt::Write as _;

use crate::run_info::RunInfo;
use crate::scenario::{Scenario, WIDE};
use crate::search::{Counter, Finding};

/// The results for one rule: the search with it, and the search without it.
pub struct Row {
    scenario: Scenario,
    with: Finding,
    without: Finding,
}

impl Row {
    /// Searches with all rules, and without this one.
    pub fn search(scenario: &Scenario) -> Self {
        Self { scenario: *scenario, with: scenario.hunt.with(), without: scenario.hunt.without() }
    }

    /// The reason why this rule fails: the rules are not sufficient, or this one is not needed.
    pub fn complaint(&self) -> Option<String> {
        let name = self.scenario.name;
        if let Some(counter) = &self.with.counter {
            return Some(format!("{name}: a violation with all rules in force\n{}", describe(counter)));
        }
        if !self.with.exhausted {
            return Some(format!("{name}: the search did not end"));
        }
        self.without.counter.is_none().then(|| format!("{name}: no violation without the rule"))
    }

    /// The counter-example without the rule.
    pub fn story(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let ending = self.without.counter.as_ref().map_or_else(|| "no violation\n".into(), describe);
        format!("rule: {rule}\nmutant: {mutant}\n{ending}")
    }

    /// The line of the table.
    pub fn line(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let (length, breach) = match &self.without.counter {
            Some(counter) => (counter.length.to_string(), counter.breach.to_string()),
            None => ("none".into(), "no violation".into()),
        };
        let (with, without) = (self.with.states, self.without.states);
        format!("| {rule} | {mutant} | {with} | {without} | {length} | {breach} |")
    }
}

fn describe(counter: &Counter) -> String {
    let mut text = String::new();
    for (at, line) in counter.story.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {line}", at + 1);
    }
    let _ = writeln!(text, "     {}, after {} steps", counter.breach, counter.length);
    text
}

/// A wider search, with all rules.
pub struct Wide {
    name: &'static str,
    finding: Finding,
}

impl Wide {
    /// Runs all wider searches.
    pub fn search_all() -> Vec<Self> {
        WIDE.iter().map(|(name, wide)| Self { name, finding: wide.search() }).collect()
    }

    /// The reason why it fails: the rules are not sufficient.
    pub fn complaint(&self) -> Option<String> {
        match &self.finding {
            Finding { counter: Some(counter), .. } => Some(format!("{}\n{}", self.name, describe(counter))),
            Finding { exhausted: false, .. } => Some(format!("{}: the search did not end", self.name)),
            _ => None,
        }
    }

    /// The line of the table.
    pub fn line(&self) -> String {
        format!("| {} | {} |", self.name, self.finding.states)
    }
}

/// The head of the table of rules.
pub const HEAD: &str = "\
| rule | mutant | states with the rule | states until the counter-example | its length | violation |
|---|---|---|---|---|---|";

/// The head of the table of wider searches.
pub const WIDE_HEAD: &str = "| scenario | states |\n|---|---|";

/// The page for `docs/evidence`, in Markdown.
pub fn page(run_info: &RunInfo, rows: &[Row], wide: &[Wide]) -> String {
    let mut page = format!("# Model checking of the shipped core\n\n{}\n\n{INTRODUCTION}", run_info.line());
    let _ = writeln!(page, "{HEAD}");
    for row in rows {
        let _ = writeln!(page, "{}", row.line());
    }
    let _ = writeln!(page, "\n## Wider searches with all rules\n\n{WIDE_HEAD}");
    for search in wide {
        let _ = writeln!(page, "{}", search.line());
    }
    page
}

/// The shortest counter-example of each rule, step by step.
pub fn stories(rows: &[Row]) -> String {
    rows.iter().map(Row::story).collect::<Vec<_>>().join("\n")
}

const INTRODUCTION: &str = "\
For readers who want to know which rules of the protocol the search covers, and for engineers who repeat it. The search is
deterministic: every run gives the same figures.

The search runs the shipped code, not a model of it: `Acquire`, `Hold` and `Delivery` of the clients, `node::apply` and
`node::attend` of the nodes. It decides what is delivered, held back or lost, which connection breaks, which server restarts, how fast each
clock runs, and when time passes. Each scenario has budgets for these faults and is searched twice: with all rules, until
every state within the bounds has been visited; and with one rule switched off, breadth first, until the shortest
counter-example is found.

The search checks in every state:

- No two valid leases exclude each other; each client's own clock decides whether its lease is valid.
- Every fence is higher than all earlier ones.
- A lost lease stays lost.
- A lease that a majority has broken ends within a ttl, and as soon as its holder has been told and has asked. No other lease
  ends.
- An owner that a majority has retired holds the name for at most another ttl, and keeps its other names.
- When nothing is in flight and no release is owed, every vote belongs to a client.
- For the queue: after any order of the first replies, a fair schedule serves every waiter, and no waiter asks more often than
  it polls while nothing changes. The wider searches follow every fair schedule to its end, and none leaves a waiter unserved.
  A schedule is fair if time passes only when everything in flight has arrived.

On a connection that stays open, messages arrive once and in order, as in TCP. A message that is held back is late or lost, which
is the same until it arrives. A Redis server may execute the requests of a batch in another order, but not those about one name
([decision 28](../decisions/link.md#28-send-similar-requests-of-a-batch-as-one-command)), and a search is about one name.
Messages arrive twice or out of order only if a connection breaks: requests in flight then arrive at any time or never, the link
repeats the releases that it owes on the next connection, and the client may ask again. So a request may arrive after its own
release, and a release twice. [Decision 20](../decisions/evidence.md#20-search-the-shipped-state-machines-one-scenario-per-rule)
explains why nothing else is lost.

In scenarios in which votes expire by a wall clock that jumps, as on a Redis server, votes vanish early and leases may overlap.
Those searches check that fences differ, and that no server has granted the lower of two fences after the higher one. In all other
scenarios votes expire by a clock that does not jump, and a jump only makes a server look older.

A step is one choice of the search: which message is delivered, what is held back, what breaks, whether time passes. `./x model`
writes every counter-example, step by step, to `target/model/stories.txt`; `./x model --rule NAME` prints one.

The mutant of the quarantine is four milliseconds too short, because three would not show: drift takes 2 ms off a lease besides a
tenth, which makes up for 2.44 ms with clocks at their limit (2 / 0.9 x 1.1), and a restart takes one.

Three mutants lack two rules, because one rule makes up for the other. If the handshake did not belong to its connection, a
request would still name the old epoch, so this mutant does not check epochs either; the check alone is covered by an emptied
server. Without a floor, a node without a stored fence starts max_clock_skew below its clock, which is a floor, too. So in
\"it starts its fences from nothing\" and \"trust without a floor\" the clock does not count, and does not limit proposals.

Not covered: handshakes are atomic (a delayed greeting only starts later); time passes only to the moments at which something is
due and, in some scenarios, to those of a grid; a lease is broken only by its fence (the [simulation](sim.md) covers a break by
digest); other tests compare the Lua scripts with `node::apply`.

";
