//! The guard's own process.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::SigSet;
use quorlock::{DetachedLease, LeaseError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, setsid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{Duty, Order, boot_time};
use crate::command::run::group::Group;
use crate::context::FLUSH;

/// The rest between two tries to kill the group of a wrapper that may still be there.
const AGAIN: Duration = Duration::from_millis(20);
/// The longest rest between two tries to kill what is left, or to release the lease.
const REST_MAX: Duration = Duration::from_secs(1);

/// What the guard was told, and what follows from it.
#[derive(Default)]
struct Post {
    duty: Option<Box<Duty>>,
    group: Option<Group>,
    kill_at: Option<Duration>,
}

/// The end of the orders.
enum End {
    Farewell,
    /// The wrapper is dead.
    Hangup,
}

/// The guard's life.
pub(in super::super) fn stand() -> ExitCode {
    // No signal but SIGKILL ends it, and SIGSTOP is undone by the wrapper.
    if SigSet::all().thread_block().is_err() || setsid().is_err() {
        return ExitCode::FAILURE;
    }
    let mut post = Post::default();
    match post.obey() {
        Ok(End::Farewell) => return ExitCode::SUCCESS,
        // Without orders there is no way to tell whether the wrapper lives.
        Ok(End::Hangup) | Err(_) => {}
    }
    if let Some(group) = post.group {
        kill_all(group);
    }
    match post.duty.map(|duty| release(&duty)) {
        None | Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(_)) => ExitCode::FAILURE,
    }
}

impl Post {
    /// Carries out orders, and kills the group when the deadline passes.
    fn obey(&mut self) -> Result<End, Errno> {
        let stdin = rustix::stdio::stdin();
        // It counts the time of a suspended machine, and fires as soon as that goes on.
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            // A deadline that passes before there is a group is due as soon as there is one.
            let mut due = self.kill_at.filter(|_| self.group.is_some());
            if let (Some(group), Some(_)) = (self.group, due.filter(|at| *at <= boot_time())) {
                due = kill(group).then(|| boot_time() + AGAIN);
            }
            timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &alarm(due))?;
            let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) if ready[0].revents().is_empty() => continue,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            }
            match rustix::io::read(stdin, &mut chunk) {
                Ok(0) => return Ok(End::Hangup),
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            }
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                match serde_json::from_slice(&line).map_err(|_| Errno::INVAL)? {
                    Order::Release(duty) => self.duty = Some(duty),
                    Order::Watch(group) => self.group = Some(group),
                    Order::KillAt(at) => self.kill_at = at,
                    Order::Over => (self.group, self.kill_at) = (None, None),
                    Order::Farewell => return Ok(End::Farewell),
                }
            }
        }
    }
}

/// A timer for this time; a time of zero disarms it.
fn alarm(at: Option<Duration>) -> Itimerspec {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let at =
        at.and_then(|at| Some(Timespec { tv_sec: at.as_secs().try_into().ok()?, tv_nsec: at.subsec_nanos().into() }));
    Itimerspec { it_interval: zero, it_value: at.unwrap_or(zero) }
}

/// Kills the group. Whether anything in it still runs.
fn kill(group: Group) -> bool {
    group.signal(Signal::KILL);
    group.is_alive()
}

/// Returns when nothing in the group runs.
fn kill_all(group: Group) {
    let mut rest = Duration::from_millis(1);
    while kill(group) {
        std::thread::sleep(rest);
        rest = (rest * 2).min(REST_MAX);
    }
}

/// Releases the lease of a dead wrapper, not before it may be. If that fails, the ttl ends it.
fn release(duty: &Duty) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let lease: DetachedLease = duty.lease.parse()?;
        let client = duty.access.builder().outlived_by_leases().connect_lazy().await?;
        while let Some(rest) = duty.hold_until.and_then(|until| until.checked_sub(boot_time())) {
            let next = match client.extend(&lease).await {
                Ok(_) => lease.ttl() / 3,
                Err(LeaseError::NoQuorum { .. }) => REST_MAX.min(lease.ttl() / 10),
                Err(error) => return Err(error.into()),
            };
            tokio::time::sleep(rest.min(next)).await;
        }
        let lapse = boot_time() + lease.ttl();
        while let Err(LeaseError::NoQuorum { .. }) = client.release(&lease).await
            && boot_time() < lapse
        {
            tokio::time::sleep(REST_MAX).await;
        }
        // A majority knows of it. The others hear of it as well, if they can be reached.
        Ok(client.close(FLUSH).await?)
    })
}
