//! The results of the searches: tables for the page, and counter-examples.

use std::fmt::Write as _;

use crate::run_info::RunInfo;
use crate::scenario::{Scenario, WIDE_SEARCHES};
use crate::search::{CounterExample, SearchResult};

/// The results for one rule: a search with all rules, and a search without this rule.
pub struct RuleResult {
    scenario: Scenario,
    with_rule: SearchResult,
    without_rule: SearchResult,
}

impl RuleResult {
    /// Searches the scenario with all rules, and without its rule.
    pub fn search(scenario: &Scenario) -> Self {
        let (with_rule, without_rule) = (scenario.search.search_with_rule(), scenario.search.search_without_rule());
        Self { scenario: *scenario, with_rule, without_rule }
    }

    /// The reason why this result is a failure, if it is one: a violation with all rules, an unfinished search with all
    /// rules, or no violation without the rule.
    pub fn failure(&self) -> Option<String> {
        let name = self.scenario.name;
        if let Some(counter_example) = &self.with_rule.counter_example {
            return Some(format!("{name}: a violation with all rules in force\n{}", describe(counter_example)));
        }
        if !self.with_rule.is_complete {
            return Some(format!("{name}: the search did not visit every state"));
        }
        self.without_rule.counter_example.is_none().then(|| format!("{name}: no violation without the rule"))
    }

    /// The counter-example of the search without the rule, step by step.
    pub fn trace(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let steps = self.without_rule.counter_example.as_ref().map_or_else(|| "no violation\n".into(), describe);
        format!("rule: {rule}\nmutant: {mutant}\n{steps}")
    }

    /// The row of the table, in Markdown.
    pub fn table_row(&self) -> String {
        let Scenario { rule, mutant, .. } = self.scenario;
        let (length, violation) = match &self.without_rule.counter_example {
            Some(counter_example) => (counter_example.length.to_string(), counter_example.violation.to_string()),
            None => ("none".into(), "no violation".into()),
        };
        let (with_rule, without_rule) = (self.with_rule.states, self.without_rule.states);
        format!("| {rule} | {mutant} | {with_rule} | {without_rule} | {length} | {violation} |")
    }
}

/// Describes a counter-example step by step, with the violation at the end.
pub(crate) fn describe(counter_example: &CounterExample) -> String {
    let mut text = String::new();
    for (at, line) in counter_example.trace.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {line}", at + 1);
    }
    let _ = writeln!(text, "     {}, after {} steps", counter_example.violation, counter_example.length);
    text
}

/// The result of a wider search, with all rules.
pub struct WideResult {
    name: &'static str,
    result: SearchResult,
}

impl WideResult {
    /// Runs all wider searches.
    pub fn search_all() -> Vec<Self> {
        WIDE_SEARCHES.iter().map(|(name, search)| Self { name, result: search.run() }).collect()
    }

    /// The reason why this result is a failure, if it is one: a violation, or an unfinished search.
    pub fn failure(&self) -> Option<String> {
        match &self.result {
            SearchResult { counter_example: Some(counter_example), .. } => {
                Some(format!("{}\n{}", self.name, describe(counter_example)))
            }
            SearchResult { is_complete: false, .. } => {
                Some(format!("{}: the search did not visit every state", self.name))
            }
            _ => None,
        }
    }

    /// The row of the table, in Markdown.
    pub fn table_row(&self) -> String {
        format!("| {} | {} |", self.name, self.result.states)
    }
}

/// The header of the table of rules.
pub const RULES_HEAD: &str = "\
| rule | mutant | states with the rule | states until the counter-example | steps of the counter-example | violation |
|---|---|---|---|---|---|";

/// The header of the table of wider searches.
pub const WIDE_HEAD: &str = "| scenario | states |\n|---|---|";

/// The page for `docs/evidence`, in Markdown.
pub fn page(run_info: &RunInfo, rules: &[RuleResult], wide: &[WideResult], roster_section: &str) -> String {
    let mut page =
        format!("# Model checking of the shipped core\n\n{READERS}\n\n{}\n\n{INTRODUCTION}", run_info.line());
    let _ = writeln!(page, "{RULES_HEAD}");
    for result in rules {
        let _ = writeln!(page, "{}", result.table_row());
    }
    let _ = writeln!(page, "\n## Wider searches with all rules\n\n{WIDE_HEAD}");
    for result in wide {
        let _ = writeln!(page, "{}", result.table_row());
    }
    page + roster_section
}

/// The shortest counter-example of each rule, step by step.
pub fn traces(rules: &[RuleResult]) -> String {
    rules.iter().map(RuleResult::trace).collect::<Vec<_>>().join("\n")
}

const READERS: &str = "\
For readers who want to know which rules of the protocol the search covers, and for engineers who repeat the search. It is
deterministic: every run of `./x model` gives the same figures.";

