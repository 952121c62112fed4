//! The series of ordinary operations, which have columns of their own.

use std::fmt::Write as _;

use super::Row;
use crate::clock::seconds;
use crate::series::{HELD, LOST, NO_QUORUM, Series};
use crate::trial::{HEARTBEAT, TTL};

const HEAD: &str = "\
| | episodes | minutes | operations | runs | held | no quorum | lock lost | leases | overlaps | longest | outlasting | fences out of order \
| harmed, fenced | starved | stuck | broken | violations |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// One line about a row, for the terminal: the figures that are not zero.
pub fn summary(row: &Row) -> String {
    let found = &row.found;
    let figures = [
        ("episodes", row.episodes),
        ("faults", found.faults.values().sum()),
        ("leases", found.grants),
        ("lost", found.losses),
        ("runs", found.runs.values().sum()),
        ("runs: held", found.runs_with(HELD)),
        ("runs: no quorum", found.runs_with(NO_QUORUM)),
        ("runs: lock lost", found.runs_with(LOST)),
        ("revived", found.revived),
        ("overlaps", found.overlaps),
        ("overlaps that outlast a heartbeat", found.outlasting),
        ("fences out of order", found.disorder),
        ("late", found.late),
        ("refused by fence", found.refused),
        ("harmed, fenced", found.fenced_harmed),
        ("harmed, bare", found.bare_harmed),
        ("starved", found.starved),
        ("stuck", if row.series == Series::Restarts { found.stuck } else { 0 }),
        ("broken", found.broken),
        ("declared", found.declared),
    ];
    let shown = figures.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}"));
    let verdict = if row.is_violated() { "VIOLATED" } else { "good" };
    let (longest, took) = (seconds(found.longest_overlap), row.took.as_secs_f64());
    let shown = shown.collect::<Vec<_>>().join(", ");
    format!("{} {}: {verdict}: {shown}; longest overlap {longest:.2} s; took {took:.0} s", row.subject, row.series)
}

fn line(row: &Row) -> String {
    let found = &row.found;
    let stuck = if row.series == Series::Restarts { found.stuck.to_string() } else { "-".into() };
    let outlasting = if row.series == Series::Sentinel { found.outlasting.to_string() } else { "-".into() };
    let runs = |code| if row.series.runs_commands() { found.runs_with(code).to_string() } else { "-".into() };
    let all: usize = found.runs.values().sum();
    format!(
        "| {} | {} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {:.2} s | {outlasting} | {} | {} | {} | {stuck} | {} | {} |",
        row.series,
        row.episodes,
        row.took.as_secs_f64() / 60.0,
        found.faults.values().sum::<usize>(),
        if row.series.runs_commands() { all.to_string() } else { "-".into() },
        runs(HELD),
        runs(NO_QUORUM),
        runs(LOST),
        found.grants,
        found.overlaps,
        seconds(found.longest_overlap),
        found.disorder,
        found.fenced_harmed,
        found.starved,
        found.broken,
        row.series.violations(found),
    )
}

/// The section of the page.
pub(super) fn section(page: &mut String, rows: &[Row]) {
    let (ttl, heartbeat) = (TTL.as_secs(), HEARTBEAT.as_secs());
    let _ = writeln!(
        page,
        "\n## Ordinary operations\n\n\
         Three nodes, and four hosts that use them through the real `quorlock run` with a ttl of {ttl} s. The command of a\n\
         run writes down when it begins, each of its steps and its fence; it counts as holding the lock from its first to its\n\
         last sign of life. `sentinel` has clients of the library instead, and is judged apart: a failover may lose locks.\n\n\
         - **operations**: `redis-cli --rdb` of one node or a majority, replicas that attach and detach. No run may lose its\n  \
         lock (exit 79) or find no quorum (exit 69).\n\
         - **processes**: SIGSTOP and SIGKILL of the wrapper that holds the lock, of its guard, and of first one and then the\n  \
         other. No two commands may be alive at a time.\n\
         - **stopped**: SIGSTOP of wrapper and guard together, which breaks A2. Two commands may be alive at a time, but the\n  \
         register that checks fences must not be harmed.\n\
         - **restarts**: two of three nodes restart while only short `quorlock run --no-wait` use them. A run must get the lock\n  \
         again; if none does, the fleet is stuck.\n\
         - **sentinel**: the sentinel that clients listen to restarts or falls silent, and then its master is replaced while\n  \
         it is alive. No overlap may outlast one heartbeat ({heartbeat} s), and no fence may be lower than an earlier one.\n\n\
         {HEAD}"
    );
    for row in rows.iter().filter(|row| !Series::SHARED.contains(&row.series) && row.episodes > 0) {
        let _ = writeln!(page, "{}", line(row));
    }
}
