//! Writes the page about all episodes of a run of the harness.

mod operations;
mod run_info;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::seconds;
use crate::judge::Findings;
use crate::plan::{Assumptions, CLIENTS, FaultKind, Persistence, templates};
use crate::run::EPISODE;
use crate::series::Series;
use crate::subject::Subject;
use crate::task::{MAX_CLOCK_SKEW, MAX_TTL, NAMES, TTL};
use crate::worker::PRIVATE_NAMES;

pub use operations::summary;
use operations::write_operations;
pub use run_info::{Environment, RunInfo};

/// The maximum number of findings that the page describes for each row.
const SHOWN_MAX: usize = 3;

/// The findings of one subject in one series.
#[derive(Clone, Debug)]
pub struct Row {
    /// The library.
    pub subject: Subject,
    /// The series of the episodes.
    pub series: Series,
    /// The number of episodes.
    pub episodes: usize,
    /// The total duration of the episodes.
    pub duration: Duration,
    /// The findings of all episodes, summed.
    pub findings: Findings,
}

impl Row {
    /// A row without episodes.
    pub fn new(subject: Subject, series: Series) -> Self {
        Self { subject, series, episodes: 0, duration: Duration::ZERO, findings: Findings::default() }
    }

    /// Adds an episode.
    pub fn add(&mut self, duration: Duration, findings: Findings) {
        self.episodes += 1;
        self.duration += duration;
        self.findings.add(findings);
    }

    /// Whether a guarantee was violated.
    pub fn is_violated(&self) -> bool {
        self.episodes > 0 && self.series.violations(&self.findings) > 0
    }

    /// The row as a line of the Markdown table.
    pub fn line(&self) -> String {
        let Findings { grants, losses, revived_leases, overlaps, fences_out_of_order, starved_waiters, writes, .. } =
            &self.findings;
        let Findings {
            broken_clients,
            late_accesses,
            refused_accesses,
            fenced_overwrites,
            bare_overwrites,
            initialized_again,
            ..
        } = &self.findings;
        let faults: usize = self.findings.faults.values().sum();
        let has_fences = self.subject.has_fences();
        let if_fenced = |count: &usize| if has_fences { count.to_string() } else { "n/a".into() };
        format!(
            "| {} | {} | {:.1} | {faults} | {grants} | {losses} | {revived_leases} | {overlaps} | {:.2} s | {} | {writes} | {late_accesses} | {} | {} | \
             {bare_overwrites} | {starved_waiters} | {broken_clients} | {initialized_again} | {:.1} s |",
            self.subject,
            self.episodes,
            self.duration.as_secs_f64() / 60.0,
            seconds(self.findings.longest_overlap),
            if_fenced(fences_out_of_order),
            if_fenced(refused_accesses),
            if_fenced(fenced_overwrites),
            seconds(self.findings.longest_wait),
        )
    }
}

/// The header of the table.
pub const TABLE_HEADER: &str = "\
| | episodes | minutes | faults | leases | lost | revived | overlaps | longest overlap | fences out of order | writes | late accesses | refused accesses \
| overwrites, fenced | overwrites, bare | starved waiters | broken clients | initialized again | longest wait |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The whole page.
pub fn page(run_info: &RunInfo, rows: &[Row]) -> String {
    let mut page = introduction(run_info);
    for (series, title, text) in
        [(Series::Within, "Within the assumptions", WITHIN), (Series::Beyond, "Beyond the assumptions", BEYOND)]
    {
        let _ = writeln!(page, "\n## {title}\n\n{text}\n\n{TABLE_HEADER}");
        for row in rows.iter().filter(|row| row.series == series && row.episodes > 0) {
            let _ = writeln!(page, "{}", row.line());
        }
    }
    let _ = writeln!(page, "\n{COLUMNS}\n\n{}", shared_commands(rows));
    write_operations(&mut page, rows);
    page.push_str("\n## Findings in the controls\n\n");
    for line in control_findings(rows) {
        let _ = writeln!(page, "- {line}");
    }
    write_faults(&mut page, rows);
    write_findings(&mut page, rows);
    page
}

