//! `quorlock run`: a command that runs while the lock is held, and no longer.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use quorlock::{Client, Lease, Lock};

use crate::args::{PlaceArgs, RunArgs};
use crate::child::{Child, Interrupts};
use crate::exit::{Exit, Failure};

/// The command is dead this long before the lease can be somebody else's.
const MARGIN: Duration = Duration::from_millis(500);
/// How long to wait for the nodes to hear of a release that a majority has not acknowledged.
const FLUSH: Duration = Duration::from_secs(1);

/// Acquires, runs, releases.
pub(crate) async fn run(place: &PlaceArgs, args: RunArgs) -> crate::Outcome {
    check(place, &args)?;
    let mut interrupts = Interrupts::listen().map_err(|error| Failure::Internal(format!("no signals: {error}")))?;
    let client = place.builder()?.connect().await?;
    let label = args
        .label
        .clone()
        .unwrap_or_else(|| Path::new(&args.command[0]).file_name().unwrap_or_default().to_string_lossy().into_owned());
    let lock = client.lock(&args.name).ttl(args.ttl).label(&label);
    let lease = tokio::select! {
        lease = acquire(&lock, &args) => lease?,
        signal = interrupts.next_fatal() => {
            // Dropping the attempt gave everything back; what is left is to deliver it.
            let _ = client.close(FLUSH).await;
            return Ok(Exit::signal(signal));
        }
    };
    let done = supervise(place, &args, &lease, &mut interrupts).await;
    let valid = lease.ensure(Duration::ZERO);
    let _ = lease.release().await;
    flush(client).await;
    match (done?, valid) {
        (_, Err(lost)) => Err(Failure::Lost(lost)),
        (exit, Ok(())) => Ok(exit),
    }
}

fn check(place: &PlaceArgs, args: &RunArgs) -> Result<(), Failure> {
    if place.nodes.iter().any(|url| url.starts_with("memory:")) {
        return Err(Failure::Config(
            "memory: is gone with the process, so it locks nobody else out: not for run".into(),
        ));
    }
    let least = (args.kill_grace + Duration::from_secs(1)) * 3;
    if args.ttl < least {
        return Err(Failure::Usage(format!(
            "a ttl of {:?} leaves no time to end the command before the lock is lost: with a kill grace of {:?} it has to \
             be at least {least:?}\n  shorten the grace: --kill-grace 500ms",
            args.ttl, args.kill_grace
        )));
    }
    Ok(())
}

async fn acquire(lock: &Lock, args: &RunArgs) -> Result<Lease, Failure> {
    let wait = match args.wait {
        Some(wait) => Some(wait),
        None if args.no_wait || !std::io::stderr().is_terminal() => Some(Duration::ZERO),
        None => None,
    };
    if wait == Some(Duration::ZERO) {
        return Ok(lock.acquire_within(Duration::ZERO).await?);
    }
    let first = lock.acquire_within(Duration::ZERO).await;
    match first {
        Ok(lease) => return Ok(lease),
        Err(quorlock::AcquireError::Held(held)) if !args.quiet => {
            let by = held.holder.map_or_else(String::new, |holder| format!(", held by {holder}"));
            eprintln!("quorlock: waiting for {}{by}", args.name);
        }
        Err(quorlock::AcquireError::NoQuorum { tally, .. }) if !args.quiet => {
            eprintln!("quorlock: waiting for {}: no quorum yet, {tally}", args.name);
        }
        Err(error @ quorlock::AcquireError::Config(_)) => return Err(error.into()),
        Err(_) => {}
    }
    match wait {
        Some(wait) => Ok(lock.acquire_within(wait).await?),
        None => Ok(lock.acquire().await?),
    }
}

/// Runs the command and sees to it that it is dead before the lease can be somebody else's.
async fn supervise(place: &PlaceArgs, args: &RunArgs, lease: &Lease, interrupts: &mut Interrupts) -> crate::Outcome {
    let lost = Failure::Lost;
    let environment = [
        ("QUORLOCK_NAME", args.name.clone()),
        ("QUORLOCK_FENCE", lease.fence().map_err(|error| Failure::Internal(error.to_string()))?.to_string()),
        ("QUORLOCK_LEASE", lease.id().reveal()),
        ("QUORLOCK_TTL_MS", args.ttl.as_millis().to_string()),
        ("QUORLOCK_NODES", place.urls()?.join(",")),
    ];
    let mut child = Child::spawn(&args.command, environment)?;
    let mut asked_to_end = false;
    loop {
        // Renewals move the end of validity away; as long as they do, there is nothing to do here.
        let left = lease.validity();
        if left <= MARGIN {
            child.kill().await;
            return Err(lease.ensure(Duration::ZERO).err().map_or(lost(quorlock::LostError::Expired), lost));
        }
        if left <= MARGIN + args.kill_grace && !asked_to_end {
            eprintln!("quorlock: {} cannot be renewed: ending the command", args.name);
            child.signal(rustix::process::Signal::TERM);
            asked_to_end = true;
        }
        let notice = if asked_to_end { MARGIN } else { MARGIN + args.kill_grace };
        tokio::select! {
            exit = child.wait() => return exit.map(|exit| if asked_to_end { Exit::LOST } else { exit }),
            signal = interrupts.next() => child.pass_on(signal),
            lost = lease.lost() => {
                child.kill().await;
                return Err(Failure::Lost(lost));
            }
            () = tokio::time::sleep(left.saturating_sub(notice)) => {}
        }
    }
}

/// A majority knows of the release; the others shall, too, if they can be reached.
async fn flush(client: Client) {
    let _ = client.close(FLUSH).await;
}
