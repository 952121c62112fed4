//! `quorlock break`: ends one lease of another client, and never a newer lease.

use std::io::{self, IsTerminal};

use clap::Args;
use quorlock::{Break, Broken, Digest, Fence, Target};
use serde_json::json;

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::duration::{millis, show};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::ask;

/// End somebody else's lease.
#[derive(Args, Debug)]
#[command(before_help = "\
Name the lease by its fence, so that a newer lease is never broken by mistake. The holder is notified at once: \
`quorlock run` stops its command and exits with 79. Nobody else can acquire the lock before the lease would have \
expired, unless you pass --now.")]
#[command(after_help = "\
Exit codes:
  0 broken   64 usage   69 no quorum   75 that lease is over

Example:
  quorlock break nightly-report --fence 1763267021482113 --reason 'db-3 hangs'")]
pub(crate) struct BreakArgs {
    /// The lock.
    name: String,

    /// End the lease with this fence, from `quorlock status`.
    #[arg(long, value_name = "N", required_unless_present = "digest", value_parser = read_fence)]
    #[arg(help_heading = "Which lease")]
    fence: Option<u64>,

    /// End a plain lock, which has no fence, by its digest from `quorlock status`.
    #[arg(long, value_name = "HEX", conflicts_with = "fence", value_parser = read_digest, help_heading = "Which lease")]
    digest: Option<Digest>,

    /// Record this reason in the history.
    #[arg(long, value_name = "TEXT", value_parser = read_reason, help_heading = "How")]
    reason: String,

    /// Free the lock at once; until the old holder is notified there may be two.
    #[arg(long, help_heading = "How")]
    now: bool,

    /// Do not ask to type the name.
    #[arg(long, help_heading = "How")]
    yes: bool,
}

pub(crate) async fn break_lock(context: &Context, args: BreakArgs) -> Outcome {
    let target = match (args.fence, args.digest) {
        (_, Some(digest)) => Target::Digest(digest),
        (fence, None) => Target::Fence(Fence::new(fence.unwrap_or_default())),
    };
    if args.now && !args.yes {
        confirm(&args.name, target)?;
    }
    let request = Break::new(target, &args.reason);
    let request = if args.now { request.now() } else { request };
    let client = context.connect().await?;
    let Broken { name, nodes, drain_time, .. } = client.break_lock(&args.name, request).await?;
    let (mode, drain_ms) = (if args.now { "now" } else { "drain" }, millis(drain_time));
    let mut json =
        json!({ "name": args.name, "mode": mode, "nodes": nodes, "drain_ms": drain_ms, "reason": args.reason });
    match target {
        Target::Digest(digest) => json["digest"] = digest.to_string().into(),
        Target::Fence(fence) => json["fence"] = fence.get().into(),
    }
    let availability = if drain_time.is_zero() {
        "and free".to_owned()
    } else {
        format!("and nobody else can acquire it for another {}", show(drain_time))
    };
    let total = client.nodes().len();
    context.output.result(&json, format_args!("{name} is broken on {nodes} of {total} nodes, {availability}"))?;
    // Also wait for reachable nodes that have not answered yet.
    let _ = client.close(FLUSH_TIMEOUT).await;
    Ok(Exit::OK)
}

/// Makes the user type the name of the lock, to prevent mistakes.
fn confirm(name: &str, target: Target) -> Outcome<()> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format_args!(
            "break --now frees {name} while its holder may still be working.\n  \
             Without --now, the lock is free when the lease would have ended. To free the lock now without a question: --yes"
        )));
    }
    let typed = ask(format_args!(
        "this frees {name} ({target}) while its holder may still be working.\n  Type the name of the lock to continue:"
    ))?;
    if typed == name { Ok(()) } else { Err(Failure::usage(format_args!("that was not {name:?}: nothing was broken"))) }
}

fn read_fence(text: &str) -> Result<u64, String> {
    let hint = "a fence is the number of a lease, as `quorlock status` shows it; if the lock is free, it has no fence";
    text.parse().map_err(|_| hint.into())
}

fn read_digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "a digest has 16 hexadecimal digits, as `quorlock status` shows them".into())
}

fn read_reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("the reason must not be blank".into()) } else { Ok(text.into()) }
}
