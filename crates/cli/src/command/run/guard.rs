//! The guard: a process that kills the command's process group and releases the lease when the wrapper no longer can.
//!
//! The *wrapper* is the `quorlock run` process that acquired the lock and started the command.
//!
//! The guard runs in its own session, so that neither the terminal nor a signal to the wrapper's process group reaches
//! the guard. The wrapper sends orders to the guard over a pipe, and a new deadline with every renewal. When the
//! deadline passes, the guard kills the command's group, because the wrapper may be stopped. When the pipe ends, the
//! wrapper is dead: the guard kills the command's group, waits until the group is gone, releases the lease, and exits.
//!
//! Secrets reach the guard over the pipe only: other users can read arguments, and every process of the same user can
//! read the environment.

mod process;

use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use std::time::Duration;

use rustix::io::{ioctl_fionbio, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::hidden_program;
use crate::context::Access;
use crate::process::Process;
pub(super) use process::main;

/// The hidden command that runs the guard.
pub(super) const COMMAND: &str = "__guard";
/// A new deadline is not sent if it differs from the previous deadline by less than this.
const DEADLINE_STEP: Duration = Duration::from_millis(20);

/// The orders to the guard. After every change, the wrapper sends all orders as one line of JSON. A guard without
/// orders exits when the wrapper ends.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Orders {
    /// After the wrapper's death, release this lease.
    lease_to_release: Option<LeaseToRelease>,
    /// After the wrapper's death, kill the group of this command.
    command: Option<Process>,
    /// Kill the group at this time of the boot clock, even if the wrapper lives.
    kill_at: Option<Duration>,
}

/// A lease, and how to release it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct LeaseToRelease {
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

/// The wrapper's handle of the guard.
pub(crate) struct Guard {
    /// `None` if the guard is dead.
    process: Option<(Pid, PipeWriter)>,
    /// The latest orders, which the next guard also gets if this guard dies.
    orders: Orders,
    /// Whether the nodes do not know the process id of this guard yet.
    is_unknown_to_nodes: bool,
}

/// Starts the process of a guard, which has these orders from the start.
fn spawn(orders: &Orders) -> io::Result<(Pid, PipeWriter)> {
    let (reader, mut pipe) = io::pipe()?;
    // The first orders fit into an empty pipe. Later orders must not block if the guard does not read.
    ioctl_fionbio(&pipe, true)?;
    write_orders(&mut pipe, orders)?;
    let mut command = hidden_program(COMMAND);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"QUORLOCK_")) {
        command.env_remove(name);
    }
    // If the guard inherited our output, a reader of our output would wait until the guard exits.
    command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((Pid::from_child(&command.spawn()?), pipe))
}

/// Writes the orders to the pipe.
fn write_orders(pipe: &mut PipeWriter, orders: &Orders) -> io::Result<()> {
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    pipe.write_all(&line)
}

impl Guard {
    /// Starts the first guard.
    pub(crate) fn start() -> io::Result<Self> {
        let orders = Orders::default();
        Ok(Self { process: Some(spawn(&orders)?), orders, is_unknown_to_nodes: false })
    }

    /// Returns the process id of the guard; `None` if the guard is dead. While the guard lives, processes of the
    /// command may still live.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Orders the guard to release this lease after the wrapper's death.
    pub(super) fn set_lease(&mut self, lease: LeaseToRelease) -> io::Result<()> {
        self.orders.lease_to_release = Some(lease);
        self.send_or_replace()
    }

    /// Orders the guard to kill the group of this command after the wrapper's death.
    pub(super) fn set_command(&mut self, command: Process) -> io::Result<()> {
        self.orders.command = Some(command);
        self.send_or_replace()
    }

    /// Sets the deadline: the time at which the guard kills the group. `None` removes the deadline.
    pub(super) fn set_deadline(&mut self, deadline: Option<Duration>) {
        let before = self.orders.kill_at;
        if before.zip(deadline).map_or(before != deadline, |(before, new)| before.abs_diff(new) >= DEADLINE_STEP) {
            self.orders.kill_at = deadline;
            self.send_orders();
        }
    }

    /// Returns whether the deadline has passed.
    pub(super) fn is_kill_due(&self) -> bool {
        self.orders.kill_at.is_some_and(|at| at <= boot_time())
    }

    /// Tells the guard that no process of the command is left. After the wrapper's death, the guard then only releases
    /// the lease.
    pub(super) fn forget_command(&mut self) {
        self.orders.command = None;
        self.orders.kill_at = None;
        self.send_orders();
    }

    /// Removes all orders, after the lease was released. Without a call of `dismiss`, the guard kills the group and
    /// releases the lease when this handle is dropped.
    pub(crate) fn dismiss(&mut self) {
        self.orders = Orders::default();
        self.send_orders();
    }

    /// Handles the end or the stop of the child process `id`, if that process is the guard. Continues a stopped guard.
    pub(super) fn handle_change(&mut self, id: Pid, is_stopped: bool) {
        match &self.process {
            Some((pid, _)) if *pid != id => {}
            Some((pid, _)) if is_stopped => drop(kill_process(*pid, Signal::CONT)),
            _ => self.process = None,
        }
    }

    /// Starts another guard.
    pub(super) fn replace(&mut self) -> io::Result<()> {
        self.process = Some(spawn(&self.orders)?);
        self.is_unknown_to_nodes = true;
        Ok(())
    }

    /// Returns the process id of a new guard, so that the caller can send it to the nodes. Returns `None` after the
    /// first call for the same guard.
    pub(super) fn take_new_id(&mut self) -> Option<u32> {
        std::mem::take(&mut self.is_unknown_to_nodes).then(|| self.id()).flatten()
    }

    /// Sends the orders. If that fails, starts another guard with the same orders.
    fn send_or_replace(&mut self) -> io::Result<()> {
        if self.send_orders() { Ok(()) } else { self.replace() }
    }

    /// Sends the orders. If that fails, kills the guard, which is dead or does not read. The wrapper then starts
    /// another guard. Returns whether the orders were sent.
    fn send_orders(&mut self) -> bool {
        let Some((pid, pipe)) = &mut self.process else { return false };
        let is_sent = write_orders(pipe, &self.orders).is_ok();
        if !is_sent {
            let _ = kill_process(*pid, Signal::KILL);
        }
        is_sent
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
