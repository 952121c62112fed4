//! Writes the page about all episodes of a run.

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

use operations::section as operations;
pub use operations::summary;
pub use run_info::{Environment, RunInfo};

/// The maximum number of findings that the page describes for each row.
const SHOWN_MAX: usize = 3;

/// The findings of one subject in one series.
#[derive(Clone, Debug)]
pub struct Row {
    /// The library.
    pub subject: Subject,
    /// The kind of the episodes.
    pub series: Series,
    /// The number of episodes.
    pub episodes: usize,
    /// The total duration of the episodes.
    pub took: Duration,
    /// The findings of all episodes, summed.
    pub findings: Findings,
}

impl Row {
    /// A row without episodes.
    pub fn new(subject: Subject, series: Series) -> Self {
        Self { subject, series, episodes: 0, took: Duration::ZERO, findings: Findings::default() }
    }

    /// Adds an episode.
    pub fn add(&mut self, took: Duration, findings: Findings) {
        self.episodes += 1;
        self.took += took;
        self.findings.add(findings);
    }

    /// Whether a guarantee was violated.
    pub fn is_violated(&self) -> bool {
        self.episodes > 0 && self.series.violations(&self.findings) > 0
    }

    /// The row as a line of the Markdown table.
    pub fn line(&self) -> String {
        let Findings { grants, losses, revived, overlaps, fences_out_of_order, starved, writes, broken, .. } =
            &self.findings;
        let Findings { late_accesses, refused_accesses, fenced_overwrites, bare_overwrites, initialized_again, .. } =
            &self.findings;
        let faults: usize = self.findings.faults.values().sum();
        let has_fences = self.subject.has_fences();
        let fenced = |count: &usize| if has_fences { count.to_string() } else { "n/a".into() };
        format!(
            "| {} | {} | {:.1} | {faults} | {grants} | {losses} | {revived} | {overlaps} | {:.2} s | {} | {writes} | {late_accesses} | {} | {} | \
             {bare_overwrites} | {starved} | {broken} | {initialized_again} | {:.1} s |",
            self.subject,
            self.episodes,
            self.took.as_secs_f64() / 60.0,
            seconds(self.findings.longest_overlap),
            fenced(fences_out_of_order),
            fenced(refused_accesses),
            fenced(fenced_overwrites),
            seconds(self.findings.longest_wait),
        )
    }
}

/// The header of the table.
pub const TABLE_HEADER: &str = "\
| | episodes | minutes | faults | leases | lost | revived | overlaps | longest | fences out of order | writes | late | refused by fence \
| overwrites, fenced | overwrites, bare | starved | broken | initialized again | longest wait |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The whole page.
pub fn page(run_info: &RunInfo, rows: &[Row]) -> String {
    let mut page = introduction(run_info);
    for (series, title, words) in
        [(Series::Within, "Within the assumptions", WITHIN), (Series::Beyond, "Beyond the assumptions", BEYOND)]
    {
        let _ = writeln!(page, "\n## {title}\n\n{words}\n\n{TABLE_HEADER}");
        for row in rows.iter().filter(|row| row.series == series && row.episodes > 0) {
            let _ = writeln!(page, "{}", row.line());
        }
    }
    let _ = writeln!(page, "\n{COLUMNS}\n\n{}", shared_commands(rows));
    operations(&mut page, rows);
    page.push_str("\n## Findings in the controls\n\n");
    for line in control_findings(rows) {
        let _ = writeln!(page, "- {line}");
    }
    faults(&mut page, rows);
    findings_in_detail(&mut page, rows);
    page
}

