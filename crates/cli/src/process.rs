//! A process of this machine, told from a later one with the same id by the time of its start.

use std::io;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// A process that has been seen alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In ticks since the machine was started.
    pub(crate) start: u64,
}

impl Process {
    /// The process with this id.
    pub(crate) fn find(pid: u32) -> Result<Self, Failure> {
        let own = std::fs::read_link("/proc/self").ok();
        if own.is_some_and(|own| own.to_str() != Some(&std::process::id().to_string())) {
            return Err(Failure::config(
                "/proc belongs to another PID namespace, so processes cannot be watched: mount it anew (unshare --mount-proc)",
            ));
        }
        match start_of(pid) {
            Ok(Some(start)) => Ok(Self { pid, start }),
            Ok(None) => Err(Failure::usage(format!("{pid} is not a process that runs"))),
            Err(error) => Err(Failure::internal(format_args!("cannot examine process {pid}: {error}"))),
        }
    }

    /// Whether it is still this one that has the id.
    pub(crate) fn is_alive(self) -> bool {
        start_of(self.pid).is_ok_and(|start| start == Some(self.start))
    }

    /// Whether another process has the id by now.
    pub(crate) fn is_replaced(self) -> bool {
        start_of(self.pid).is_ok_and(|start| start.is_some_and(|start| start != self.start))
    }

    pub(crate) fn as_pid(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid).ok()?)
    }
}

/// When the process with this id was started; `None` if there is none, or it has ended.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It ended while it was looked at.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (is_over, start) = read_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok((!is_over).then_some(start))
}

/// Whether a process runs no more code, and when it was started, by its `/proc/PID/stat`.
fn read_stat(text: &str) -> Option<(bool, u64)> {
    // The program's name stands in parentheses and may hold anything.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let (state, threads) = (*fields.first()?, fields.get(17)?.parse::<u64>().ok()?);
    // A process whose first thread has ended looks like a zombie while others of its threads go on.
    let is_over = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some((is_over, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_until_it_has_ended() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        let before = Process { start: process.start - 1, ..process };
        assert!(!before.is_alive() && before.is_replaced(), "another one with the same id");
        assert!(!process.is_replaced());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive() && !process.is_replaced());
        Process::find(process.pid).unwrap_err();
    }

    #[test]
    fn a_process_goes_on_with_any_of_its_threads() {
        let stat = |state: &str, threads: u32| {
            let zeros = "0 ".repeat(16);
            read_stat(&format!("7 (a) Z 1) {state} {zeros}{threads} 0 4711 8 9\n"))
        };
        assert_eq!(stat("S", 1), Some((false, 4711)));
        assert_eq!(stat("Z", 2), Some((false, 4711)), "its first thread has ended");
        assert_eq!(stat("Z", 1), Some((true, 4711)));
        assert_eq!(read_stat("7 (a) R 1 2"), None);
    }
}