fn introduction(run_info: &RunInfo) -> String {
    let RunInfo { environment, command, duration, versions, seed } = run_info;
    let Environment { date, commit, server, system } = environment;
    let (minutes, episode) = (format!("{:.1}", duration.as_secs_f64() / 60.0), EPISODE.as_secs());
    let (name_count, names) = (NAMES.len(), NAMES.map(|name| format!("`{name}`")).join(" and "));
    let mut text = format!(
        "# Fault injection with real servers and clients\n\n\
         For readers who want to see whether quorlock keeps its guarantees while servers, networks and clients fail, and whether\n\
         this test would notice if it did not. Written by `{command}` on {date}, commit {commit};\n\
         do not edit. The test took {minutes} minutes. {server}; {system}.\n\n\
         Each episode starts 3 or 5 Redis servers and {CLIENTS} client processes. Two networks lie between them, and half of the\n\
         clients use each. The clients compete for {name_count} names, {names} (ttl {TTL:?}, maximum ttl {MAX_TTL:?}, max_clock_skew {MAX_CLOCK_SKEW:?}). For {episode} seconds\n\
         the test injects the faults that the episode's seed chooses. Then it ends all faults and lets every client finish. All\n\
         processes read one monotonic clock and report their events to one history. The judge reads only that history. A lease counts\n\
         as valid from the moment its holder saw it until its release, or until the end of the validity that its library reported.\n\n\
         Each name has two *registers*: the *fenced* register checks fences, and the *bare* register does not. While a client holds a\n\
         lease, it reads both registers of the name, pauses, and writes them back.\n\n\
         Whenever a client of quorlock acquires one of the {name_count} names, it also acquires {PRIVATE_NAMES} private names, for which no other client\n\
         competes. The judge ignores the private names. Requests for several names can share one Redis command, as under load.\n\n\
         Each seed, from {seed} on, gives one plan of faults. The test runs the plan with quorlock, and with a *control*: a lock\n\
         library in which it should find violations. Each seed uses another control. The libraries are:\n\n"
    );
    for (subject, version) in versions {
        let _ = writeln!(text, "- **{subject}**: {version}");
    }
    text.push_str(CONTROLS);
    text
}

const CONTROLS: &str = "
The controls (*trusting*, *rslock* and *node-redlock*) show what this test can detect: a test that finds nothing in any
library proves nothing. rslock and node-redlock implement Redlock as Redis describes it. That description has a rule for
operators: a server that has lost its data must stay offline for the maximum ttl. In this test no operator follows the rule.
(quorlock does not need the rule, because a server in quarantine does not vote.) All other choices of this test favour the
controls.

Not covered: locks that are not exclusive (the simulation covers them), more than one machine, and disks that report writes
that they have not made.
";

const WITHIN: &str = "\
Servers are killed and restart with or without their files. They are stopped, flushed, run out of memory, are reconfigured,
get a slow disk, and have their wall clocks stepped back, or ahead within the allowed drift. Networks reset
connections, close one direction, refuse connections, and delay, lose, hold back and drop messages. Clients are killed.
In quorlock's row, revived leases, overlaps, fences out of order, overwrites in the fenced register, starved waiters and
broken clients must be 0, or the test fails. Late accesses may occur: a busy machine can pause a client until its lease has
ended. If the next holder has used the fenced register by then, the register refuses the paused client's fence.";

