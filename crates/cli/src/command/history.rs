//! `quorlock history`: shows the history of locks.

use clap::Args;
use quorlock::{Event, HolderView, What};
use serde_json::json;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Failure};
use crate::inspection::elapsed;
use crate::output::Paint;
use crate::table::Table;

/// Show what has happened to locks: who broke which, and why.
///
/// The nodes always record breaks. They record grants, releases and losses only for clients that ask for it.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 known, even if nothing has happened   69 no node answers

Example:
  quorlock history nightly-report")]
pub(crate) struct HistoryArgs {
    /// Only events of this name.
    name: Option<String>,

    /// Show at most this many events, the newest ones.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

pub(crate) async fn history(context: &Context, args: &HistoryArgs) -> crate::Outcome {
    let client = context.connect().await?;
    // The events of one name may be scattered among many others.
    let searched = if args.name.is_some() { quorlock::HISTORY_MAX } else { args.limit };
    let events = client.history(searched).await.map_err(|error| Failure::new(Exit::NO_QUORUM, error))?;
    let is_wanted = |event: &&Event| args.name.as_ref().is_none_or(|name| event.name.as_str() == name);
    let events = events.iter().filter(is_wanted).take(args.limit);
    if context.output.json {
        let event = |event: &Event| {
            json!({
                "at_ms": event.at_micros / 1_000,
                "name": event.name.as_str(),
                "what": event.what.as_str(),
                "fence": event.fence.map(quorlock::Fence::get),
                "by": event.holder.as_ref().map(HolderView::from),
                "mode": event.mode,
                "reason": event.reason,
            })
        };
        context.output.json(&json!({ "events": events.map(event).collect::<Vec<_>>() }))?;
        return Ok(Exit::OK);
    }
    if events.clone().next().is_none() {
        context.output.note("no events");
        return Ok(Exit::OK);
    }
    let mut table = Table::new(["WHEN", "NAME", "WHAT", "FENCE", "BY", "MODE", "REASON"]);
    for event in events {
        let ago = elapsed(event.at_micros / 1_000).map_or_else(|| "?".into(), |ago| format!("{} ago", show(ago)));
        let paint = matches!(event.what, What::Broken | What::Lost).then_some(Paint::Warn);
        table.painted_row([
            (ago, Some(Paint::Dim)),
            (event.name.to_string(), Some(Paint::Bold)),
            (event.what.as_str().to_owned(), paint),
            (event.fence.map_or_else(|| "-".into(), |fence| fence.to_string()), None),
            (event.holder.as_ref().map_or_else(|| "-".into(), ToString::to_string), None),
            (event.mode.clone(), None),
            (event.reason.clone(), None),
        ]);
    }
    table.print(context.output)?;
    Ok(Exit::OK)
}
