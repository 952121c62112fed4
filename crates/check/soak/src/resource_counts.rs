//! Counts of all resources that could leak, taken after each round.

use std::alloc::System;
use std::fmt;
use std::fs;

use quorlock::HISTORY_MAX;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::runtime::Handle;

use crate::node_kind::ClusterWithClients;
use crate::round::Totals;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Counts of resources while everything is idle.
#[derive(Clone, Debug)]
pub struct ResourceCounts {
    /// Leases acquired so far.
    pub leases: u64,
    /// Attempts whose future was dropped.
    pub cancelled: u64,
    /// Attempts that failed, because the lock was held, or the attempt was too slow, found no quorum or lost its lease.
    pub failed: u64,
    /// Nodes that lost their memory or their connections.
    pub faults: u64,
    /// Requests sent to Redis servers.
    pub requests: u64,
    /// Requests that shared a command with other requests.
    pub batched: u64,
    /// Memory that this process has allocated and not freed, in KiB. Does not include what SQLite allocates.
    pub allocated_kib: u64,
    /// Resident memory of this process, in KiB. Includes memory that was freed and that the allocator keeps.
    pub resident_kib: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// Pending timer calls of the clients.
    pub timer_calls: u64,
    /// Sockets, timers and other open files.
    pub files: u64,
    /// Open database files.
    pub databases: u64,
    /// Keys on the Redis servers.
    pub keys: u64,
    /// Connections to the Redis servers.
    pub connections: u64,
    /// Memory of the Redis servers, in KiB. It grows until the history reaches its limit.
    pub server_memory_kib: u64,
}

/// Descriptions of the counts that have grown beyond their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaks(pub Vec<String>);

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Leaks {}

/// How much a size may grow over the later half of a run.
struct Slack {
    percent: i64,
    kib: i64,
}

/// The slack of the allocated memory. Buffers and maps keep their capacity: each of the nine sessions with Redis servers
/// may keep 64 KiB for reading and 64 KiB for writing.
const ALLOCATED_SLACK: Slack = Slack { percent: 5, kib: 1_024 };
/// The same before the histories of the memory nodes are full. A full history has about 3 MiB.
const ALLOCATED_SLACK_AT_FIRST: Slack = Slack { percent: 5, kib: 4_096 };
/// The slack of the resident memory. The allocator keeps freed memory, and more of it when the workers are busier, so
/// the resident memory also grows if another program on the machine ends.
const RESIDENT_SLACK: Slack = Slack { percent: 25, kib: 4_096 };
/// The number of leases after which the histories of the memory nodes are full. Most leases add two events, and far more
/// than a fifth of the leases are on memory nodes.
const LEASES_UNTIL_HISTORIES_ARE_FULL: u64 = 5 * HISTORY_MAX as u64;
/// The maximum number of open database files. SQLite keeps the files of closed connections open for later connections.
const DATABASES_MAX: u64 = 64;

/// The number of rounds on the page.
const COLUMNS: usize = 5;

impl ResourceCounts {
    pub(crate) const HEAD: &str = "   leases cancelled    failed  faults   requests   together heap KiB  rss KiB  tasks  calls  files    dbs   keys  conns  server KiB";

    pub(crate) fn take(clusters: &[ClusterWithClients], totals: &Totals) -> Self {
        let sum = |of: fn(&ClusterWithClients) -> u64| clusters.iter().map(of).sum();
        let (databases, files) = open_files(clusters);
        Self {
            leases: totals.leases,
            cancelled: totals.cancelled,
            failed: totals.failed,
            faults: totals.faults,
            requests: totals.requests,
            batched: totals.batched,
            allocated_kib: allocated_kib(),
            resident_kib: resident_kib(),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            timer_calls: sum(ClusterWithClients::timer_calls),
            files,
            databases,
            keys: sum(ClusterWithClients::keys),
            connections: sum(ClusterWithClients::connections),
            server_memory_kib: sum(ClusterWithClients::server_memory_kib),
        }
    }

    /// Describes the counts that are higher than after the first round. Ignores memory, which [`check_memory_growth`]
    /// checks over many rounds, and keys, because a name that is first used in a later round adds a key with its fence.
    pub(crate) fn increases_since(&self, first: &Self) -> Vec<String> {
        let counts = [
            ("tasks", self.tasks, first.tasks),
            ("pending timer calls", self.timer_calls, first.timer_calls),
            ("open files", self.files, first.files),
            ("open database files", self.databases, first.databases.max(DATABASES_MAX)),
            ("connections", self.connections, first.connections),
        ];
        let more = counts.into_iter().filter(|(_, now, before)| now > before);
        more.map(|(what, now, before)| format!("{now} {what}, {before} after the first round")).collect()
    }
}

