//! The guard: a process that kills the command's process group and releases the lease when the wrapper no longer can.
//!
//! The *wrapper* is the `quorlock run` process that acquired the lock and started the command.
//!
//! The guard runs in its own session, so that neither the terminal nor a signal to the wrapper's process group reaches
//! it. The wrapper sends orders to the guard over a pipe, and a new deadline with every renewal. When the deadline
//! passes, the guard kills the command's group, because the wrapper may be stopped. When the pipe ends, the wrapper is
//! dead: the guard kills the command's group, waits until the group is gone, releases the lease, and exits.
//!
//! Secrets reach the guard over the pipe only: other users can read arguments, and every process of the same user can
//! read the environment.

mod post;

use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use std::time::Duration;

use rustix::io::{ioctl_fionbio, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::hidden;
use crate::context::Access;
use crate::process::Process;
pub(super) use post::stand;

/// The hidden command.
pub(super) const COMMAND: &str = "__guard";
/// A new deadline that differs by less than this from the last one is not sent.
const DEADLINE_STEP: Duration = Duration::from_millis(20);

/// The orders to the guard. After every change, the wrapper sends all orders as one line of JSON. A guard without
/// orders exits when the wrapper ends.
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
    /// The earliest time of the boot clock at which the guard may release the lease.
    pub(super) hold_until: Option<Duration>,
}

/// Returns the time since the host started, suspensions included. The wrapper and its guard share this clock.
pub(super) fn boot_time() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// The wrapper's handle for the guard.
pub(crate) struct Guard {
    /// `None` if the guard is dead.
    process: Option<(Pid, PipeWriter)>,
    /// The orders. If this guard dies, the next guard gets the same orders.
    orders: Orders,
    /// Whether the nodes have not been told the process id of this guard yet.
    is_new: bool,
}

/// Starts a guard that has these orders from the start.
fn start(orders: &Orders) -> io::Result<(Pid, PipeWriter)> {
    let (orders_in, mut pipe) = io::pipe()?;
    // The first orders fit into an empty pipe. Later orders must not block if the guard does not read.
    ioctl_fionbio(&pipe, true)?;
    send(&mut pipe, orders)?;
    let mut command = hidden(COMMAND);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"QUORLOCK_")) {
        command.env_remove(name);
    }
    // If the guard inherited our output, a reader of our output would wait until the guard exits.
    command.stdin(orders_in).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((Pid::from_child(&command.spawn()?), pipe))
}

fn send(pipe: &mut PipeWriter, orders: &Orders) -> io::Result<()> {
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    pipe.write_all(&line)
}

impl Guard {
    /// Starts the first guard.
    pub(crate) fn post() -> io::Result<Self> {
        let orders = Orders::default();
        Ok(Self { process: Some(start(&orders)?), orders, is_new: false })
    }

    /// Returns the process id of the guard; `None` if the guard is dead. While the guard lives, processes of the
    /// command may still live.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Orders the guard to release this lease after the wrapper's death.
    pub(super) fn entrust(&mut self, duty: Duty) -> io::Result<()> {
        self.orders.duty = Some(duty);
        self.tell_or_replace()
    }

    /// Orders the guard to kill the group of this command after the wrapper's death.
    pub(super) fn watch(&mut self, command: Process) -> io::Result<()> {
        self.orders.command = Some(command);
        self.tell_or_replace()
    }

    /// Sets the time at which the guard kills the group, or removes it. If this guard dies, the next guard gets the
    /// same time.
    pub(super) fn kill_at(&mut self, at: Option<Duration>) {
        let before = self.orders.kill_at;
        if before.zip(at).map_or(before != at, |(before, now)| before.abs_diff(now) >= DEADLINE_STEP) {
            self.orders.kill_at = at;
            self.tell();
        }
    }

    /// Returns whether the time to kill the group has passed.
    pub(super) fn is_kill_due(&self) -> bool {
        self.orders.kill_at.is_some_and(|at| at <= boot_time())
    }

    /// Tells the guard that no process of the command is left. After the wrapper's death, the guard then only releases
    /// the lease.
    pub(super) fn command_is_over(&mut self) {
        self.orders.command = None;
        self.orders.kill_at = None;
        self.tell();
    }

    /// Ends the guard after the lease was released. If this is dropped without a call of `dismiss`, the guard kills the
    /// group and releases the lease.
    pub(crate) fn dismiss(&mut self) {
        self.orders = Orders::default();
        self.tell();
    }

    /// Handles a child process that ended or stopped, if it is the guard. A stopped guard is continued.
    pub(super) fn changed(&mut self, id: Pid, is_stopped: bool) {
        match &self.process {
            Some((pid, _)) if *pid != id => {}
            Some((pid, _)) if is_stopped => drop(kill_process(*pid, Signal::CONT)),
            _ => self.process = None,
        }
    }

    /// Starts another guard.
    pub(super) fn replace(&mut self) -> io::Result<()> {
        self.process = Some(start(&self.orders)?);
        self.is_new = true;
        Ok(())
    }

    /// Returns the guard's process id once, so that the caller can tell it to the nodes; after that `None`.
    pub(super) fn take_new(&mut self) -> Option<u32> {
        std::mem::take(&mut self.is_new).then(|| self.id()).flatten()
    }

    fn tell_or_replace(&mut self) -> io::Result<()> {
        if self.tell() { Ok(()) } else { self.replace() }
    }

    /// Sends the orders. If that fails, kills the guard: it is dead or does not read. Its death then makes the wrapper
    /// start another guard.
    fn tell(&mut self) -> bool {
        let Some((pid, pipe)) = &mut self.process else { return false };
        let is_told = send(pipe, &self.orders).is_ok();
        if !is_told {
            let _ = kill_process(*pid, Signal::KILL);
        }
        is_told
    }
}

/// Waits until the guard has carried out its orders and has ended.
impl Drop for Guard {
    fn drop(&mut self) {
        if self.orders.command.is_none() {
            self.dismiss();
        }
        let Some((pid, pipe)) = self.process.take() else { return };
        drop(pipe);
        let _ = kill_process(pid, Signal::CONT);
        let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    }
}
