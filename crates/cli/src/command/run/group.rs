//! A process group, and whether anything in it still runs.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A process group, by its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group(Process);

impl Group {
    /// The group of a leader that is alive.
    pub(super) fn led_by(leader: Process) -> Self {
        Self(leader)
    }

    pub(super) fn id(self) -> Option<Pid> {
        self.0.as_pid()
    }

    /// The id, unless the group is gone. The kernel gives the id of a group to no process while the group has members.
    fn current(self) -> Option<Pid> {
        self.id().filter(|_| !self.0.is_replaced())
    }

    /// Sends a signal to every process in the group.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(id) = self.current() {
            // If it has ended meanwhile, nobody is left to be told.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Whether the group has members, zombies included.
    pub(super) fn has_members(self) -> bool {
        self.current().is_some_and(|id| test_kill_process_group(id) != Err(Errno::SRCH))
    }

    /// Whether any process of the group still runs: a look at every process of the machine. Zombies do not run, and not
    /// every system has an init that reaps orphans.
    pub(super) fn is_alive(self) -> bool {
        let Some(id) = self.current().filter(|_| self.has_members()) else { return false };
        // What cannot be seen is taken for alive.
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()).any(|stat| runs_in(id, &stat))
    }
}

/// Reads `/proc/PID/stat`. The program's name is in parentheses and may hold anything.
fn runs_in(group: Pid, stat: &str) -> bool {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_ascii_whitespace();
    let (state, of) = (fields.next(), fields.nth(1).and_then(|of| of.parse().ok()));
    let threads = fields.nth(14).and_then(|threads| threads.parse::<u32>().ok());
    // A process whose first thread has ended looks like a zombie while others of its threads go on.
    let is_over = matches!(state, Some("Z" | "X" | "x")) && threads.is_some_and(|threads| threads <= 1);
    of == Some(group.as_raw_nonzero().get()) && !is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_do_not_count() {
        let group = Pid::from_raw(7).unwrap();
        let stat = |of: u32, state: &str, threads: u32| {
            format!("9 (a) R 1) {state} 1 {of} 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0")
        };
        assert!(runs_in(group, &stat(7, "S", 1)));
        assert!(runs_in(group, &stat(7, "T", 1)), "it may go on");
        assert!(runs_in(group, &stat(7, "Z", 2)), "another thread goes on");
        assert!(!runs_in(group, &stat(7, "Z", 1)));
        assert!(!runs_in(group, &stat(8, "S", 1)), "of another group");
    }
}
