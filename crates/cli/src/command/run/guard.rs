//! The guard: a process that kills the command's process group when the wrapper no longer can, and releases its lease.
//!
//! It runs in a session of its own, so that neither the terminal nor a signal to the wrapper's group reaches it. The
//! wrapper sends it orders over a pipe, and with every renewal a new deadline. When the deadline passes, the guard kills
//! the group: the wrapper may be stopped. The end of the pipe means that the wrapper is dead: the guard kills the group,
//! sees it dead, releases the lease, and exits.
//!
//! Secrets reach the guard over the pipe only: other users can read arguments, and every process of the same user can
//! read the environment.

mod post;

use std::io::{self, PipeWriter, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::hidden;
use crate::context::Access;
use crate::process::Process;
pub(super) use post::stand;

/// The hidden command.
pub(super) const COMMAND: &str = "__guard";
/// A deadline that moves by less is not sent.
const DEADLINE_STEP: Duration = Duration::from_millis(20);

/// What the guard has to do. Every change is sent as a line of JSON; a guard without orders exits with the wrapper.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Orders {
    /// After the wrapper's death, release this lease.
    duty: Option<Duty>,
    /// After the wrapper's death, kill the group of this command.
    command: Option<Process>,
    /// Kill the group at this time of the boot clock, even if the wrapper lives.
    kill_at: Option<Duration>,
}

/// A lease, and how to release it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Duty {
    pub(super) access: Access,
    /// The lease in its text form.
    pub(super) lease: String,
    /// The earliest time of the boot clock at which it may be released.
    pub(super) hold_until: Option<Duration>,
}

/// The time since the host started, suspensions included: one clock for the wrapper and its guard.
pub(super) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The guard, as its wrapper sees it.
pub(crate) struct Guard {
    /// `None` if it is dead.
    process: Option<(Pid, PipeWriter)>,
    /// Also for another guard, if this one dies.
    orders: Orders,
    /// The nodes do not know this guard yet.
    is_new: bool,
}

/// Starts a guard that has these orders from the first moment on.
fn start(orders: &Orders) -> io::Result<(Pid, PipeWriter)> {
    let (orders_in, mut pipe) = io::pipe()?;
    // The first orders fit into an empty pipe; later ones must not wait for a guard that does not read.
    ioctl_fionbio(&pipe, true)?;
    send(&mut pipe, orders)?;
    let mut command = hidden(COMMAND);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"QUORLOCK_")) {
        command.env_remove(name);
    }
    // A reader of our output must not wait for the guard.
    command.stdin(orders_in).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((pid(&command.spawn()?)?, pipe))
}

fn send(pipe: &mut PipeWriter, orders: &Orders) -> io::Result<()> {
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    pipe.write_all(&line)
}

impl Guard {
    /// Starts the first one.
    pub(crate) fn post() -> io::Result<Self> {
        let orders = Orders::default();
        Ok(Self { process: Some(start(&orders)?), orders, is_new: false })
    }

    /// Its process id: while it lives, a part of the command may.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Entrusts the lease to it.
    pub(super) fn entrust(&mut self, duty: Duty) -> io::Result<()> {
        self.orders.duty = Some(duty);
        self.tell_or_replace()
    }

    /// Lets it guard the group of this command.
    pub(super) fn watch(&mut self, command: Process) -> io::Result<()> {
        self.orders.command = Some(command);
        self.tell_or_replace()
    }

    /// Sets the time at which to kill the group, unless a later time is set before that. It holds for the next guard, too.
    pub(super) fn kill_at(&mut self, at: Option<Duration>) {
        let is_news = match (self.orders.kill_at, at) {
            (Some(before), Some(now)) => before.abs_diff(now) >= DEADLINE_STEP,
            (before, now) => before != now,
        };
        if is_news {
            self.orders.kill_at = at;
            self.tell();
        }
    }

    /// Whether it was to kill the group by now.
    pub(super) fn is_kill_due(&self) -> bool {
        self.orders.kill_at.is_some_and(|at| at <= boot_time())
    }

    /// Nothing of the command is left: there is only the lease to release.
    pub(super) fn command_is_over(&mut self) {
        self.orders.command = None;
        self.orders.kill_at = None;
        self.tell();
    }

    /// The lease is released. Dropped without this, the guard kills the group and releases the lease.
    pub(crate) fn dismiss(&mut self) {
        self.orders = Orders::default();
        self.tell();
    }

    pub(super) fn is_missing(&self) -> bool {
        self.process.is_none()
    }

    /// Whether this process, which was reaped or has stopped, is the guard.
    pub(super) fn has_id(&self, id: Pid) -> bool {
        self.process.as_ref().is_some_and(|(pid, _)| *pid == id)
    }

    /// It was reaped.
    pub(super) fn died(&mut self) {
        self.process = None;
    }

    /// Continues it after it was stopped.
    pub(super) fn resume(&self) {
        if let Some((pid, _)) = &self.process {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }

    /// Starts another one.
    pub(super) fn replace(&mut self) -> io::Result<()> {
        self.process = Some(start(&self.orders)?);
        self.is_new = true;
        Ok(())
    }

    /// The guard's id if the nodes do not know it yet.
    pub(super) fn take_new(&mut self) -> Option<u32> {
        std::mem::take(&mut self.is_new).then(|| self.id()).flatten()
    }

    fn tell_or_replace(&mut self) -> io::Result<()> {
        if self.tell() { Ok(()) } else { self.replace() }
    }

    /// Sends the orders. A guard that is dead or does not read is killed; the signal of its death leads to another one.
    fn tell(&mut self) -> bool {
        let Some((pid, pipe)) = &mut self.process else { return false };
        let is_told = send(pipe, &self.orders).is_ok();
        if !is_told {
            let _ = kill_process(*pid, Signal::KILL);
        }
        is_told
    }
}

/// Waits until it has done its duty and has ended.
impl Drop for Guard {
    fn drop(&mut self) {
        if self.orders.command.is_none() {
            self.dismiss();
        }
        let Some((pid, pipe)) = self.process.take() else { return };
        drop(pipe);
        let _ = kill_process(pid, Signal::CONT);
        while waitpid(Some(pid), WaitOptions::empty()).err() == Some(Errno::INTR) {}
    }
}

/// A child's id, as rustix takes it.
pub(super) fn pid(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without an id"))
}