impl fmt::Display for ResourceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            leases,
            cancelled,
            failed,
            faults,
            requests,
            batched,
            allocated_kib,
            resident_kib,
            tasks,
            timer_calls,
            files,
            databases,
            keys,
            connections,
            server_memory_kib,
        } = self;
        write!(
            f,
            "{leases:9} {cancelled:9} {failed:9} {faults:8} {requests:10} {batched:10} {allocated_kib:8} {resident_kib:8} {tasks:6} {timer_calls:6} {files:6} {databases:6} {keys:6} {connections:6} \
             {server_memory_kib:11}"
        )
    }
}

/// A Markdown table of some rounds.
pub(crate) fn table(rounds: &[ResourceCounts]) -> String {
    let last = rounds.len().saturating_sub(1);
    let mut shown: Vec<usize> = (0..COLUMNS).map(|column| last * column / (COLUMNS - 1)).collect();
    shown.dedup();
    let row = |what: &str, of: fn(&ResourceCounts) -> u64| {
        let cells: Vec<String> = shown.iter().map(|round| of(&rounds[*round]).to_string()).collect();
        format!("| {what} | {} |\n", cells.join(" | "))
    };
    let numbers: Vec<String> = shown.iter().map(|round| (round + 1).to_string()).collect();
    let mut table = format!("| after round | {} |\n|---|{}\n", numbers.join(" | "), "---|".repeat(shown.len()));
    table += &row("leases acquired (total)", |counts| counts.leases);
    table += &row("attempts cancelled (total)", |counts| counts.cancelled);
    table += &row("nodes that lost their memory or connections (total)", |counts| counts.faults);
    table += &row("requests to servers (total)", |counts| counts.requests);
    table += &row("requests that shared a command with other requests (total)", |counts| counts.batched);
    table += &row("allocated memory, KiB", |counts| counts.allocated_kib);
    table += &row("resident memory, KiB", |counts| counts.resident_kib);
    table += &row("tasks", |counts| counts.tasks);
    table += &row("pending timer calls", |counts| counts.timer_calls);
    table += &row("sockets, timers and other open files", |counts| counts.files);
    table += &row("open database files", |counts| counts.databases);
    table += &row("connections at the servers", |counts| counts.connections);
    table += &row("keys on the servers", |counts| counts.keys);
    table += &row("memory of the servers, KiB", |counts| counts.server_memory_kib);
    table
}

/// Checks that memory does not grow over the later half of the rounds.
pub(crate) fn check_memory_growth(rounds: &[ResourceCounts]) -> Result<(), Leaks> {
    let later = &rounds[rounds.len() / 2..];
    let are_histories_full = later.first().is_some_and(|counts| counts.leases >= LEASES_UNTIL_HISTORIES_ARE_FULL);
    let allocated_slack = if are_histories_full { ALLOCATED_SLACK } else { ALLOCATED_SLACK_AT_FIRST };
    let allocated = growth("allocated memory", later, |counts| counts.allocated_kib, &allocated_slack);
    let resident = growth("resident memory", later, |counts| counts.resident_kib, &RESIDENT_SLACK);
    let messages: Vec<String> = allocated.into_iter().chain(resident).collect();
    if messages.is_empty() { Ok(()) } else { Err(Leaks(messages)) }
}

/// Describes how much a size has grown over these rounds, if it has grown more than the slack. The growth is the median
/// slope of all pairs of rounds (Theil-Sen estimator), which a single outlier does not change.
fn growth(what: &str, rounds: &[ResourceCounts], kib: fn(&ResourceCounts) -> u64, slack: &Slack) -> Option<String> {
    let sizes: Vec<i64> = rounds.iter().map(|counts| kib(counts) as i64).collect();
    let round_steps = sizes.len().saturating_sub(1) as i64;
    let mut slopes: Vec<i64> = Vec::new();
    for (early, before) in sizes.iter().enumerate() {
        // The slope is scaled to the length of the half, so that integer division stays precise.
        let slope = |(late, after): (usize, &i64)| (after - before) * round_steps / (late - early) as i64;
        slopes.extend(sizes.iter().enumerate().skip(early + 1).map(slope));
    }
    slopes.sort_unstable();
    let (growth, first) = (*slopes.get(slopes.len() / 2)?, *sizes.first()?);
    let is_leak = growth > first * slack.percent / 100 + slack.kib;
    is_leak.then(|| format!("{what} grew by {growth} KiB over the last {round_steps} rounds, from {first} KiB"))
}