const INTRODUCTION: &str = "\
The search runs the shipped code, not a model of it: the clients' `Acquire`, `Hold` and `Delivery`, and the nodes' `node::apply` and
`node::attend`. The search decides which messages are delivered, held back or lost, which connection breaks, which server restarts,
how fast each clock runs, and when time passes. A *scenario* has one to three clients, and limits how often each fault may occur. A
*state* covers all clients, nodes, clocks and messages in flight at one moment. The search explores each scenario twice:
first with all rules, until it has visited every state within the limits; then with one rule switched off (a *mutant* of the
protocol), breadth first, until it has found the shortest *counter-example*, a list of steps to a violation.

The search checks in every state:

- Two leases that exclude each other are never valid at the same time. Each client's own clock decides whether its lease is valid.
- Every fence is higher than all earlier ones.
- A lost lease stays lost.
- After a majority has broken a lease, the lease is valid for at most one more ttl. The lease ends earlier if its holder receives
  the message about the break: the holder then asks the nodes, and loses the lease when the nodes have replied. A break ends no
  other lease.
- After a majority has retired an owner, the owner holds the name for at most one more ttl, and keeps its other names.
- If no client holds or wants the lock, no message is in flight and every release is acknowledged, then no node has a vote.

Other searches check the queue. A *schedule* is an order of events. It *serves* a waiter if the waiter gets the lock, and it is *fair*
if time passes only when every message in flight has arrived. The scenarios try every order of the first replies, and continue each
order with one fair schedule, which must serve every waiter. While a lease is held and nothing changes, a waiter sends no requests
except its polls. The wider searches follow every fair schedule to its end, and each schedule must serve the waiters.

On a connection that stays open, messages arrive once and in order, as in TCP. The search may hold a message back until the scenario
ends, which looks like a loss to the other side. A Redis server may execute the requests of a batch in another order, but keeps the order
of requests about one name ([decision 28](../decisions/link.md#28-send-similar-requests-of-a-batch-as-one-command)), and each search
is about one name.

Messages arrive twice or out of order only if a connection breaks. Requests in flight then arrive at any time or never. The client
repeats its unacknowledged releases on the next connection, and may repeat its acquire. So an acquire may arrive after the release of
its attempt, and a release may arrive twice. A single message is never lost, because only a whole connection breaks ([decision
20](../decisions/evidence.md#20-model-check-the-shipped-state-machines-one-scenario-per-rule)). Only the searches of queues and
semaphores have no connections, and lose single messages.

In some scenarios votes expire by a wall clock that jumps, as on a Redis server. Votes then expire early, and leases may overlap. In
these scenarios the search checks only that fences differ, and that no server has granted the lower of two fences after the higher
one. In all other scenarios votes expire by a clock that does not jump. A jump of the wall clock then only makes a server compute a
longer uptime, which one mutant takes for the length of a quarantine.

A step is one choice of the search: deliver a message, hold one back, cause a fault, or let time pass. `./x model`
writes every counter-example, step by step, to `target/model/traces.txt`; `./x model --rule NAME` prints one.

Words in the table, besides those of the [glossary](../../ARCHITECTURE.md#words):

- *Quarantine*: the time in which a node that lost its memory must not vote. *max_ttl* is the longest ttl that the cluster allows.
- *Drift*: how far the rates of two clocks may differ. A client subtracts 10 % of the ttl and 2 ms for it.
- *Detached lease*: a lease as text, which any process can extend and release. An *extension* renews it.
- *Plain lock*: a lock without a fence and a queue, with *plain votes*.
- *Ticket*: a waiter's position in the queue. The lowest ticket is first.
- *Floor*: the fence at or below which a node that lost its memory grants nothing.
- *Incarnation*: the life of a node's memory, until the node loses it. The *epoch* is its number.
- *Tombstone*: a node's record that an attempt is over. The node refuses later requests of that attempt.
- *Entry*: one holder's use of a shared or reentrant lock. A lock can have several entries at a time.

In one mutant the quarantine ends 4 ms too early, because ending it only 3 ms too early causes no violation. The reason is a margin of
3.44 ms. For drift, a client subtracts 2 ms from a lease in addition to 10 % of the ttl. With clock rates at their limit, these 2 ms
make up for 2.44 ms of quarantine (2 / 0.9 x 1.1). The restart of the server takes another 1 ms.

Three mutants lack two rules each, because each of the two rules prevents the violation on its own:

- The mutant without a handshake does not check epochs either. With the check, a request would still name the old epoch, and the node
  would refuse it. The scenario of an emptied server covers the epoch check alone.
- A node that has no floor and no stored fence starts its fences at its clock minus max_clock_skew, which has the effect of a floor.
  So the two mutants without a floor also ignore the node's clock, both for this start and as the limit of proposed fences.

Not covered:

- Delays within a handshake: in the search a handshake is a single step, which can happen late.
- Arbitrary times: time passes only to the moments at which a timer is due or a vote expires and, in some scenarios, to multiples of a
  fixed interval.
- Breaking a lease by its digest: the search breaks leases only by their fence. The [simulation](sim.md) covers digests.
- The Lua scripts. Other tests compare them with `node::apply`.

";
