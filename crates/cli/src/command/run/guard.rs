//! The guard: a process that kills the command's process group when the wrapper no longer can, and releases its lease.
//!
//! It runs in a session of its own, so that neither the terminal nor a signal to the wrapper's group reaches it. The
//! wrapper sends it orders over a pipe, and with every renewal a new deadline. When the deadline passes, the guard kills
//! the group: the wrapper may be stopped. End of file without a farewell means that the wrapper is dead: the guard kills
//! the group, sees it dead, releases the lease, and exits.
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

use super::group::Group;
use super::hidden;
use crate::context::Access;
pub(super) use post::stand;

/// The hidden command.
pub(super) const COMMAND: &str = "__guard";
/// A deadline that moves by less is not worth an order.
const DEADLINE_STEP: Duration = Duration::from_millis(20);

/// What the wrapper tells its guard, one line of JSON each.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Release this lease after the wrapper's death.
    Release(Box<Duty>),
    /// The command runs in this group.
    Watch(Group),
    /// Kill the group at this time of the boot clock, or not before the wrapper's death.
    KillAt(Option<Duration>),
    /// Nothing is left of the command.
    Over,
    /// The lease is released: exit.
    Farewell,
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

/// The time since the machine started, suspensions included: one clock for the wrapper and its guard.
pub(super) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The guard, as its wrapper sees it; and what another one has to be told if this one dies.
pub(crate) struct Guard {
    /// `None` if it is dead.
    process: Option<Process>,
    duty: Option<Duty>,
    group: Option<Group>,
    kill_at: Option<Duration>,
    /// The nodes do not know this guard yet.
    is_new: bool,
}

struct Process {
    pid: Pid,
    pipe: PipeWriter,
}

impl Process {
    /// Starts a guard that has these orders from the first moment on.
    fn start(orders: &[Order]) -> io::Result<Self> {
        let (orders_in, mut pipe) = io::pipe()?;
        // The first orders fit into an empty pipe; later ones must not wait for a guard that does not read.
        ioctl_fionbio(&pipe, true)?;
        orders.iter().try_for_each(|order| send(&mut pipe, order))?;
        let mut command = hidden(COMMAND);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"QUORLOCK_")) {
            command.env_remove(name);
        }
        // A reader of our output must not wait for the guard.
        command.stdin(orders_in).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { pid: pid(&command.spawn()?)?, pipe })
    }
}

fn send(pipe: &mut PipeWriter, order: &Order) -> io::Result<()> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    pipe.write_all(&line)
}

impl Guard {
    /// Starts the first one.
    pub(crate) fn post() -> io::Result<Self> {
        let process = Some(Process::start(&[])?);
        Ok(Self { process, duty: None, group: None, kill_at: None, is_new: false })
    }

    /// Its process id: as long as that lives, a part of the command may.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Entrusts the lease to it.
    pub(super) fn entrust(&mut self, duty: Duty) -> io::Result<()> {
        self.duty = Some(duty.clone());
        self.tell_or_replace(&Order::Release(Box::new(duty)))
    }

    /// Lets it guard this group.
    pub(super) fn watch(&mut self, group: Group) -> io::Result<()> {
        self.group = Some(group);
        self.tell_or_replace(&Order::Watch(group))
    }

    /// Tells it when to kill the group unless it is told a later time before. It takes effect on the next guard, too.
    pub(super) fn kill_at(&mut self, at: Option<Duration>) {
        let is_news = match (self.kill_at, at) {
            (Some(before), Some(now)) => before.abs_diff(now) >= DEADLINE_STEP,
            (before, now) => before != now,
        };
        if is_news {
            self.kill_at = at;
            self.tell(&Order::KillAt(at));
        }
    }

    /// Whether it was to kill the group by now.
    pub(super) fn is_kill_due(&self) -> bool {
        self.kill_at.is_some_and(|at| at <= boot_time())
    }

    /// Nothing of the command is left: there is only the lease to release.
    pub(super) fn command_is_over(&mut self) {
        self.group = None;
        self.kill_at = None;
        self.tell(&Order::Over);
    }

    /// The lease is released. Dropped without this, the guard kills the group and releases the lease.
    pub(crate) fn dismiss(&mut self) {
        self.group = None;
        self.duty = None;
        self.tell(&Order::Farewell);
    }

    pub(super) fn is_missing(&self) -> bool {
        self.process.is_none()
    }

    /// Whether this process, which was reaped or has stopped, is the guard.
    pub(super) fn has_id(&self, pid: Pid) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid == pid)
    }

    /// It was reaped.
    pub(super) fn died(&mut self) {
        self.process = None;
    }

    /// Continues it after it was stopped.
    pub(super) fn resume(&self) {
        if let Some(process) = &self.process {
            let _ = kill_process(process.pid, Signal::CONT);
        }
    }

    /// Starts another one.
    pub(super) fn replace(&mut self) -> io::Result<()> {
        let release = self.duty.clone().map(|duty| Order::Release(Box::new(duty)));
        let kill = self.group.map(|group| [Order::Watch(group), Order::KillAt(self.kill_at)]);
        let orders: Vec<_> = release.into_iter().chain(kill.into_iter().flatten()).collect();
        self.process = Some(Process::start(&orders)?);
        self.is_new = true;
        Ok(())
    }

    /// The guard's id if the nodes have to be told of it.
    pub(super) fn take_new(&mut self) -> Option<u32> {
        std::mem::take(&mut self.is_new).then(|| self.id()).flatten()
    }

    fn tell_or_replace(&mut self, order: &Order) -> io::Result<()> {
        if self.tell(order) { Ok(()) } else { self.replace() }
    }

    /// Whether it was told. One that is dead or does not read is killed; the signal of its death leads to another one.
    fn tell(&mut self, order: &Order) -> bool {
        let Some(process) = &mut self.process else { return false };
        let is_told = send(&mut process.pipe, order).is_ok();
        if !is_told {
            let _ = kill_process(process.pid, Signal::KILL);
        }
        is_told
    }
}

/// Waits until it has done its duty and has ended.
impl Drop for Guard {
    fn drop(&mut self) {
        if self.group.is_none() {
            self.dismiss();
        }
        let Some(Process { pid, pipe }) = self.process.take() else { return };
        drop(pipe);
        let _ = kill_process(pid, Signal::CONT);
        while waitpid(Some(pid), WaitOptions::empty()).err() == Some(Errno::INTR) {}
    }
}

/// A child's id, in the terms of the calls that are made with it.
pub(super) fn pid(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without an id"))
}