fn introduction(run_info: &RunInfo) -> String {
    let RunInfo { environment, command, took, versions, seed } = run_info;
    let Environment { date, commit, server, system } = environment;
    let (minutes, names, episode) = (format!("{:.1}", took.as_secs_f64() / 60.0), NAMES.len(), EPISODE.as_secs());
    let mut text = format!(
        "# Fault injection with real servers and clients\n\n\
         For readers who want to see whether quorlock keeps its guarantees while servers, networks and clients fail, and whether\n\
         this test would notice if it did not. Written by `{command}` on {date}, commit {commit};\n\
         do not edit. The run took {minutes} minutes. {server}; {system}.\n\n\
         Each episode starts 3 or 5 Redis servers and {CLIENTS} client processes. Two networks lie between them, and half of the\n\
         clients use each. The clients compete for {names} names (ttl {TTL:?}, maximum ttl {MAX_TTL:?}, max_clock_skew {MAX_CLOCK_SKEW:?}). For {episode} seconds the harness injects the faults that the\n\
         episode's seed chooses. Then it ends all faults and lets every client finish. All processes read one monotonic clock\n\
         and report their events to one history. The judge reads only that history. A lease counts as valid from the moment its\n\
         holder saw it until its release, or until the end of the validity that its library reported. While a client holds a\n\
         lease, it reads a register, pauses, and writes it back. Together with each of these names, a quorlock client locks and\n\
         releases {PRIVATE_NAMES} names of its own. So the requests that the judge sees share commands with others, as under load.\n\n\
         Each seed, from {seed} on, gives one plan of faults. The harness runs the plan with quorlock, and with a *control*: a lock\n\
         library in which this test should find violations. Each seed uses another control. The libraries are:\n\n"
    );
    for (subject, version) in versions {
        let _ = writeln!(text, "- **{subject}**: {version}");
    }
    text.push_str(CONTROLS);
    text
}

const CONTROLS: &str = "
The controls (*trusting*, *rslock* and *node-redlock*) show what this test can detect: a test that finds nothing in any
library proves nothing. rslock and node-redlock implement Redlock as Redis describes it. That description asks operators to
keep a server that restarts empty offline for the maximum ttl. In this test no operator does so. (quorlock's quarantine keeps
such a server from voting.) All other choices of this test favour the controls.

Not covered: locks that are not exclusive (the simulation covers them), more than one machine, and disks that report writes
that they have not made.
";

const WITHIN: &str = "\
Servers are killed and restart with or without their files. They are stopped, flushed, run out of memory, are reconfigured,
get a slow disk, and have their wall clocks stepped back, or ahead within the allowed drift. Networks reset
connections, close one direction, refuse connections, and delay, lose, hold back and drop messages. Clients are killed.
In quorlock's row, revived leases, overlaps, fences out of order, overwrites in the fenced register, starved waiters and
broken clients must be 0, or the run fails. Late writes may occur: a busy machine can pause a client until its lease has
ended. The register then refuses the client's fence.";

