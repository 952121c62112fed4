//! What all episodes together came to.

mod occasion;
mod operations;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::seconds;
use crate::judge::Findings;
use crate::plan::{Act, Bound, CLIENTS, Memory, kinds};
use crate::run::EPISODE;
use crate::series::Series;
use crate::subject::Subject;
use crate::task::{MAX_CLOCK_SKEW, MAX_TTL, NAMES, TTL};
use crate::worker::COMPANY;

pub use occasion::{Machine, Occasion};
use operations::section as operations;
pub use operations::summary;

/// How many findings of a subject are told in words.
const TOLD: usize = 3;

/// What came of one subject within the assumptions, or beyond them.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who.
    pub subject: Subject,
    /// In which series.
    pub series: Series,
    /// How many episodes there were.
    pub episodes: usize,
    /// How long they took together.
    pub took: Duration,
    /// All that was found.
    pub found: Findings,
}

impl Row {
    /// Nothing yet.
    pub fn new(subject: Subject, series: Series) -> Self {
        Self { subject, series, episodes: 0, took: Duration::ZERO, found: Findings::default() }
    }

    /// Adds an episode.
    pub fn add(&mut self, took: Duration, found: Findings) {
        self.episodes += 1;
        self.took += took;
        self.found.add(found);
    }

    /// Whether something happened that must not.
    pub fn is_violated(&self) -> bool {
        self.episodes > 0 && self.series.violations(&self.found) > 0
    }

    /// A line of the table.
    pub fn line(&self) -> String {
        let Findings { grants, losses, revived, overlaps, disorder, starved, writes, broken, .. } = &self.found;
        let Findings { late, refused, fenced_harmed, bare_harmed, declared, .. } = &self.found;
        let faults: usize = self.found.faults.values().sum();
        let has_fences = self.subject.has_fences();
        let fenced = |count: &usize| if has_fences { count.to_string() } else { "none there".into() };
        format!(
            "| {} | {} | {:.1} | {faults} | {grants} | {losses} | {revived} | {overlaps} | {:.2} s | {} | {writes} | {late} | {} | {} | \
             {bare_harmed} | {starved} | {broken} | {declared} | {:.1} s |",
            self.subject,
            self.episodes,
            self.took.as_secs_f64() / 60.0,
            seconds(self.found.longest_overlap),
            fenced(disorder),
            fenced(refused),
            fenced(fenced_harmed),
            seconds(self.found.longest_wait),
        )
    }
}

/// The heads of the columns.
pub const HEAD: &str = "\
| | episodes | minutes | faults | leases | lost | revived | overlaps | longest | fences out of order | writes | late | refused by fence \
| harmed, fenced | harmed, bare | starved | broken | declared | longest wait |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The whole page.
pub fn page(occasion: &Occasion, rows: &[Row]) -> String {
    let mut page = head(occasion);
    for (series, title, words) in
        [(Series::Within, "Within the assumptions", WITHIN), (Series::Beyond, "Beyond the assumptions", BEYOND)]
    {
        let _ = writeln!(page, "\n## {title}\n\n{words}\n\n{HEAD}");
        for row in rows.iter().filter(|row| row.series == series && row.episodes > 0) {
            let _ = writeln!(page, "{}", row.line());
        }
    }
    let _ = writeln!(page, "\n{COLUMNS}\n\n{}", together(rows));
    operations(&mut page, rows);
    page.push_str("\n## What was found in the others\n\n");
    for line in shown(rows) {
        let _ = writeln!(page, "- {line}");
    }
    faults(&mut page, rows);
    stories(&mut page, rows);
    page
}

fn head(occasion: &Occasion) -> String {
    let Occasion { machine, command, took, versions, seed } = occasion;
    let Machine { date, commit, server, system } = machine;
    let mut text = format!(
        "# Real servers, real faults\n\n\
         Written by `{command}` on {date}, of commit {commit}; not to be edited. The run took {:.1} minutes.\n\
         {server}; {system}.\n\n\
         Every episode has 3 or 5 real servers, each behind two networks, and {CLIENTS} real client processes that take\n\
         turns with {} names: ttl {TTL:?}, longest ttl {MAX_TTL:?}, max_clock_skew {MAX_CLOCK_SKEW:?}. For {} seconds its seed decides what is done to\n\
         them; then everything is healed and everyone finishes. All processes read one clock, and what is judged is their\n\
         history alone. A lease is valid from the moment in which its holder saw it to its release, or to the end of what its\n\
         library said of its validity. With a lease, a client reads a register, thinks, and writes it back. Together with\n\
         each, a client of quorlock's asks for {COMPANY} names of its own, and lets go of them together: so that what is judged goes\n\
         to the servers in one command with other requests, as it does where much is going on.\n\n\
         Every seed, from {seed} on, goes to quorlock and to one of the others in turn, with the same plan of faults:\n\n",
        took.as_secs_f64() / 60.0,
        NAMES.len(),
        EPISODE.as_secs(),
    );
    for (subject, version) in versions {
        let _ = writeln!(text, "- **{subject}**: {version}");
    }
    text.push_str(CONTROLS);
    text
}

const CONTROLS: &str = "
The others are here to show what this harness can see: one that finds nothing anywhere proves nothing. rslock and node
redlock do what the Redlock page describes. For servers that restart empty that page asks operators to keep them away for
the longest ttl; nobody does so here, and quorlock does it by itself. Where there was a choice, it was made in their favour.

Not covered: locks that are not exclusive (the simulation has them), more than one machine, and disks that lie about what they
have written.
";

