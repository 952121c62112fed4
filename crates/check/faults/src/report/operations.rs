//! The part of the page about the series of ordinary operations, which have their own columns.

use std::fmt::Write as _;

use super::Row;
use crate::clock::seconds;
use crate::series::{HELD, LOST, NO_QUORUM, Series};
use crate::trial::{HEARTBEAT, TTL};

const HEAD: &str = "\
| | episodes | minutes | operations | runs | held | no quorum | lock lost | leases | overlaps | longest | outlasting | fences out of order \
| overwrites, fenced | starved | stuck | broken | violations |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

const COLUMNS: &str = "\
The columns that the tables above do not have:

- **runs**: runs of `quorlock run` that ended by themselves; **held**, **no quorum** and **lock lost** count the runs with exit
  code 75 (the lock was held), 69 and 79.
- **outlasting**: overlaps that lasted longer than one heartbeat, or began more than one heartbeat before or after the failover.
- **stuck**: episodes in which no run got the lock after the restart.
- **violations**: the findings that the series forbids. If there is one, the run fails.
- **-**: the column does not apply to the series.";

/// A row as a line for the terminal: the figures that are not zero.
pub fn summary(row: &Row) -> String {
    let findings = &row.findings;
    let figures = [
        ("episodes", row.episodes),
        ("faults", findings.faults.values().sum()),
        ("leases", findings.grants),
        ("lost", findings.losses),
        ("runs", findings.runs.values().sum()),
        ("runs: held", findings.runs_with(HELD)),
        ("runs: no quorum", findings.runs_with(NO_QUORUM)),
        ("runs: lock lost", findings.runs_with(LOST)),
        ("revived", findings.revived),
        ("overlaps", findings.overlaps),
        ("overlaps longer than a heartbeat", findings.long_overlaps),
        ("fences out of order", findings.fences_out_of_order),
        ("late", findings.late_accesses),
        ("refused by fence", findings.refused_accesses),
        ("overwrites, fenced", findings.fenced_overwrites),
        ("overwrites, bare", findings.bare_overwrites),
        ("starved", findings.starved),
        ("stuck", if row.series == Series::Restarts { findings.stuck } else { 0 }),
        ("broken", findings.broken),
        ("initialized again", findings.initialized_again),
    ];
    let shown = figures.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}"));
    let verdict = if row.is_violated() { "VIOLATED" } else { "ok" };
    let (longest, took) = (seconds(findings.longest_overlap), row.took.as_secs_f64());
    let shown = shown.collect::<Vec<_>>().join(", ");
    format!("{} {}: {verdict}: {shown}; longest overlap {longest:.2} s; took {took:.0} s", row.subject, row.series)
}

fn line(row: &Row) -> String {
    let findings = &row.findings;
    let stuck = if row.series == Series::Restarts { findings.stuck.to_string() } else { "-".into() };
    let long_overlaps = if row.series == Series::Sentinel { findings.long_overlaps.to_string() } else { "-".into() };
    let runs = |code| if row.series.runs_commands() { findings.runs_with(code).to_string() } else { "-".into() };
    let all: usize = findings.runs.values().sum();
    format!(
        "| {} | {} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {:.2} s | {long_overlaps} | {} | {} | {} | {stuck} | {} | {} |",
        row.series,
        row.episodes,
        row.took.as_secs_f64() / 60.0,
        findings.faults.values().sum::<usize>(),
        if row.series.runs_commands() { all.to_string() } else { "-".into() },
        runs(HELD),
        runs(NO_QUORUM),
        runs(LOST),
        findings.grants,
        findings.overlaps,
        seconds(findings.longest_overlap),
        findings.fences_out_of_order,
        findings.fenced_overwrites,
        findings.starved,
        findings.broken,
        row.series.violations(findings),
    )
}

/// Appends the section about ordinary operations to the page.
pub(super) fn section(page: &mut String, rows: &[Row]) {
    let (ttl, heartbeat) = (TTL.as_secs(), HEARTBEAT.as_secs());
    let _ = writeln!(
        page,
        "\n## Ordinary operations\n\n\
         Four hosts use three nodes through the real `quorlock run` with a ttl of {ttl} s. The command of each run records its\n\
         beginning, its steps and its fence. The judge counts the command as holding the lock from its first to its last step. The\n\
         *wrapper* is the `quorlock run` process, which holds the lock. The *guard* is a second process of each run: it kills the\n\
         command if the wrapper is stopped or killed. The series `sentinel` uses clients of the library instead. In this series\n\
         clients may lose locks, because a failover can cause that.\n\n\
         - **operations**: `redis-cli --rdb` backs up one node or a majority; replicas attach and detach. No run may lose its lock\n  \
         (exit 79) or find no quorum (exit 69).\n\
         - **processes**: the wrapper or the guard gets SIGSTOP or SIGKILL, or first the guard and then the wrapper gets SIGKILL.\n  \
         No two commands may be alive at a time.\n\
         - **stopped**: wrapper and guard get SIGSTOP together, which breaks [A2](../guarantees.md#assumptions). Two commands may be\n  \
         alive at a time, but the register that checks fences must not be overwritten.\n\
         - **restarts**: two of three nodes restart while only short runs of `quorlock run --no-wait` use them. A later run must get\n  \
         the lock; if none does, the hosts are **stuck**.\n\
         - **sentinel**: the sentinel that clients listen to restarts or falls silent, and then a failover replaces its master,\n  \
         which is still alive. No overlap may last longer than one heartbeat ({heartbeat} s), and fences must stay in order.\n\n\
         {HEAD}"
    );
    for row in rows.iter().filter(|row| !Series::SHARED.contains(&row.series) && row.episodes > 0) {
        let _ = writeln!(page, "{}", line(row));
    }
    let _ = writeln!(page, "\n{COLUMNS}");
}
