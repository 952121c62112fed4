//! `quorlock break`: ends somebody else's lease, and no newer one.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use quorlock::{Break, BreakMode, Broken, Digest, Fence, Target};
use serde::Serialize;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Failure};

/// End somebody else's lease.
///
/// It is named by the fence that `status` shows, so that a newer lease is never broken by mistake. Its holder learns of it
/// at once: a `quorlock run` kills its command and exits with 79. Nobody else gets the lock before the lease would have
/// ended anyway, unless it is to be free at once, with --now.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 it is broken   64 bad usage   69 no quorum   75 that lease does not stand any more

Example:
  quorlock break nightly-report --fence 1763267021482113 --reason 'db-3 hangs'")]
pub(crate) struct BreakArgs {
    /// What is locked.
    name: String,

    /// The lease's fence, as `status` shows it.
    #[arg(long, value_name = "N", required_unless_present = "digest")]
    fence: Option<u64>,

    /// For a plain lock, which has no fence: its digest, as `status` shows it.
    #[arg(long, value_name = "HEX", conflicts_with = "fence", value_parser = read_digest)]
    digest: Option<Digest>,

    /// Why, for those who look at the history.
    #[arg(long, value_name = "TEXT", value_parser = read_reason)]
    reason: String,

    /// Free the lock at once. Until the old holder learns of it, there may be two.
    #[arg(long)]
    now: bool,

    /// Do not ask for the name to be typed.
    #[arg(long)]
    yes: bool,
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    mode: &'static str,
    nodes: usize,
    drains_ms: u64,
    reason: &'a str,
}

/// Breaks the lease that is named.
pub(crate) async fn break_lock(context: &Context, args: BreakArgs) -> crate::Outcome {
    let target = match (args.fence, args.digest) {
        (_, Some(digest)) => Target::Digest(digest),
        (fence, None) => Target::Fence(Fence::new(fence.unwrap_or_default())),
    };
    if args.now && !args.yes {
        confirm(&args.name, target)?;
    }
    let mut what = Break::new(target, &args.reason);
    if args.now {
        what = what.now();
    }
    let mode = what.mode;
    let client = context.connect().await?;
    let broken = client.break_lock(&args.name, what).await?;
    if context.output.json {
        context.output.json(&Done {
            name: &args.name,
            fence: args.fence,
            digest: args.digest.map(|digest| digest.to_string()),
            mode: if mode == BreakMode::Now { "now" } else { "drain" },
            nodes: broken.nodes,
            drains_ms: broken.drains.as_millis() as u64,
            reason: &args.reason,
        })?;
    } else {
        context.output.line(describe(&broken, client.nodes().len()))?;
    }
    // What is told to the nodes besides is told before we go.
    let _ = client.close(CLOSING).await;
    Ok(Exit::OK)
}

/// The longest time to wait for nodes that do not answer, when everything is done.
const CLOSING: Duration = Duration::from_secs(1);

fn describe(broken: &Broken, of: usize) -> String {
    let (name, nodes) = (&broken.name, broken.nodes);
    let then = if broken.drains.is_zero() {
        "and free".to_owned()
    } else {
        format!("and nobody else gets it for another {}", show(broken.drains))
    };
    format!("{name} is broken on {nodes} of {of} nodes, {then}")
}

/// Lets whoever is at the terminal type the name: it may be the wrong one.
fn confirm(name: &str, target: Target) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "break --now frees {name} while its holder may still be at work.\n  \
             Without --now it drains first. If you mean it, and there is nobody to ask: --yes"
        )));
    }
    let internal = |error: io::Error| Failure::Internal(format!("cannot ask: {error}"));
    let mut terminal = io::stderr();
    write!(
        terminal,
        "quorlock: this frees {name} ({target}) while its holder may still be at work.\n  Type its name to go on: "
    )
    .and_then(|()| terminal.flush())
    .map_err(internal)?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(internal)?;
    if typed.trim_end_matches(['\r', '\n']) == name {
        Ok(())
    } else {
        Err(Failure::Usage(format!("that was not {name:?}: nothing was broken")))
    }
}

fn read_digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "16 hexadecimal digits, as `quorlock status` shows them".into())
}

fn read_reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it must say something".into()) } else { Ok(text.into()) }
}
