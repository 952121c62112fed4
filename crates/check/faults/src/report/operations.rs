//! The section of the page about the series of ordinary operations, whose table has other columns.

use std::fmt::Write as _;

use super::Row;
use crate::clock::seconds;
use crate::series::{HELD, LOST, NO_QUORUM, Series};
use crate::trial::{HEARTBEAT, TTL};

const TABLE_HEADER: &str = "\
| | episodes | minutes | faults | runs | held | no quorum | lock lost | leases | overlaps | longest overlap | unexcused overlaps | fences out of order \
| overwrites, fenced | starved waiters | stuck | broken clients | violations |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

const COLUMNS: &str = "\
The columns that the tables above do not have:

- **faults**: the operations and signals described above.
- **runs**: `quorlock run` processes that exited, and were not killed. **held**, **no quorum** and **lock lost** count those with
  exit code 75 (the lock was held), 69 and 79.
- **unexcused overlaps**: overlaps that lasted longer than one heartbeat, or began more than one heartbeat before or after the
  failover.
- **stuck**: episodes in which no run got the lock after the restart of the nodes.
- **violations**: the findings that the series forbids. If there is one, the test fails.
- **-**: the column does not apply to the series.";

/// Summarizes a row in one line for the terminal. Shows only figures that are not zero.
pub fn summary(row: &Row) -> String {
    let findings = &row.findings;
    let figures = [
        ("episodes", row.episodes),
        ("faults", findings.faults.values().sum()),
        ("leases", findings.grants),
        ("lost", findings.losses),
        ("runs", findings.exit_codes.values().sum()),
        ("runs: held", findings.runs_with(HELD)),
        ("runs: no quorum", findings.runs_with(NO_QUORUM)),
        ("runs: lock lost", findings.runs_with(LOST)),
        ("revived", findings.revived_leases),
        ("overlaps", findings.overlaps),
        ("unexcused overlaps", findings.unexcused_overlaps),
        ("fences out of order", findings.fences_out_of_order),
        ("late accesses", findings.late_accesses),
        ("refused accesses", findings.refused_accesses),
        ("overwrites, fenced", findings.fenced_overwrites),
        ("overwrites, bare", findings.bare_overwrites),
        ("starved waiters", findings.starved_waiters),
        ("stuck", if row.series == Series::Restarts { findings.stuck_histories } else { 0 }),
        ("broken clients", findings.broken_clients),
        ("initialized again", findings.initialized_again),
    ];
    let figures = figures.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    let verdict = if row.is_violated() { "VIOLATED" } else { "ok" };
    let (longest, duration) = (seconds(findings.longest_overlap), row.duration.as_secs_f64());
    let figures = figures.collect::<Vec<_>>().join(", ");
    format!(
        "{} {}: {verdict}: {figures}; longest overlap {longest:.2} s; took {duration:.0} s",
        row.subject, row.series
    )
}

/// A row as a line of the Markdown table.
fn line(row: &Row) -> String {
    let findings = &row.findings;
    let stuck = if row.series == Series::Restarts { findings.stuck_histories.to_string() } else { "-".into() };
    let unexcused = if row.series == Series::Sentinel { findings.unexcused_overlaps.to_string() } else { "-".into() };
    let runs_with =
        |code| if row.series.uses_quorlock_run() { findings.runs_with(code).to_string() } else { "-".into() };
    let runs: usize = findings.exit_codes.values().sum();
    format!(
        "| {} | {} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {:.2} s | {unexcused} | {} | {} | {} | {stuck} | {} | {} |",
        row.series,
        row.episodes,
        row.duration.as_secs_f64() / 60.0,
        findings.faults.values().sum::<usize>(),
        if row.series.uses_quorlock_run() { runs.to_string() } else { "-".into() },
        runs_with(HELD),
        runs_with(NO_QUORUM),
        runs_with(LOST),
        findings.grants,
        findings.overlaps,
        seconds(findings.longest_overlap),
        findings.fences_out_of_order,
        findings.fenced_overwrites,
        findings.starved_waiters,
        findings.broken_clients,
        row.series.violations(findings),
    )
}

/// Appends the section about ordinary operations to the page.
pub(super) fn write_operations(page: &mut String, rows: &[Row]) {
    let (ttl, heartbeat) = (TTL.as_secs(), HEARTBEAT.as_secs());
    let _ = writeln!(
        page,
        "\n## Ordinary operations\n\n\
         Four hosts use three nodes through the real `quorlock run` with a ttl of {ttl} s. The *command* that each `quorlock run` starts\n\
         records its beginning, its steps and its fence. For the judge, it holds the lock from its first to its last step. The *wrapper*\n\
         is the `quorlock run` process itself, which holds the lock. The *guard* is another process: it kills the command if the wrapper\n\
         is stopped or killed. Only the series `sentinel` uses clients of the library. These clients may lose locks, because a failover\n\
         can cause that.\n\n\
         - **operations**: `redis-cli --rdb` backs up one node or a majority; replicas attach and detach. No run may lose its lock\n  \
         (exit 79) or find no quorum (exit 69).\n\
         - **processes**: the wrapper or the guard gets SIGSTOP or SIGKILL, or first the guard and then the wrapper gets SIGKILL.\n  \
         No two commands may be alive at a time.\n\
         - **stopped**: wrapper and guard get SIGSTOP together, which breaks [A2](../guarantees.md#assumptions). Two commands may be\n  \
         alive at a time, but the fenced register must not be overwritten.\n\
         - **restarts**: two of three nodes restart while only short runs of `quorlock run --no-wait` use them. A later run must get\n  \
         the lock; if none does, the hosts are **stuck**.\n\
         - **sentinel**: the sentinel that clients listen to restarts or falls silent. Then it makes a replica the master while the old\n  \
         master is still alive (a failover). No overlap may last longer than one heartbeat ({heartbeat} s), and fences must stay in order.\n\n\
         {TABLE_HEADER}"
    );
    for row in rows.iter().filter(|row| !Series::SHARED.contains(&row.series) && row.episodes > 0) {
        let _ = writeln!(page, "{}", line(row));
    }
    let _ = writeln!(page, "\n{COLUMNS}");
}