/// The memory that this process has allocated and not freed, in KiB.
fn allocated_kib() -> u64 {
    let stats = ALLOCATOR.stats();
    // Other threads allocate between the two readings.
    (stats.bytes_allocated.saturating_sub(stats.bytes_deallocated) >> 10) as u64
}

/// The resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc has the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the status has the resident memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}

/// The numbers of open database files and of other open files.
fn open_files(clusters: &[ClusterWithClients]) -> (u64, u64) {
    let open = fs::read_dir("/proc/self/fd").expect("/proc lists the open files");
    // The list includes /proc/self/fd itself.
    let paths: Vec<_> = open.flatten().filter_map(|file| fs::read_link(file.path()).ok()).collect();
    let databases = paths.iter().filter(|path| clusters.iter().any(|cluster| cluster.is_database(path))).count();
    (databases as u64, (paths.len() - databases) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds after which the histories are full, with this allocated and this resident memory.
    fn rounds(allocated: impl Fn(u64) -> u64, resident: impl Fn(u64) -> u64) -> Vec<ResourceCounts> {
        let counts = |round| ResourceCounts {
            leases: LEASES_UNTIL_HISTORIES_ARE_FULL,
            cancelled: 0,
            failed: 0,
            faults: 0,
            requests: 0,
            batched: 0,
            allocated_kib: allocated(round),
            resident_kib: resident(round),
            tasks: 5,
            timer_calls: 5,
            files: 5,
            databases: 5,
            keys: 5,
            connections: 5,
            server_memory_kib: 5,
        };
        (0..30).map(counts).collect()
    }

    #[test]
    fn allocated_memory_that_grows_in_every_round_is_an_error() {
        let check = |allocated: fn(u64) -> u64| check_memory_growth(&rounds(allocated, |_| 28_000));
        assert_eq!(check(|round| 6_000 + round % 7 * 100), Ok(()));
        // Growth at the start, and a single outlier, are no leak.
        assert_eq!(check(|round| 6_000 + round.min(12) * 2_000), Ok(()));
        assert_eq!(check(|round| 6_000 + round / 29 * 20_000), Ok(()));
        assert!(check(|round| 6_000 + round * 120).is_err());
        assert!(check(|round| 6_000 + round * 120 + round % 3 * 100).is_err());
    }

    #[test]
    fn histories_may_grow_until_they_are_full() {
        let mut rounds = rounds(|round| 3_000 + round * 100, |_| 28_000);
        assert!(check_memory_growth(&rounds).is_err());
        for counts in &mut rounds {
            counts.leases -= 1;
        }
        assert_eq!(check_memory_growth(&rounds), Ok(()));
    }

    #[test]
    fn resident_memory_may_grow_more_than_allocated_memory() {
        let check = |resident: fn(u64) -> u64| check_memory_growth(&rounds(|_| 6_000, resident));
        assert_eq!(check(|round| 28_000 + round * 500), Ok(()));
        assert!(check(|round| 28_000 + round * 1_500).is_err());
    }

    #[test]
    fn the_table_shows_the_first_round_and_the_last() {
        let table = table(&rounds(|round| 1_000 + round, |_| 5));
        assert!(table.starts_with("| after round | 1 | 8 | 15 | 22 | 30 |\n|---|---|---|---|---|---|\n"), "{table}");
        assert!(table.contains("| allocated memory, KiB | 1000 | 1007 | 1014 | 1021 | 1029 |"), "{table}");
    }

    #[test]
    fn one_more_of_any_resource_is_an_error() {
        let first = &rounds(|_| 0, |_| 0)[0];
        assert_eq!(first.increases_since(first), Vec::<String>::new());
        let more = [
            ResourceCounts { tasks: 6, ..first.clone() },
            ResourceCounts { timer_calls: 6, ..first.clone() },
            ResourceCounts { files: 6, ..first.clone() },
            ResourceCounts { databases: DATABASES_MAX + 1, ..first.clone() },
            ResourceCounts { connections: 6, ..first.clone() },
        ];
        assert!(more.iter().all(|counts| counts.increases_since(first).len() == 1));
    }
}
