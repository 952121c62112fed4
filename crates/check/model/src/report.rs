//! What the searches came to: tables for the page, and stories.

use std::fmt::Write as _;

use crate::run_info::RunInfo;
use crate::scenario::{Scenario, WIDE};
use crate::search::{Counter, Finding};

/// One rule: the search with it, and the search without.
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

    /// What is wrong with it: the rules are not enough, or this one is not needed.
    pub fn complaint(&self) -> Option<String> {
        let name = self.scenario.name;
        if let Some(counter) = &self.with.counter {
            return Some(format!("{name}: with all rules in force\n{}", told(counter)));
        }
        if !self.with.exhausted {
            return Some(format!("{name}: there is no end to the search"));
        }
        self.without.counter.is_none().then(|| format!("{name}: the mutant survives"))
    }

    /// What happens without the rule.
    pub fn story(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let ending = self.without.counter.as_ref().map_or_else(|| "nothing happens\n".into(), told);
        format!("rule: {rule}\nmutant: {mutant}\n{ending}")
    }

    /// A line of the table.
    pub fn line(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let (length, breach) = match &self.without.counter {
            Some(counter) => (counter.length.to_string(), counter.breach.to_string()),
            None => ("none".into(), "the mutant survives".into()),
        };
        let (with, without) = (self.with.states, self.without.states);
        format!("| {rule} | {mutant} | {with} | {without} | {length} | {breach} |")
    }
}

fn told(counter: &Counter) -> String {
    let mut text = String::new();
    for (at, line) in counter.story.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {line}", at + 1);
    }
    let _ = writeln!(text, "     {}, after {} steps", counter.breach, counter.length);
    text
}

/// A wider search, with all rules in force.
pub struct Wide {
    name: &'static str,
    finding: Finding,
}

impl Wide {
    /// Searches all of them.
    pub fn search_all() -> Vec<Self> {
        WIDE.iter().map(|(name, wide)| Self { name, finding: wide.search() }).collect()
    }

    /// What is wrong with it: the rules are not enough.
    pub fn complaint(&self) -> Option<String> {
        match &self.finding {
            Finding { counter: Some(counter), .. } => Some(format!("{}\n{}", self.name, told(counter))),
            Finding { exhausted: false, .. } => Some(format!("{}: there is no end to the search", self.name)),
            _ => None,
        }
    }

    /// A line of its table.
    pub fn line(&self) -> String {
        format!("| {} | {} |", self.name, self.finding.states)
    }
}

/// The head of the table.
pub const HEAD: &str = "\
| rule | mutant | states with the rule, all seen | states until the counter-example | its length | what goes wrong |
|---|---|---|---|---|---|";

/// The head of the table of wider searches.
pub const WIDE_HEAD: &str = "| what may happen | states, all seen |\n|---|---|";

/// The page for `docs/evidence`.
pub fn page(run_info: &RunInfo, rows: &[Row], wide: &[Wide]) -> String {
    let mut page = format!("# The shipped core, model-checked\n\n{}\n\n{INTRODUCTION}", run_info.line());
    let _ = writeln!(page, "{HEAD}");
    for row in rows {
        let _ = writeln!(page, "{}", row.line());
    }
    let _ = writeln!(page, "\n## Wider searches, with all rules in force\n\n{WIDE_HEAD}");
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
The same comes of it every time: there is no chance in a search.

What is searched is not a model of the code but the code: `Acquire`, `Hold` and `Delivery` as they run in clients, `node::apply`
and `node::attend` as they run in nodes. The search decides what is delivered, held back or lost, which connection breaks, which
server restarts, whose clock runs at which rate, and when time passes. Each scenario says how often each of these may happen,
and is searched twice: with all rules in force, until every state within the bounds has been seen; and with one rule switched
off, breadth first, until the shortest counter-example is found.

What has to be true in every state: no two leases are valid that exclude each other, each judged by its own client's clock;
every fence is above all that were handed out before; a lease that was lost stays lost; a lease that a majority has broken
ends within a ttl, and as soon as its holder has been told and has asked, and no other than the one that was named; an owner
that a majority has retired holds for no longer than a ttl after that, and holds other names as before; and when
nothing is under way and nothing is owed, no vote stands that nobody has. For the line: from every state that is reached in any order of the first
answers, a fair schedule serves everyone, and nobody asks more often than its polls say while nothing changes. The wider
searches follow every fair schedule to its end: none leaves anybody waiting. Fair is one on which time passes only when
everything under way has arrived.

On a connection that stays, messages arrive once and in order, as TCP has it: one that is held back is late, or lost, which is
the same until it arrives. What goes to a Redis server as one batch may be carried out in another order, but not what is about
one name ([decision 28](../decisions/link.md#28-send-similar-requests-of-a-batch-as-one-command)), and a search is about one name. What comes twice
or out of order does so where connections break. What was under way on them is a stray: it arrives whenever the search says,
or never. Meanwhile the link sends the releases that it owes again on the next connection, and the client may ask anew. So a
request may arrive behind its own release, and a release twice. That nothing is lost by itself is part of [decision
20](../decisions/evidence.md#20-search-the-shipped-state-machines-one-scenario-per-rule).

Where a wall clock jumps and votes lapse by it, as on a Redis server, votes vanish before their time and two may hold: those
searches judge that fences differ, and that no server has granted the lower of two after the higher one. In all others votes
lapse by a clock that does not jump, and a jump only makes a server look older.

A step is one choice of the search: who is heard next, what is held back, what breaks, whether time passes. `./x model` writes every
counter-example, step by step, to `target/model/stories.txt`; `./x model --rule NAME` prints one.

Of the quarantine four milliseconds are taken, since three would not show: the 2 ms that the drift takes off a lease besides
a tenth of it make up for 2.44, by clocks at their limit (2 / 0.9 x 1.1), and a restart takes one.

Three mutants lack two rules, since one of the two makes up for the other. Without the handshake's tie to its connection a
request would still name another epoch, so that nobody checks that either; without the check alone, a server that is emptied
shows it. Without a floor, a node that has no fence stored begins max_clock_skew below its clock, which is a floor, too: in
\"it begins its fences anew\" and \"trust without a floor\" the clock counts for nothing either, nor does it bound proposals.

Not covered: handshakes are atomic (a greeting that is delayed only begins later); time passes to the moments at which
something is due and, in some scenarios, to those of a grid; a lease is broken by its fence only, as it is asked for first (the
second question, by a digest, is in the [simulation](sim.md)); the Lua scripts are compared with `node::apply` elsewhere.

";