const BEYOND: &str = "\
In addition to the faults above, clients are stopped for longer than their leases are valid, so that
[A2](../guarantees.md#assumptions) fails, or the wall clocks of a majority jump ahead by nearly a ttl and back, so that
[A1](../guarantees.md#assumptions) fails. Leases may now overlap, and accesses may be late. In quorlock's row, revived
leases, fences out of order, overwrites in the fenced register and broken clients must still be 0, or the test fails.";

const COLUMNS: &str = "\
The columns:

- **leases**: leases that were valid at some time. **lost** counts the leases that ended before their release. The client
  polls each lost lease for another ttl, and **revived** counts the lost leases that became valid again.
- **overlaps**: leases that began while an earlier lease of the same name was valid.
- **fences out of order**: leases with a fence that is not higher than the fence of an earlier lease of the same name. Beyond
  the assumptions, a lease counts as earlier only if it was granted before the other was requested.
- **writes**: all writes to the registers. **late accesses** counts the reads and writes of clients whose lease had ended, and
  **refused accesses** the reads and writes whose fence the fenced register refused, because it had seen a higher one.
- **overwrites**: writes to the **fenced** or **bare** register that replaced a value that the client had not read.
- **starved waiters**: clients that still waited for a lock 30 seconds after the end of all faults.
- **broken clients**: clients that crashed, exited too early, or printed an invalid event.
- **initialized again**: clusters that an operator had to initialize again, because a majority of the nodes had lost their
  memory.
- **longest wait**: the longest wait of a client that got the lock. Faults may have lengthened it.
- **n/a**: the library has no fences.";

const FAULTS: &str = "\
- Servers: **kill** and **wipe** send SIGKILL, and the server restarts from its files (kill) or empty (wipe). One fault can
  hit several servers: the rows *servers killed* count the servers that **kill** hit, by their persistence. **freeze** sends
  SIGSTOP, later SIGCONT. **flush** is FLUSHALL, **forget-scripts** is SCRIPT FLUSH. **fill-memory** makes the server refuse
  writes, because its memory is full. **allow-eviction** sets an eviction policy. **slow-disk** delays each sync of the
  append-only file. **step-back** and **step-ahead** step the wall clock back, or ahead within the allowed drift. **jump-ahead**
  moves the wall clocks of a majority ahead by nearly a ttl, and back. **backup** is `redis-cli --rdb`. **replica** attaches a
  replica and detaches it.
- Networks: **reset-connections** resets all connections; **reset-after-requests** does so after some more requests.
  **half-close** ends the stream to the clients. **delay** slows every message. **lose-messages** loses some messages: most are
  sent again later; if one is not, its connection is reset. **drop-requests** and **drop-replies** lose all messages in one
  direction, then reset the connection. **hold-messages** stops all messages, then delivers them at once. **refuse-connections**
  resets connections and refuses new ones. **deliver-late** closes the client's end of a connection; the server gets the
  client's last requests later.
- Clients: **kill-client** sends SIGKILL to a client, **freeze-client** SIGSTOP and later SIGCONT.
- Ordinary operations, as above: **stop-** and **kill-** with *wrapper*, *guard* or *both* send signals to the processes of a
  `quorlock run`. **restart-sentinel** and **silence-sentinel** make the sentinel restart or fall silent. **fail-over** makes it
  replace the master.";

/// Describes how many requests for the names that clients compete for shared a command.
fn shared_commands(rows: &[Row]) -> String {
    let findings_of_quorlock = || rows.iter().filter(|row| !row.subject.is_control()).map(|row| &row.findings);
    let (requests, batched) = findings_of_quorlock().fold((0, 0), |(requests, batched), findings| {
        (requests + findings.requests, batched + findings.batched_requests)
    });
    format!(
        "Of quorlock's {requests} requests for the names that clients compete for, {batched} shared a Redis command with other requests.\n\
         Requests of killed clients are not counted. If no request shares a Redis command, the test fails."
    )
}

/// Describes the findings in each control, in one sentence each.
pub fn control_findings(rows: &[Row]) -> Vec<String> {
    let mut sums: BTreeMap<Subject, Findings> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.subject.is_control()) {
        sums.entry(row.subject).or_default().add(row.findings.clone());
    }
    let line = |(subject, findings): (Subject, Findings)| match (
        findings.grants,
        findings.overlaps,
        findings.bare_overwrites,
    ) {
        (0, ..) => format!("{subject} was granted no lease: it shows nothing"),
        (grants, 0, 0) => {
            format!("{subject} shows nothing: no overlap and no overwrite in the bare register, in {grants} leases")
        }
        (grants, overlaps, overwrites) => {
            format!(
                "{subject}: {overlaps} overlaps and {overwrites} overwrites in the bare register, in {grants} leases"
            )
        }
    };
    sums.into_iter().map(line).collect()
}

/// The reasons why the page is incomplete. A complete page has every kind of fault, killed servers of every persistence,
/// episodes of every series, and an overlap in a library of another project.
pub fn missing_results(rows: &[Row]) -> Vec<String> {
    let sum_of = |is_wanted: fn(&Row) -> bool| {
        let mut sum = Findings::default();
        rows.iter().filter(|row| is_wanted(row)).for_each(|row| sum.add(row.findings.clone()));
        sum
    };
    let of_quorlock = sum_of(|row| !row.subject.is_control());
    let kinds = [Assumptions::Kept, Assumptions::Broken].into_iter().flat_map(templates).map(|template| template.kind);
    let mut missing_results: Vec<String> = kinds
        .filter(|kind| !of_quorlock.faults.contains_key(kind))
        .map(|kind| format!("{kind} was never injected into quorlock: run for longer"))
        .collect();
    let never_killed =
        Persistence::ALL.into_iter().filter(|persistence| !of_quorlock.killed_servers.contains_key(persistence));
    missing_results.extend(
        never_killed.map(|persistence| format!("no server with persistence {persistence} was killed: run for longer")),
    );
    let series_without_episodes = Series::ALL.into_iter().filter(|series| {
        let is_of_quorlock = |row: &&Row| !row.subject.is_control() && row.series == *series;
        rows.iter().filter(is_of_quorlock).all(|row| row.episodes == 0)
    });
    missing_results
        .extend(series_without_episodes.map(|series| format!("no episode of {series} was run: run for longer")));
    if sum_of(|row| row.subject.is_foreign()).overlaps == 0 {
        missing_results.push("no overlap was found in another library: run for longer".into());
    }
    missing_results
}

/// Appends the table of faults to the page.
fn write_faults(page: &mut String, rows: &[Row]) {
    let mut sums: BTreeMap<FaultKind, [usize; 2]> = BTreeMap::new();
    let mut killed_servers: BTreeMap<Persistence, [usize; 2]> = BTreeMap::new();
    for row in rows {
        let column = usize::from(row.subject.is_control());
        for (kind, count) in &row.findings.faults {
            sums.entry(*kind).or_default()[column] += count;
        }
        for (persistence, count) in &row.findings.killed_servers {
            killed_servers.entry(*persistence).or_default()[column] += count;
        }
    }
    page.push_str("\n## Faults injected\n\n| fault | quorlock | controls |\n|---|---|---|\n");
    for (kind, [quorlock, controls]) in sums {
        let _ = writeln!(page, "| {kind} | {quorlock} | {controls} |");
        for (persistence, [quorlock, controls]) in killed_servers.iter().filter(|_| kind == FaultKind::Kill) {
            let _ = writeln!(page, "| servers killed, persistence {persistence} | {quorlock} | {controls} |");
        }
    }
    let _ = writeln!(page, "\n{FAULTS}");
}

/// Appends the first findings of each row to the page.
fn write_findings(page: &mut String, rows: &[Row]) {
    let _ = writeln!(
        page,
        "\n## Findings in detail\n\n\
         The first {SHOWN_MAX} findings of each library *within* and *beyond* the assumptions, and in each series of ordinary operations. Times\n\
         are seconds since the start of the episode."
    );
    for row in rows.iter().filter(|row| !row.findings.messages.is_empty()) {
        let _ = writeln!(page, "\n**{}**, {}:\n", row.subject, row.series);
        for message in row.findings.messages.iter().take(SHOWN_MAX) {
            let _ = writeln!(page, "- {message}");
        }
    }
}

#[cfg(test)]
mod tests;
