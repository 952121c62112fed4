//! Counts of all resources that could leak, taken after each round.

use std::fmt;
use std::fs;

use tokio::runtime::Handle;

use crate::node_kind::ClusterWithClients;
use crate::round::Totals;

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
    /// Resident memory of this process, in KiB.
    pub memory_kib: u64,
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

/// How much memory may grow over the later half of a run because of fragmentation: a percentage, and a number of KiB.
const MEMORY_SLACK_PERCENT: i64 = 5;
const MEMORY_SLACK_KIB: i64 = 1_024;
/// The maximum number of open database files. SQLite keeps the files of closed connections open for later connections.
const DATABASES_MAX: u64 = 64;

/// The number of rounds on the page.
const COLUMNS: usize = 5;

impl ResourceCounts {
    pub(crate) const HEAD: &str = "   leases cancelled    failed  faults   requests   together  rss KiB  tasks  calls  files    dbs   keys  conns  server KiB";

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
            memory_kib: resident_kib(),
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
            memory_kib,
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
            "{leases:9} {cancelled:9} {failed:9} {faults:8} {requests:10} {batched:10} {memory_kib:8} {tasks:6} {timer_calls:6} {files:6} {databases:6} {keys:6} {connections:6} \
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
    table += &row("resident memory, KiB", |counts| counts.memory_kib);
    table += &row("tasks", |counts| counts.tasks);
    table += &row("pending timer calls", |counts| counts.timer_calls);
    table += &row("sockets, timers and other open files", |counts| counts.files);
    table += &row("open database files", |counts| counts.databases);
    table += &row("connections at the servers", |counts| counts.connections);
    table += &row("keys on the servers", |counts| counts.keys);
    table += &row("memory of the servers, KiB", |counts| counts.server_memory_kib);
    table
}

/// Checks that memory does not grow over the later half of the rounds. The growth is the median slope of all pairs of
/// rounds (Theil-Sen estimator), which a single outlier does not change.
pub(crate) fn check_memory_growth(rounds: &[ResourceCounts]) -> Result<(), Leaks> {
    let later: Vec<i64> = rounds[rounds.len() / 2..].iter().map(|counts| counts.memory_kib as i64).collect();
    let round_steps = later.len().saturating_sub(1) as i64;
    let mut slopes: Vec<i64> = Vec::new();
    for (early, before) in later.iter().enumerate() {
        // The slope is scaled to the length of the half, so that integer division stays precise.
        let slope = |(late, after): (usize, &i64)| (after - before) * round_steps / (late - early) as i64;
        slopes.extend(later.iter().enumerate().skip(early + 1).map(slope));
    }
    slopes.sort_unstable();
    let Some(leaks) = slopes.get(slopes.len() / 2) else { return Ok(()) };
    if *leaks > later[0] * MEMORY_SLACK_PERCENT / 100 + MEMORY_SLACK_KIB {
        let message = format!("memory grew by {leaks} KiB over the last {round_steps} rounds, from {} KiB", later[0]);
        return Err(Leaks(vec![message]));
    }
    Ok(())
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

    fn rounds(memory: impl Fn(u64) -> u64) -> Vec<ResourceCounts> {
        let counts = |round| ResourceCounts {
            leases: round,
            cancelled: 0,
            failed: 0,
            faults: 0,
            requests: 0,
            batched: 0,
            memory_kib: memory(round),
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
    fn memory_growth_in_every_round_is_an_error() {
        assert_eq!(check_memory_growth(&rounds(|round| 50_000 + round % 7 * 500)), Ok(()));
        // Leaks at the start, and a single outlier, are no leak.
        assert_eq!(check_memory_growth(&rounds(|round| 50_000 + round.min(12) * 2_000)), Ok(()));
        assert_eq!(check_memory_growth(&rounds(|round| 50_000 + round / 29 * 20_000)), Ok(()));
        assert!(check_memory_growth(&rounds(|round| 50_000 + round * 300)).is_err());
        assert!(check_memory_growth(&rounds(|round| 50_000 + round * 300 + round % 3 * 500)).is_err());
    }

    #[test]
    fn the_table_shows_the_first_round_and_the_last() {
        let table = table(&rounds(|round| 1_000 + round));
        assert!(table.starts_with("| after round | 1 | 8 | 15 | 22 | 30 |\n|---|---|---|---|---|---|\n"), "{table}");
        assert!(table.contains("| resident memory, KiB | 1000 | 1007 | 1014 | 1021 | 1029 |"), "{table}");
    }

    #[test]
    fn one_more_of_any_resource_is_an_error() {
        let first = &rounds(|_| 0)[0];
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
