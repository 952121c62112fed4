//! `quorlock run`: a command that runs while the lock is held, and no longer.

mod child;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use quorlock::{Client, Lease, Lock};

use crate::context::Context;
use crate::duration::parse_duration;
use crate::exit::{Exit, Failure};
use child::{Child, Interrupts};

/// Run a command while holding the lock.
///
/// The command gets its arguments untouched (there is no shell), and in its environment QUORLOCK_NAME, QUORLOCK_FENCE,
/// QUORLOCK_LEASE and QUORLOCK_TTL_MS. Its exit code is passed on. If the lock may be lost, the command is ended before
/// anybody else can have it.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
#[expect(clippy::doc_markdown, reason = "doc comments are help texts here")]
pub(crate) struct RunArgs {
    /// What to lock.
    name: String,

    /// The lock is free this long after this machine has died; it is renewed while the command runs [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,

    /// How long to wait for the lock [default: for ever on a terminal, else not at all].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait: if the lock is held, exit with 75.
    #[arg(short, long)]
    no_wait: bool,

    /// How long the command has after SIGTERM, before SIGKILL, when the lock may be lost [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    kill_grace: Option<Duration>,

    /// Shown to whoever finds the lock held [default: the command's name].
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const NOTES: &str = "\
Exit codes:
  the command's own, or 128+N if signal N killed it
  64 usage   69 no quorum   75 held   77 access denied   78 configuration
  79 lock lost, or not provable, during the run   126/127 not executable/not found
  130/143 interrupted while waiting

Example:
  quorlock run nightly-report --wait 5m -- /usr/local/bin/report.sh";

/// The command is dead this long before the lease can be somebody else's.
const MARGIN: Duration = Duration::from_millis(500);
/// How long to wait for the nodes to hear of a release that a majority has not acknowledged.
const FLUSH: Duration = Duration::from_secs(1);

/// How long things take, from the flags or the settings.
#[derive(Clone, Copy)]
struct Terms {
    ttl: Duration,
    kill_grace: Duration,
}

impl Terms {
    fn of(context: &Context, args: &RunArgs) -> Self {
        let or_set = |given: Option<Duration>, key| given.or(context.settings.duration(key)).unwrap_or_default();
        Self { ttl: or_set(args.ttl, "ttl"), kill_grace: or_set(args.kill_grace, "kill_grace") }
    }
}

/// Acquires, runs, releases.
pub(crate) async fn run(context: &Context, args: RunArgs) -> crate::Outcome {
    let terms = Terms::of(context, &args);
    check(context, terms)?;
    let mut interrupts = Interrupts::listen().map_err(|error| Failure::Internal(format!("no signals: {error}")))?;
    let client = context.connect().await?;
    let label = args
        .label
        .clone()
        .unwrap_or_else(|| Path::new(&args.command[0]).file_name().unwrap_or_default().to_string_lossy().into_owned());
    let lock = client.lock(&args.name).ttl(terms.ttl).label(&label);
    let lease = tokio::select! {
        lease = acquire(context, &lock, &args) => lease?,
        signal = interrupts.next_fatal() => {
            // Dropping the attempt gave everything back; what is left is to deliver it.
            let _ = client.close(FLUSH).await;
            return Ok(Exit::signal(signal));
        }
    };
    let done = supervise(context, &args, terms, &lease, &mut interrupts).await;
    let valid = lease.ensure(Duration::ZERO);
    let _ = lease.release().await;
    flush(client).await;
    match (done?, valid) {
        (_, Err(lost)) => Err(Failure::Lost(lost)),
        (exit, Ok(())) => Ok(exit),
    }
}

fn check(context: &Context, args: Terms) -> Result<(), Failure> {
    if context.settings.nodes().iter().any(|url| url.starts_with("memory:")) {
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

async fn acquire(context: &Context, lock: &Lock, args: &RunArgs) -> Result<Lease, Failure> {
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
        Err(quorlock::AcquireError::Held(held)) if !context.output.quiet => {
            let by = held.holder.map_or_else(String::new, |holder| format!(", held by {holder}"));
            eprintln!("quorlock: waiting for {}{by}", args.name);
        }
        Err(quorlock::AcquireError::NoQuorum { tally, .. }) if !context.output.quiet => {
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
async fn supervise(
    context: &Context,
    args: &RunArgs,
    terms: Terms,
    lease: &Lease,
    interrupts: &mut Interrupts,
) -> crate::Outcome {
    let lost = Failure::Lost;
    let environment = [
        ("QUORLOCK_NAME", args.name.clone()),
        ("QUORLOCK_FENCE", lease.fence().map_err(|error| Failure::Internal(error.to_string()))?.to_string()),
        ("QUORLOCK_LEASE", lease.id().reveal()),
        ("QUORLOCK_TTL_MS", terms.ttl.as_millis().to_string()),
        ("QUORLOCK_NODES", context.urls()?.join(",")),
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
        if left <= MARGIN + terms.kill_grace && !asked_to_end {
            eprintln!("quorlock: {} cannot be renewed: ending the command", args.name);
            child.signal(rustix::process::Signal::TERM);
            asked_to_end = true;
        }
        let notice = if asked_to_end { MARGIN } else { MARGIN + terms.kill_grace };
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
