//! A process of this machine, told from a later one with the same id by the time of its start.

use std::io;

use rustix::process::Pid;

use crate::exit::Failure;

/// A process that has been seen alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In ticks since the machine was started.
    pub(crate) start: u64,
}

impl Process {
    /// The process with this id.
    pub(crate) fn find(pid: u32) -> Result<Self, Failure> {
        match start_of(pid) {
            Ok(Some(start)) => Ok(Self { pid, start }),
            Ok(None) => Err(Failure::Usage(format!("{pid} is not a process that runs"))),
            Err(error) => Err(Failure::Internal(format!("cannot look at process {pid}: {error}"))),
        }
    }

    /// Whether it is still this one that has the id.
    pub(crate) fn is_alive(self) -> bool {
        start_of(self.pid).is_ok_and(|start| start == Some(self.start))
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
    // The program's name stands in parentheses and may hold anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace().collect::<Vec<_>>());
    let parsed = fields.and_then(|fields| Some(((*fields.first()?).to_owned(), fields.get(19)?.parse().ok()?)));
    let (state, start) = parsed.ok_or(io::ErrorKind::InvalidData)?;
    Ok((!matches!(state.as_str(), "Z" | "X" | "x")).then_some(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_until_it_has_ended() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        assert!(!Process { start: process.start + 1, ..process }.is_alive(), "another one with the same id");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
        Process::find(process.pid).unwrap_err();
    }
}
