//! What there is of everything that could leak.

use std::fmt;
use std::fs;

use tokio::runtime::Handle;

use crate::round::Doings;
use crate::world::World;

/// How much of everything there is, while nobody does anything.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Leases that were won so far.
    pub leases: u64,
    /// Attempts that were given up on the way.
    pub cancelled: u64,
    /// Attempts that came to nothing: held by others, too slow, no quorum, lost.
    pub failed: u64,
    /// Nodes that lost their memory or their connections.
    pub mishaps: u64,
    /// Requests that were sent to Redis servers.
    pub requests: u64,
    /// Those of them that went in one command with others.
    pub together: u64,
    /// Resident memory of this process, in KiB.
    pub memory: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// Calls that the timers of clients have to make.
    pub calls: u64,
    /// Sockets, timers and other open files.
    pub files: u64,
    /// Open files of databases.
    pub databases: u64,
    /// Keys on the Redis servers.
    pub keys: u64,
    /// Connections to the Redis servers.
    pub connections: u64,
    /// Memory of the Redis servers, in KiB: their history is kept up to a limit.
    pub server_memory: u64,
}

/// What has grown that should not have, each in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth(pub Vec<String>);

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Growth {}

/// By how much memory may grow over the later half of a run: pieces that an allocator cannot give back.
const MEMORY_SLACK_PERCENT: i64 = 5;
const MEMORY_SLACK_KIB: i64 = 1_024;
/// As many as there may have been at one time: SQLite keeps files for connections to come.
const DATABASES_MAX: u64 = 64;

/// How many rounds the page shows.
const COLUMNS: usize = 5;

impl Figures {
    pub(crate) const HEAD: &str = "   leases cancelled    failed  mishaps   requests   together  rss KiB  tasks  calls  files    dbs   keys  conns  server KiB";

    pub(crate) fn take(worlds: &[World], doings: &Doings) -> Self {
        let sum = |of: fn(&World) -> u64| worlds.iter().map(of).sum();
        let (databases, files) = open_files(worlds);
        Self {
            leases: doings.leases,
            cancelled: doings.cancelled,
            failed: doings.failed,
            mishaps: doings.mishaps,
            requests: doings.requests,
            together: doings.together,
            memory: memory(),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            calls: sum(World::calls),
            files,
            databases,
            keys: sum(World::keys),
            connections: sum(World::connections),
            server_memory: sum(World::server_memory),
        }
    }

    /// What there is more of than in the first round. Memory is judged over many rounds, and keys by what they are for: of a
    /// name that came up late, a fence is kept.
    pub(crate) fn more_than(&self, first: &Self) -> Vec<String> {
        let each = [
            ("tasks", self.tasks, first.tasks),
            ("calls that timers have to make", self.calls, first.calls),
            ("open files", self.files, first.files),
            ("open files of databases", self.databases, first.databases.max(DATABASES_MAX)),
            ("connections", self.connections, first.connections),
        ];
        let more = each.into_iter().filter(|(_, now, before)| now > before);
        more.map(|(what, now, before)| format!("{now} {what}, {before} after the first round")).collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            leases,
            cancelled,
            failed,
            mishaps,
            requests,
            together,
            memory,
            tasks,
            calls,
            files,
            databases,
            keys,
            connections,
            server_memory,
        } = self;
        write!(
            f,
            "{leases:9} {cancelled:9} {failed:9} {mishaps:8} {requests:10} {together:10} {memory:8} {tasks:6} {calls:6} {files:6} {databases:6} {keys:6} {connections:6} \
             {server_memory:11}"
        )
    }
}

/// Some rounds, as a table for the page.
pub(crate) fn table(rounds: &[Figures]) -> String {
    let last = rounds.len().saturating_sub(1);
    let mut shown: Vec<usize> = (0..COLUMNS).map(|column| last * column / (COLUMNS - 1)).collect();
    shown.dedup();
    let row = |what: &str, of: fn(&Figures) -> u64| {
        let cells: Vec<String> = shown.iter().map(|round| of(&rounds[*round]).to_string()).collect();
        format!("| {what} | {} |\n", cells.join(" | "))
    };
    let numbers: Vec<String> = shown.iter().map(|round| (round + 1).to_string()).collect();
    let mut table = format!("| after round | {} |\n|---|{}\n", numbers.join(" | "), "---|".repeat(shown.len()));
    table += &row("leases won, in all", |figures| figures.leases);
    table += &row("attempts dropped on their way, in all", |figures| figures.cancelled);
    table += &row("nodes that lost their memory or their connections, in all", |figures| figures.mishaps);
    table += &row("requests to servers, in all", |figures| figures.requests);
    table += &row("of them in one command with others", |figures| figures.together);
    table += &row("resident memory, KiB", |figures| figures.memory);
    table += &row("tasks", |figures| figures.tasks);
    table += &row("calls that timers have to make", |figures| figures.calls);
    table += &row("sockets, timers and other open files", |figures| figures.files);
    table += &row("open files of databases", |figures| figures.databases);
    table += &row("connections at the servers", |figures| figures.connections);
    table += &row("keys on the servers", |figures| figures.keys);
    table += &row("memory that the servers use, KiB", |figures| figures.server_memory);
    table
}