const BEYOND: &str = "\
In addition to the faults above, clients are stopped for longer than their leases are valid, so that
[A2](../guarantees.md#assumptions) fails, or the wall clocks of a majority jump ahead by nearly a ttl and back, so that
[A1](../guarantees.md#assumptions) fails. Leases may now overlap, and holders may write late. Fences must still be in
order, a lost lease must stay lost, and the register that checks fences must not be overwritten, or the run fails.";

const COLUMNS: &str = "\
The columns:

- **lost**: leases that ended before their release. The client polls each lost lease for another ttl. **revived** counts
  lost leases that became valid again.
- **overlaps**: leases that began while an earlier lease of the same name was valid; **longest** is the longest overlap.
- **late**: reads and writes by holders whose lease had ended.
- **refused by fence**: reads and writes that the register refused because of a lower fence.
- **overwrites**: writes that replaced a value that the client had not read. **fenced** is the register that checks fences.
  **bare** is a second register, which does not check fences.
- **starved**: waiters that were not served within 30 seconds after the end of all faults.
- **broken**: clients that ended on their own.
- **initialized again**: clusters that an operator had to initialize again, because a majority of the nodes had lost their
  memory.
- **longest wait**: the longest wait of a client that was served, including the time under faults.
- **n/a**: the library has no fences.";

const FAULTS: &str = "\
- Servers: **kill** and **wipe** send SIGKILL, and the server restarts from its files (kill) or empty (wipe). **freeze** sends
  SIGSTOP, later SIGCONT. **flush** is FLUSHALL, **forget-scripts** is SCRIPT FLUSH. **fill-memory** leaves no memory for writes.
  **allow-eviction** sets an eviction policy. **slow-disk** delays each sync of the append-only file. **step-back** and **step-ahead**
  step the wall clock back, or ahead within the allowed drift. **jump-ahead** moves the wall clocks of a majority ahead by nearly
  a ttl, and back. **backup** is `redis-cli --rdb`. **replica** attaches a replica and detaches it.
- Networks: **reset-connections** resets all connections; **reset-after-requests** does so after some requests. **half-close** ends the stream to
  the clients. **delay** slows every message. **lose-messages** loses some messages: most are sent again later, and after the others the
  connection is reset. **drop-requests** and **drop-replies** lose all messages in one direction, then reset the connection.
  **hold-messages** stops all messages, then delivers them at once. **refuse-connections** resets connections and refuses new ones. **deliver-late** closes
  the client's end of a connection, and delivers its requests in flight later.
- Clients and `quorlock run`: **kill-client** and **freeze-client** send SIGKILL, or SIGSTOP and later SIGCONT, to a client. The
  faults of *wrapper*, *guard* and *sentinel* are those of the ordinary operations above.";

/// A sentence about the number of judged requests that shared a command with other requests.
fn shared_commands(rows: &[Row]) -> String {
    let own = || rows.iter().filter(|row| !row.subject.is_control()).map(|row| &row.findings);
    let (requests, batched) =
        own().fold((0, 0), |(all, some), findings| (all + findings.requests, some + findings.batched));
    format!(
        "Of quorlock's {requests} requests for the names that clients compete for, {batched} shared a command with other requests.\n\
         These figures lack the requests of clients that were killed. If no request shared a command, the run fails."
    )
}

/// A sentence about the findings in each control.
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

/// The reasons why the page is incomplete. A complete page has every fault, kills of servers of every persistence,
/// episodes of every series, and an overlap in another library.
pub fn missing_results(rows: &[Row]) -> Vec<String> {
    let of = |is_wanted: fn(&Row) -> bool| {
        let mut sum = Findings::default();
        rows.iter().filter(|row| is_wanted(row)).for_each(|row| sum.add(row.findings.clone()));
        sum
    };
    let own = of(|row| !row.subject.is_control());
    let kinds = [Assumptions::Kept, Assumptions::Broken].into_iter().flat_map(templates).map(|template| template.kind);
    let mut missing_results: Vec<String> = kinds
        .filter(|kind| !own.faults.contains_key(kind))
        .map(|kind| format!("{kind} was never injected into quorlock: run for longer"))
        .collect();
    let never_killed = Persistence::ALL.into_iter().filter(|persistence| !own.kills.contains_key(persistence));
    missing_results.extend(
        never_killed.map(|persistence| format!("no server with persistence {persistence} was killed: run for longer")),
    );
    let series_without_episodes = Series::ALL.into_iter().filter(|series| {
        let is_own = |row: &&Row| !row.subject.is_control() && row.series == *series;
        rows.iter().filter(is_own).all(|row| row.episodes == 0)
    });
    missing_results
        .extend(series_without_episodes.map(|series| format!("no episode of {series} was run: run for longer")));
    if of(|row| row.subject.is_foreign()).overlaps == 0 {
        missing_results.push("no overlap was found in another library: run for longer".into());
    }
    missing_results
}

/// The table of faults.
fn faults(page: &mut String, rows: &[Row]) {
    let mut sums: BTreeMap<FaultKind, [usize; 2]> = BTreeMap::new();
    let mut kills: BTreeMap<Persistence, [usize; 2]> = BTreeMap::new();
    for row in rows {
        let whose = usize::from(row.subject.is_control());
        for (kind, count) in &row.findings.faults {
            sums.entry(*kind).or_default()[whose] += count;
        }
        for (persistence, count) in &row.findings.kills {
            kills.entry(*persistence).or_default()[whose] += count;
        }
    }
    page.push_str("\n## Faults injected\n\n| fault | quorlock | controls |\n|---|---|---|\n");
    for (kind, [own, others]) in sums {
        let _ = writeln!(page, "| {kind} | {own} | {others} |");
        for (persistence, [own, others]) in kills.iter().filter(|_| kind == FaultKind::Kill) {
            let _ = writeln!(page, "| {kind}, persistence {persistence} | {own} | {others} |");
        }
    }
    let _ = writeln!(page, "\n{FAULTS}");
}

fn findings_in_detail(page: &mut String, rows: &[Row]) {
    page.push_str("\n## Findings in detail\n\nThe first findings of each row. Times are seconds since the start of the episode.\n");
    for row in rows.iter().filter(|row| !row.findings.messages.is_empty()) {
        let _ = writeln!(page, "\n**{}**, {}:\n", row.subject, row.series);
        for finding in row.findings.messages.iter().take(SHOWN_MAX) {
            let _ = writeln!(page, "- {finding}");
        }
    }
}

#[cfg(test)]
mod tests;
