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
    /// Resident memory of this process, in KiB.
    pub memory: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
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

/// By how much memory may grow over a run: pieces that an allocator cannot give back.
const MEMORY_SLACK_PERCENT: u64 = 10;
const MEMORY_SLACK_KIB: u64 = 6 * 1024;
/// As many as there may have been at one time: SQLite keeps files for connections to come.
const DATABASES_MAX: u64 = 64;

impl Figures {
    pub(crate) const HEAD: &str =
        "   leases cancelled    failed  mishaps  rss KiB  tasks  files    dbs   keys  conns  server KiB";

    pub(crate) fn take(worlds: &[World], doings: &Doings) -> Self {
        let sum = |of: fn(&World) -> u64| worlds.iter().map(of).sum();
        let (databases, files) = open_files(worlds);
        Self {
            leases: doings.leases,
            cancelled: doings.cancelled,
            failed: doings.failed,
            mishaps: doings.mishaps,
            memory: memory(),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            files,
            databases,
            keys: sum(World::keys),
            connections: sum(World::connections),
            server_memory: sum(World::server_memory),
        }
    }

    /// What there is more of than in the first round. Memory is judged over many rounds, and keys by what they are for.
    pub(crate) fn more_than(&self, first: &Self) -> Vec<String> {
        let each = [
            ("tasks", self.tasks, first.tasks),
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
            memory,
            tasks,
            files,
            databases,
            keys,
            connections,
            server_memory,
        } = self;
        write!(
            f,
            "{leases:9} {cancelled:9} {failed:9} {mishaps:8} {memory:8} {tasks:6} {files:6} {databases:6} {keys:6} {connections:6} \
             {server_memory:11}"
        )
    }
}

/// Whether memory has stayed: by the middle of the last third of the rounds, against that of the first third.
pub(crate) fn judge(rounds: &[Figures]) -> Result<(), Growth> {
    let third = (rounds.len() / 3).max(1);
    let middle = |rounds: &[Figures]| {
        let mut memory: Vec<u64> = rounds.iter().map(|figures| figures.memory).collect();
        memory.sort_unstable();
        memory[memory.len() / 2]
    };
    let (early, late) = (middle(&rounds[..third]), middle(&rounds[rounds.len() - third..]));
    let most = early + early * MEMORY_SLACK_PERCENT / 100 + MEMORY_SLACK_KIB;
    if late > most {
        return Err(Growth(vec![format!("{late} KiB of memory in the end, {early} KiB in the beginning")]));
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
            memory: memory(round),
            tasks: 5,
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
        assert!(judge(&rounds(|round| 50_000 + round * 700)).is_err());
    }

    #[test]
    fn one_more_of_anything_is_told() {
        let first = &rounds(|_| 0)[0];
        assert_eq!(first.more_than(first), Vec::<String>::new());
        let more = [
            Figures { tasks: 6, ..first.clone() },
            Figures { files: 6, ..first.clone() },
            Figures { databases: DATABASES_MAX + 1, ..first.clone() },
            Figures { connections: 6, ..first.clone() },
        ];
        assert!(more.iter().all(|figures| figures.more_than(first).len() == 1));
    }
}
