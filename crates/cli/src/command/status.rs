//! `quorlock status`: who has a name, and who waits for it.

use std::time::Duration;

use clap::Args;
use quorlock::LockView;

use crate::context::Context;
use crate::duration::show;
use crate::exit::Exit;
use crate::inspection::{Look as _, called, elapsed, show_holder, shown};
use crate::output::Paint;
use crate::table::{Table, one_line};
use crate::waiting::ordinal;

/// Show who has a lock, on every node, and since when others wait for it. It changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 known, held or not   69 no quorum

Example:
  quorlock status nightly-report")]
pub(crate) struct StatusArgs {
    /// What to look at.
    name: String,
}

/// Looks, and tells.
pub(crate) async fn status(context: &Context, args: &StatusArgs) -> crate::Outcome {
    let client = context.connect().await?;
    let look = LockView::from(&client.inspect(&args.name).await?);
    let output = context.output;
    if output.json {
        output.json(&look)?;
        return Ok(Exit::OK);
    }
    output.line(sentence(&look))?;
    let mut table = Table::new(["NODE", "HELD BY", "HOW", "FENCE", "FOR", "LEFT", "WAITING"]);
    for node in &look.nodes {
        let paint = match (&node.trouble, node.held) {
            (Some(_), _) => Some(Paint::Bad),
            (None, true) => None,
            (None, false) => Some(Paint::Dim),
        };
        table.painted_row([
            (node.node.clone(), None),
            (node.who(), paint),
            (node.manner(), None),
            (called(node.fence, node.digest.as_deref()), None),
            (shown(node.held_for()), None),
            (shown(node.left_ms.map(Duration::from_millis)), None),
            (node.waiting.to_string(), None),
        ]);
    }
    table.print(output)?;
    for line in line(&look) {
        output.line(line)?;
    }
    Ok(Exit::OK)
}

/// Who waits, in order.
fn line(look: &LockView) -> Vec<String> {
    let listed = (1..).zip(&look.queue).map(|(place, waiting)| {
        let how = if waiting.shared { ", to share it" } else { "" };
        format!("{} in the queue for {}{how}", ordinal(place), shown(elapsed(waiting.since_ms)))
    });
    let more = usize::try_from(look.waiting).unwrap_or(usize::MAX).saturating_sub(look.queue.len());
    listed.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// What a majority says, in one line.
fn sentence(look: &LockView) -> String {
    let name = one_line(&look.name);
    let who = match (look.held, &look.holder) {
        (true, Some(holder)) => format!("{name} is held by {}", show_holder(holder)),
        (true, None) => format!("{name} is held by somebody who does not say"),
        (false, _) if look.nodes.iter().any(|node| node.held) => format!("{name} is in the middle of a change"),
        (false, _) => format!("{name} is free"),
    };
    let held = look.held.then_some(look);
    let parts = [
        Some(who),
        held.and_then(LockView::how).map(|how| format!(", {how}")),
        look.held_for().map(|held| format!(" for {}", show(held))),
        held.and_then(|look| look.left_ms).map(|left| {
            let left = show(Duration::from_millis(left));
            if look.broken {
                format!("; it was broken, and is free in {left}")
            } else {
                format!("; its lease ends in {left} unless renewed")
            }
        }),
    ];
    let text: String = parts.into_iter().flatten().collect();
    match look.waiting {
        0 => text,
        1 => text + "; 1 waits",
        many => text + &format!("; {many} wait"),
    }
}
