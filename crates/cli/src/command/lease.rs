//! `quorlock extend`, `release` and `check`: commands on a lease that `quorlock acquire` printed.

use std::time::Duration;

use clap::Args;
use quorlock::{DetachedLease, LeaseError, LeaseTextError, Released};
use serde_json::json;

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::duration::{millis, show};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::read_stdin;
use crate::table::one_line;

/// The environment variable with the lease of a script.
const VARIABLE: &str = "QUORLOCK_LEASE";

#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// The lease that acquire printed, or - to read it from stdin [default: $QUORLOCK_LEASE].
    #[expect(clippy::doc_markdown, reason = "doc comments are help texts here")]
    lease: Option<String>,
}

impl LeaseArgs {
    fn read(&self) -> Outcome<DetachedLease> {
        let (text, origin) = match self.lease.as_deref() {
            Some("-") => (read_stdin("a lease")?, "stdin"),
            Some(text) => (text.to_owned(), "the argument"),
            None => (std::env::var(VARIABLE).unwrap_or_default(), "$QUORLOCK_LEASE"),
        };
        text.parse().map_err(|error| match error {
            LeaseTextError::Empty if self.lease.is_none() => Failure::usage(format_args!(
                "no lease: set ${VARIABLE}, as eval \"$(quorlock acquire NAME --format sh)\" does, or give it as - on stdin"
            )),
            error => Failure::usage(format_args!("{origin}: {error}")),
        })
    }
}

pub(crate) async fn extend(context: &Context, args: &LeaseArgs) -> Outcome {
    let lease = args.read()?;
    let validity = context.connect().await?.extend(&lease).await;
    report(context, &lease, validity, "extended")
}

pub(crate) async fn check(context: &Context, args: &LeaseArgs) -> Outcome {
    let lease = args.read()?;
    let validity = context.connect().await?.check(&lease).await;
    report(context, &lease, validity, "held")
}

/// Prints whether the lease is held, and for how long.
fn report(context: &Context, lease: &DetachedLease, validity: Result<Duration, LeaseError>, what: &str) -> Outcome {
    let name = lease.name().as_str();
    let is_lost = matches!(validity, Err(LeaseError::Lost(_)));
    if context.output.json && (validity.is_ok() || is_lost) {
        let fence = lease.fence().map(quorlock::Fence::get);
        let valid_ms = validity.as_ref().map_or(0, |validity| millis(*validity));
        context.output.json(&json!({ "name": name, "held": !is_lost, "fence": fence, "valid_ms": valid_ms }))?;
    }
    let validity = show(validity?);
    if !context.output.json && !context.output.quiet {
        context.output.line(format!("{} is {what}, for another {validity} at least", one_line(name)))?;
    }
    Ok(Exit::OK)
}

pub(crate) async fn release(context: &Context, args: &LeaseArgs) -> Outcome {
    let lease = args.read()?;
    let client = context.connect().await?;
    let released = client.release(&lease).await;
    // Also wait for the reachable nodes beyond the majority.
    context.output.detail_error(client.close(FLUSH_TIMEOUT).await);
    let was_held = released? == Released::StillHeld;
    let name = lease.name().as_str();
    if context.output.json || !context.output.quiet {
        let what = if was_held { "is released" } else { "was not held by this lease any more" };
        context
            .output
            .result(&json!({ "name": name, "stood": was_held }), format_args!("{} {what}", one_line(name)))?;
    }
    Ok(Exit::OK)
}