/// Whether memory has stayed, once everyone has warmed up: by what it grows from round to round in the later half of them. Of
/// all pairs of rounds, the middle one says how much that is, so that one round that stands out says nothing.
pub(crate) fn judge(rounds: &[Figures]) -> Result<(), Growth> {
    let later: Vec<i64> = rounds[rounds.len() / 2..].iter().map(|figures| figures.memory as i64).collect();
    let spans = later.len().saturating_sub(1) as i64;
    let mut slopes: Vec<i64> = Vec::new();
    for (early, before) in later.iter().enumerate() {
        // Of the whole half, so that nothing is lost in rounding.
        let slope = |(late, after): (usize, &i64)| (after - before) * spans / (late - early) as i64;
        slopes.extend(later.iter().enumerate().skip(early + 1).map(slope));
    }
    slopes.sort_unstable();
    let Some(growth) = slopes.get(slopes.len() / 2) else { return Ok(()) };
    if *growth > later[0] * MEMORY_SLACK_PERCENT / 100 + MEMORY_SLACK_KIB {
        let words = format!("{growth} KiB of memory more over the last {spans} rounds, from {} KiB on", later[0]);
        return Err(Growth(vec![words]));
    }
    Ok(())
}

fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells how much memory there is");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it tells what is resident");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}

/// Of databases, and others.
fn open_files(worlds: &[World]) -> (u64, u64) {
    let open = fs::read_dir("/proc/self/fd").expect("Linux tells which files are open");
    // One of them is the folder that is being read.
    let paths: Vec<_> = open.flatten().filter_map(|file| fs::read_link(file.path()).ok()).collect();
    let databases = paths.iter().filter(|path| worlds.iter().any(|world| world.is_database(path))).count();
    (databases as u64, (paths.len() - databases) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(memory: impl Fn(u64) -> u64) -> Vec<Figures> {
        let figures = |round| Figures {
            leases: round,
            cancelled: 0,
            failed: 0,
            mishaps: 0,
            requests: 0,
            together: 0,
            memory: memory(round),
            tasks: 5,
            calls: 5,
            files: 5,
            databases: 5,
            keys: 5,
            connections: 5,
            server_memory: 5,
        };
        (0..30).map(figures).collect()
    }

    #[test]
    fn memory_that_grows_with_every_round_is_told() {
        assert_eq!(judge(&rounds(|round| 50_000 + round % 7 * 500)), Ok(()));
        // What is taken in the beginning, and one round that stands out.
        assert_eq!(judge(&rounds(|round| 50_000 + round.min(12) * 2_000)), Ok(()));
        assert_eq!(judge(&rounds(|round| 50_000 + round / 29 * 20_000)), Ok(()));
        assert!(judge(&rounds(|round| 50_000 + round * 300)).is_err());
        assert!(judge(&rounds(|round| 50_000 + round * 300 + round % 3 * 500)).is_err());
    }

    #[test]
    fn the_table_shows_the_first_round_and_the_last() {
        let table = table(&rounds(|round| 1_000 + round));
        assert!(table.starts_with("| after round | 1 | 8 | 15 | 22 | 30 |\n|---|---|---|---|---|---|\n"), "{table}");
        assert!(table.contains("| resident memory, KiB | 1000 | 1007 | 1014 | 1021 | 1029 |"), "{table}");
    }

    #[test]
    fn one_more_of_anything_is_told() {
        let first = &rounds(|_| 0)[0];
        assert_eq!(first.more_than(first), Vec::<String>::new());
        let more = [
            Figures { tasks: 6, ..first.clone() },
            Figures { calls: 6, ..first.clone() },
            Figures { files: 6, ..first.clone() },
            Figures { databases: DATABASES_MAX + 1, ..first.clone() },
            Figures { connections: 6, ..first.clone() },
        ];
        assert!(more.iter().all(|figures| figures.more_than(first).len() == 1));
    }
}