const WITHIN: &str = "\
Servers are killed and come back with their files or without, are stopped, flushed, filled up, reconfigured, put on a slow
disk, and have their wall clocks stepped back, or ahead within the drift that is allowed for; networks cut, close
one way, delay, lose, hold back, refuse, swallow and deliver late; clients are killed. Of quorlock's row, revived leases, overlaps, fences
out of order, harm to the fenced register, starved waiters and broken clients must be 0, or the run fails. Late writes need not be: a busy machine
holds up a client by itself now and then, which then comes too late and finds its fence refused.";

const BEYOND: &str = "\
Besides, clients are stopped for longer than their leases are valid (A2 does not hold), or the wall clocks of a majority
jump ahead by nearly a ttl, and back (A1 does not hold). Now leases may overlap, and holders may come too late. Fences
must still be in order, lost must still be final, and the register that checks fences must not be harmed, or the run fails.";

const COLUMNS: &str = "\
Lost: leases that ended before their release; each is looked at for another ttl. Revived: those that were valid again
meanwhile. Overlaps: leases that began while an earlier one was valid. Late: reads and
writes by holders whose lease was over. Harmed: writes that undid somebody else's, in a register that checks fences, and in
a bare one beside it. Starved: waiters that were not served within 30 seconds after everything was healed. Broken: clients
that ended by themselves. Declared: clusters that had to be declared anew, since a majority of their nodes had forgotten
them. Longest wait: with all faults.";

/// How much of what is judged went to servers in one command with other requests.
fn together(rows: &[Row]) -> String {
    let own = || rows.iter().filter(|row| !row.subject.is_control()).map(|row| &row.found);
    let (requests, together) = own().fold((0, 0), |(all, some), found| (all + found.requests, some + found.together));
    format!(
        "Of quorlock's {requests} requests about the names that are judged, {together} went to a server in one command with\n\
         others, as far as clients lived to tell; if none did, the run fails."
    )
}

/// What was found in each of those that are here to show what the judge can see.
pub fn shown(rows: &[Row]) -> Vec<String> {
    let mut sums: BTreeMap<Subject, Findings> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.subject.is_control()) {
        sums.entry(row.subject).or_default().add(row.found.clone());
    }
    let told = |(subject, found): (Subject, Findings)| match (found.grants, found.overlaps, found.bare_harmed) {
        (0, ..) => format!("{subject} had no lease: it shows nothing"),
        (grants, 0, 0) => {
            format!("{subject} shows nothing: no overlap and no harm to the bare register, in {grants} leases")
        }
        (grants, overlaps, harmed) => format!(
            "{subject} shows what can be seen: {overlaps} overlaps and {harmed} harmful writes to the bare register, in \
             {grants} leases"
        ),
    };
    sums.into_iter().map(told).collect()
}

/// What a page must not be without: each fault, each way to keep what a server knows that is killed, and an overlap in a
/// library that is not ours.
pub fn gaps(rows: &[Row]) -> Vec<String> {
    let of = |is_wanted: fn(&Row) -> bool| {
        let mut sum = Findings::default();
        rows.iter().filter(|row| is_wanted(row)).for_each(|row| sum.add(row.found.clone()));
        sum
    };
    let own = of(|row| !row.subject.is_control());
    let acts = [Bound::Within, Bound::Beyond].into_iter().flat_map(kinds).map(|kind| kind.act);
    let mut gaps: Vec<String> = acts
        .filter(|act| !own.faults.contains_key(act))
        .map(|act| format!("{act} was never done to quorlock: let it run longer"))
        .collect();
    let unkilled = Memory::ALL.into_iter().filter(|memory| !own.kills.contains_key(memory));
    gaps.extend(unkilled.map(|memory| format!("no server with persistence {memory} was killed: let it run longer")));
    let unplayed = Series::ALL.into_iter().filter(|series| {
        let is_its = |row: &&Row| !row.subject.is_control() && row.series == *series;
        rows.iter().filter(is_its).all(|row| row.episodes == 0)
    });
    gaps.extend(unplayed.map(|series| format!("no episode of {series} was played: let it run longer")));
    if of(|row| row.subject.is_foreign()).overlaps == 0 {
        gaps.push("nothing was found in a library that is not ours: let it run longer".into());
    }
    gaps
}

/// How often each fault was inflicted, on whom.
fn faults(page: &mut String, rows: &[Row]) {
    let mut sums: BTreeMap<Act, [usize; 2]> = BTreeMap::new();
    let mut kills: BTreeMap<Memory, [usize; 2]> = BTreeMap::new();
    for row in rows {
        let whose = usize::from(row.subject.is_control());
        for (act, count) in &row.found.faults {
            sums.entry(*act).or_default()[whose] += count;
        }
        for (memory, count) in &row.found.kills {
            kills.entry(*memory).or_default()[whose] += count;
        }
    }
    page.push_str("\n## What was done, how often\n\n| fault | quorlock | the others |\n|---|---|---|\n");
    for (act, [own, others]) in sums {
        let _ = writeln!(page, "| {act} | {own} | {others} |");
        for (memory, [own, others]) in kills.iter().filter(|_| act == Act::Kill) {
            let _ = writeln!(page, "| {act}, of a server with persistence {memory} | {own} | {others} |");
        }
    }
}

fn stories(page: &mut String, rows: &[Row]) {
    page.push_str("\n## What was found, in words\n\nThe first of each. Moments are seconds of the episode.\n");
    for row in rows.iter().filter(|row| !row.found.told.is_empty()) {
        let _ = writeln!(page, "\n**{}**, {}:\n", row.subject, row.series);
        for story in row.found.told.iter().take(TOLD) {
            let _ = writeln!(page, "- {story}");
        }
    }
}

#[cfg(test)]
mod tests;
