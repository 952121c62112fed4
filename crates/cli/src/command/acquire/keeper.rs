//! The background process that extends a lease while another process lives.
//!
//! It is this program, started again under another name with the same arguments, and so the same settings. It gets secrets
//! over its stdin.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock::{Client, DetachedLease, LeaseError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::sync::oneshot;

use crate::context::{Context, FLUSH};
use crate::exit::{Exit, Failure, Outcome};
use crate::process::Process;

/// The name of the process in process lists.
const NAME: &str = "quorlock-keeper";
/// The message that it has taken over.
const READY: &str = "ready";
/// The pause after a failed extension.
const AGAIN: Duration = Duration::from_millis(500);

/// Returns whether this process is a keeper.
pub(super) fn is_keeper() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Starts a keeper, and waits until it has taken over.
pub(super) async fn start(lease: &DetachedLease, kept: Process) -> Outcome<()> {
    let lease = lease.reveal();
    let started = tokio::task::spawn_blocking(move || {
        // Not the program's path, which may lead to a newer version by now.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).args(std::env::args_os().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            writeln!(stdin, "{lease}\n{}", kept.start)?;
        }
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim_end() == READY { Ok(()) } else { Err(io::Error::other("it ended at once")) }
    });
    let started = started.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    started.map_err(Failure::cannot("keep the lease"))
}

/// Keeps the lease while the process lives, then releases it.
pub(super) async fn keep(context: &Context, pid: u32) -> Outcome {
    // Neither the terminal nor a signal to the script's process group may end it.
    rustix::process::setsid().map_err(Failure::cannot("start a session"))?;
    let (lease, start) = told().map_err(Failure::cannot("read the lease"))?;
    let ended = watch(Process { pid, start }).map_err(Failure::cannot("watch the process"))?;
    let client = context.operator()?.outlived_by_leases().connect_lazy().await?;
    client.extend(&lease).await?;
    writeln!(io::stdout(), "{READY}").map_err(Failure::cannot("report"))?;
    go_silent().map_err(Failure::cannot("detach from the terminal"))?;
    let kept = extend_until(&client, &lease, ended).await;
    if kept.is_ok() {
        // Nobody is left to learn whether it was still held.
        let _ = client.release(&lease).await;
    }
    let _ = client.close(FLUSH).await;
    kept.map(|()| Exit::OK)
}

/// Reads the lease, and the start time of the process that it is kept for.
fn told() -> io::Result<(DetachedLease, u64)> {
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
    // The id may have been reused before it was opened.
    if process.is_alive() {
        std::thread::Builder::new().name("quorlock-watch".into()).spawn(move || {
            let _ = retry_on_intr(|| poll(&mut [PollFd::new(&opened, PollFlags::IN)], None));
            drop(sender);
        })?;
    }
    Ok(receiver)
}

async fn extend_until(client: &Client, lease: &DetachedLease, mut ended: oneshot::Receiver<()>) -> Outcome<()> {
    let mut rest = lease.ttl() / 3;
    loop {
        if tokio::time::timeout(rest, &mut ended).await.is_ok() {
            return Ok(());
        }
        rest = match client.extend(lease).await {
            Ok(_) => lease.ttl() / 3,
            // A majority may answer again in time.
            Err(LeaseError::NoQuorum { .. }) => AGAIN.min(lease.ttl() / 10),
            Err(error) => return Err(error.into()),
        };
    }
}

/// Detaches from the terminal, or from the pipes with which the script was started.
fn go_silent() -> io::Result<()> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}
