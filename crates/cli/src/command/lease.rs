//! `quorlock extend`, `release` and `check`: what can be done with a lease that `acquire` printed.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use quorlock::{DetachedLease, LeaseTextError, Released};
use serde::Serialize;

use super::acquire::FLUSH;
use crate::context::Context;
use crate::duration::{millis, show};
use crate::exit::{Exit, Failure};
use crate::table::one_line;

/// The variable in which a script has its lease.
const VARIABLE: &str = "QUORLOCK_LEASE";

/// Which lease.
#[derive(Args, Debug)]
pub(crate) struct WhichArgs {
    /// The lease as acquire printed it, or - to read it from stdin [default: $QUORLOCK_LEASE]. Arguments can be seen by
    /// everybody on this machine: better use - or the environment.
    #[expect(clippy::doc_markdown, reason = "doc comments are help texts here")]
    lease: Option<String>,
}

impl WhichArgs {
    fn read(&self) -> Result<DetachedLease, Failure> {
        let (text, from) = match self.lease.as_deref() {
            Some("-") => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                read.map_err(|error| Failure::Usage(format!("cannot read a lease from stdin: {error}")))?;
                (text, "stdin")
            }
            Some(text) => (text.to_owned(), "the argument"),
            None => (std::env::var(VARIABLE).unwrap_or_default(), "$QUORLOCK_LEASE"),
        };
        text.parse().map_err(|error| match error {
            LeaseTextError::Empty if self.lease.is_none() => Failure::Usage(format!(
                "no lease: set ${VARIABLE}, as eval \"$(quorlock acquire NAME --format sh)\" does, or give it as - on stdin"
            )),
            error => Failure::Usage(format!("{from}: {error}")),
        })
    }
}

/// Let a lease last for another ttl.
///
/// Exits with 79 if the lease is lost: then nothing brings it back.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 extended   64 not a lease   69 no quorum: it may still be held   79 lost

Example:
  while sleep 10; do quorlock extend -q || break; done &")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Give a lock back by its lease, from any host.
///
/// A lease that has ended is released just as well.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 released   64 not a lease   69 no quorum: what could not be reached is free after the ttl

Example:
  trap 'quorlock release' EXIT")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Look whether a lease still stands. It changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 held   64 not a lease   69 no quorum: not known   79 lost

Example:
  quorlock check || exit")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    which: WhichArgs,
}

#[derive(Serialize)]
struct Standing<'a> {
    name: &'a str,
    held: bool,
    fence: Option<u64>,
    valid_ms: u64,
}

/// Restarts the ttl.
pub(crate) async fn extend(context: &Context, args: &ExtendArgs) -> crate::Outcome {
    let lease = args.which.read()?;
    let client = context.connect().await?;
    let left = client.extend(&lease).await.map_err(Failure::from);
    tell(context, &lease, left, "extended")
}

/// Looks whether a majority has it.
pub(crate) async fn check(context: &Context, args: &CheckArgs) -> crate::Outcome {
    let lease = args.which.read()?;
    let client = context.connect().await?;
    let left = client.check(&lease).await.map_err(Failure::from);
    tell(context, &lease, left, "held")
}

fn tell(context: &Context, lease: &DetachedLease, left: Result<Duration, Failure>, what: &str) -> crate::Outcome {
    let is_lost = matches!(left, Err(Failure::Lost(_)));
    if context.output.json && (left.is_ok() || is_lost) {
        let (name, fence) = (lease.name().as_str(), lease.fence().map(quorlock::Fence::get));
        let valid_ms = left.as_ref().map_or(0, |left| millis(*left));
        context.output.json(&Standing { name, held: !is_lost, fence, valid_ms })?;
    }
    let left = left?;
    if !context.output.json && !context.output.quiet {
        context.output.line(format!(
            "{} is {what}, for another {} at least",
            one_line(lease.name().as_str()),
            show(left)
        ))?;
    }
    Ok(Exit::OK)
}

#[derive(Serialize)]
struct Ended<'a> {
    name: &'a str,
    stood: bool,
}

/// Gives it back.
pub(crate) async fn release(context: &Context, args: &ReleaseArgs) -> crate::Outcome {
    let lease = args.which.read()?;
    let client = context.connect().await?;
    let released = client.release(&lease).await;
    // A majority knows of it; the others shall, too, if they can be reached.
    if let Err(error) = client.close(FLUSH).await {
        context.output.detail(error);
    }
    let stood = released? == Released::Standing;
    let name = lease.name().as_str();
    if context.output.json {
        context.output.json(&Ended { name, stood })?;
    } else if !context.output.quiet {
        let what = if stood { "is released" } else { "was not held by this lease any more" };
        context.output.line(format!("{} {what}", one_line(name)))?;
    }
    Ok(Exit::OK)
}
