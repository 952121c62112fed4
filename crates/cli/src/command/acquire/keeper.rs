//! The background process that extends a lease while another process lives.
//!
//! This process, the *keeper*, runs the same program under another name. It gets the same arguments, and therefore the
//! same settings. It reads the lease from its stdin, because other users can read arguments.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock::{Client, DetachedLease, LeaseError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::sync::oneshot;

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::exit::{Exit, Failure, Outcome};
use crate::process::Process;

/// The name of the keeper in process lists.
const NAME: &str = "quorlock-keeper";
/// The keeper's message that it has taken over the lease.
const READY: &str = "ready";
/// The longest pause after an extension that too few nodes acknowledged.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Returns whether this process is a keeper.
pub(super) fn is_keeper() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Starts a keeper that extends the lease while `watched` lives. Waits until the keeper has taken over the lease.
pub(super) async fn start(lease: &DetachedLease, watched: Process) -> Outcome<()> {
    let lease = lease.reveal();
    let started = tokio::task::spawn_blocking(move || {
        // The path of this program may already belong to a newer version.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).args(std::env::args_os().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            writeln!(stdin, "{lease}\n{}", watched.start)?;
        }
        let output = child.stdout.take().map(io::read_to_string).transpose()?;
        match output.as_deref().map(str::trim_end) {
            Some(READY) => Ok(()),
            _ => Err(io::Error::other("the background process ended at once")),
        }
    });
    let started = started.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    started.map_err(Failure::cannot("extend the lease in the background"))
}

/// Extends the lease while the process with this id lives, then releases the lease.
pub(super) async fn keep(context: &Context, pid: u32) -> Outcome {
    // In a session of its own, neither the terminal nor a signal to the script's process group ends the keeper.
    rustix::process::setsid().map_err(Failure::cannot("start a session"))?;
    let (lease, start) = read_orders().map_err(Failure::cannot("read the lease"))?;
    let end = watch(Process { pid, start }).map_err(Failure::cannot("watch the process"))?;
    let client = context.builder_without_lock()?.leases_outlive_process().connect_lazy().await?;
    client.extend(&lease).await?;
    writeln!(io::stdout(), "{READY}").map_err(Failure::cannot("report"))?;
    detach_stdio().map_err(Failure::cannot("detach from the terminal"))?;
    let result = extend_until(&client, &lease, end).await;
    if result.is_ok() {
        // Nobody is left to whom we could report that the release failed.
        let _ = client.release(&lease).await;
    }
    let _ = client.close(FLUSH_TIMEOUT).await;
    result.map(|()| Exit::OK)
}

/// Reads the lease, and the start time of the process for which the keeper extends it.
fn read_orders() -> io::Result<(DetachedLease, u64)> {
    let text = io::read_to_string(io::stdin())?;
    let (lease, start) = text.trim_end().split_once('\n').ok_or(io::ErrorKind::InvalidData)?;
    Ok((lease.parse().map_err(io::Error::other)?, start.parse().map_err(io::Error::other)?))
}

/// Returns a receiver that resolves when the process ends, or at once if it has ended.
fn watch(process: Process) -> io::Result<oneshot::Receiver<()>> {
    let (sender, receiver) = oneshot::channel();
    let pid = process.as_pid().ok_or(io::ErrorKind::InvalidInput)?;
    let opened = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(opened) => opened,
        Err(Errno::SRCH) => return Ok(receiver),
        Err(error) => return Err(error.into()),
    };
    // Another process may have got the id before we opened it.
    if process.is_alive() {
        std::thread::Builder::new().name("quorlock-watch".into()).spawn(move || {
            let _ = retry_on_intr(|| poll(&mut [PollFd::new(&opened, PollFlags::IN)], None));
            drop(sender);
        })?;
    }
    Ok(receiver)
}

/// Extends the lease until the receiver resolves. Fails if the lease is lost.
async fn extend_until(client: &Client, lease: &DetachedLease, mut end: oneshot::Receiver<()>) -> Outcome<()> {
    let mut pause = lease.ttl() / 3;
    loop {
        if tokio::time::timeout(pause, &mut end).await.is_ok() {
            return Ok(());
        }
        pause = match client.extend(lease).await {
            Ok(_) => lease.ttl() / 3,
            // A majority may answer again before the lease ends.
            Err(LeaseError::NoQuorum { .. }) => RETRY_PAUSE_MAX.min(lease.ttl() / 10),
            Err(error) => return Err(error.into()),
        };
    }
}

/// Replaces stdin, stdout and stderr, so that nobody who reads the script's output waits for the keeper.
fn detach_stdio() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
