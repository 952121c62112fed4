//! The guard's process.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::SigSet;
use quorlock::{DetachedLease, LeaseError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Signal, setsid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{LeaseToRelease, Orders, boot_time};
use crate::context::FLUSH_TIMEOUT;
use crate::process::Process;

/// The pause between two attempts to kill the group while the wrapper may still live.
const KILL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest pause between two attempts to kill the remaining processes of the group, or to extend or release the
/// lease.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The main function of the guard's process.
pub(in super::super) fn main() -> ExitCode {
    // With all signals blocked, only SIGKILL ends the guard. If SIGSTOP stops the guard, the wrapper continues it.
    if SigSet::all().thread_block().is_err() || setsid().is_err() {
        return ExitCode::FAILURE;
    }
    let mut orders = Orders::default();
    // If the guard cannot read orders, it cannot know whether the wrapper lives, so it treats the error as the
    // wrapper's death.
    let _ = follow_orders(&mut orders);
    if let Some(command) = orders.command {
        kill_until_gone(command);
    }
    if orders.lease_to_release.is_none_or(|lease| release(&lease).is_ok()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Reads orders until the wrapper is gone, and kills the group when the deadline passes.
fn follow_orders(orders: &mut Orders) -> Result<(), Errno> {
    let stdin = rustix::stdio::stdin();
    // This timer counts the time of a suspended host, and fires as soon as the host resumes.
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        // If the deadline passes before the command starts, the guard kills the command as soon as it starts.
        let mut kill_at = orders.kill_at.filter(|_| orders.command.is_some());
        if let (Some(command), Some(_)) = (orders.command, kill_at.filter(|at| *at <= boot_time())) {
            kill_at = kill(command).then(|| boot_time() + KILL_INTERVAL);
        }
        // A value of zero disarms the timer.
        let it_value = kill_at.and_then(|kill_at| kill_at.try_into().ok()).unwrap_or_default();
        let alarm = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &alarm)?;
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        retry_on_intr(|| poll(&mut ready, None))?;
        if ready[0].revents().is_empty() {
            continue;
        }
        match retry_on_intr(|| rustix::io::read(stdin, &mut chunk))? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = bytes.drain(..=end).collect();
            let newest = lines[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            *orders = serde_json::from_slice(newest).map_err(|_| Errno::INVAL)?;
        }
    }
}

/// Kills the command's group. Returns whether a process of the group still runs.
fn kill(command: Process) -> bool {
    command.signal_group(Signal::KILL);
    command.group_is_alive()
}

/// Kills the command's group again and again, until no process of the group runs.
fn kill_until_gone(command: Process) {
    let mut pause = Duration::from_millis(1);
    while kill(command) {
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Releases the lease of a dead wrapper, no earlier than `hold_until`. If the release fails, the lease ends with its
/// ttl.
fn release(lease_to_release: &LeaseToRelease) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let lease: DetachedLease = lease_to_release.lease.parse()?;
        let client = lease_to_release.access.builder().leases_outlive_process().connect_lazy().await?;
        while let Some(hold_left) = lease_to_release.hold_until.and_then(|until| until.checked_sub(boot_time())) {
            let pause = match client.extend(&lease).await {
                Ok(_) => lease.ttl() / 3,
                Err(LeaseError::NoQuorum { .. }) => PAUSE_MAX.min(lease.ttl() / 10),
                Err(error) => return Err(error.into()),
            };
            tokio::time::sleep(hold_left.min(pause)).await;
        }
        let expiry = boot_time() + lease.ttl();
        while let Err(LeaseError::NoQuorum { .. }) = client.release(&lease).await
            && boot_time() < expiry
        {
            tokio::time::sleep(PAUSE_MAX).await;
        }
        // Also wait for the reachable nodes beyond the majority.
        Ok(client.close(FLUSH_TIMEOUT).await?)
    })
}
