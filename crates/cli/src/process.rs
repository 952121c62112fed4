//! Processes and process groups of this host.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome};

/// A process that was alive when it was found. Its start time distinguishes it from a later process with the same id.
/// If the process leads a process group, the methods with `group` in their names concern that group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The start time, in ticks since the host was started.
    pub(crate) start: u64,
}

impl Process {
    /// Returns the process with this id.
    pub(crate) fn find(pid: u32) -> Outcome<Self> {
        let own_pid = std::fs::read_link("/proc/self").ok();
        if own_pid.is_some_and(|own_pid| own_pid.to_str() != Some(&std::process::id().to_string())) {
            return Err(Failure::config(
                "/proc belongs to another PID namespace, so processes cannot be watched: mount /proc again (unshare --mount-proc)",
            ));
        }
        match start_of(pid) {
            Ok(Some(start)) => Ok(Self { pid, start }),
            Ok(None) => Err(Failure::usage(format_args!("{pid} is not a running process"))),
            Err(error) => Err(Failure::internal(format_args!("cannot examine process {pid}: {error}"))),
        }
    }

    pub(crate) fn is_alive(self) -> bool {
        start_of(self.pid).is_ok_and(|start| start == Some(self.start))
    }

    pub(crate) fn as_pid(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid).ok()?)
    }

    /// Returns the group that the process leads; `None` if the group is gone. The kernel does not reuse the id of a
    /// group while the group has members.
    fn group(self) -> Option<Pid> {
        let is_replaced = start_of(self.pid).is_ok_and(|start| start.is_some_and(|start| start != self.start));
        self.as_pid().filter(|_| !is_replaced)
    }

    /// Sends a signal to every process of the group.
    pub(crate) fn signal_group(self, signal: Signal) {
        if let Some(id) = self.group() {
            // The group may have ended meanwhile.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Returns whether the group has members, including zombies.
    pub(crate) fn group_has_members(self) -> bool {
        self.group().is_some_and(|id| test_kill_process_group(id) != Err(Errno::SRCH))
    }

    /// Returns whether any process of the group still runs. Examines every process of the host. Ignores zombies,
    /// because not every system has an init that reaps orphans.
    pub(crate) fn group_is_alive(self) -> bool {
        let Some(id) = self.group().filter(|_| self.group_has_members()) else { return false };
        // If /proc cannot be read, the group counts as alive.
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| Stat::read(pid).ok()?)
            .any(|stat| stat.group == id.as_raw_nonzero().get() && !stat.is_over)
    }
}

/// Returns the start time of the process with this id; `None` if no such process exists, or it has ended.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    Ok(Stat::read(pid)?.filter(|stat| !stat.is_over).map(|stat| stat.start))
}

/// Returns the parent of a process.
pub(crate) fn parent(process: Pid) -> Option<Pid> {
    Pid::from_raw(Stat::read(process.as_raw_nonzero().get().unsigned_abs()).ok()??.parent)
}

/// A part of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    group: i32,
    /// Whether the process no longer runs any code.
    is_over: bool,
    start: u64,
}

impl Stat {
    fn read(pid: u32) -> io::Result<Option<Self>> {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) => Ok(Some(Self::parse(&text).ok_or(io::ErrorKind::InvalidData)?)),
            // NOENT means that there is no such process, and SRCH that the process ended during the read.
            Err(error) if [Some(Errno::NOENT), Some(Errno::SRCH)].contains(&Errno::from_io_error(&error)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        // The program's name is in parentheses and may contain any character.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let threads: u64 = fields.get(17)?.parse().ok()?;
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            // A process whose main thread has ended looks like a zombie while its other threads run.
            is_over: matches!(fields[0], "Z" | "X" | "x") && threads <= 1,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_until_it_has_ended() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        let predecessor = Process { start: process.start - 1, ..process };
        assert!(!predecessor.is_alive() && predecessor.group().is_none(), "a later process has the same id");
        assert!(process.group().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
        Process::find(process.pid).unwrap_err();
    }

    #[test]
    fn a_process_is_over_only_when_all_its_threads_have_ended() {
        let stat = |state: &str, threads: u32| {
            let zeros = "0 ".repeat(14);
            Stat::parse(&format!("7 (a) Z 1) {state} 3 5 {zeros}{threads} 0 4711 8 9\n"))
        };
        let expected = |is_over| Some(Stat { parent: 3, group: 5, is_over, start: 4711 });
        assert_eq!(stat("S", 1), expected(false));
        assert_eq!(stat("T", 1), expected(false), "a stopped process may continue");
        assert_eq!(stat("Z", 2), expected(false), "only the first thread has ended");
        assert_eq!(stat("Z", 1), expected(true));
        assert_eq!(Stat::parse("7 (a) R 1 2"), None);
    }
}
