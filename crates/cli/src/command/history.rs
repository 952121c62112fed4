//! `quorlock history`: what has happened to locks.

use std::time::{Duration, SystemTime};

use clap::Args;
use quorlock::{Event, HolderView, What};
use serde::Serialize;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Failure};
use crate::inspection::show_holder;
use crate::output::Paint;
use crate::table::Table;

/// Show what has happened to locks: who broke which, and why.
///
/// Breaks are always written down, on the nodes; grants, releases and losses are for clients that ask for it.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 known, even if nothing has happened   69 no node answers

Example:
  quorlock history nightly-report")]
pub(crate) struct HistoryArgs {
    /// Only of this name.
    name: Option<String>,

    /// At most so many events, the newest ones.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

#[derive(Serialize)]
struct Shown {
    events: Vec<ShownEvent>,
}

#[derive(Serialize)]
struct ShownEvent {
    at_ms: u64,
    name: String,
    what: &'static str,
    fence: Option<u64>,
    by: Option<HolderView>,
    mode: String,
    reason: String,
}

impl ShownEvent {
    fn new(event: &Event) -> Self {
        Self {
            at_ms: event.at_micros / 1_000,
            name: event.name.to_string(),
            what: event.what.as_str(),
            fence: event.fence.map(quorlock::Fence::get),
            by: event.holder.as_ref().map(HolderView::from),
            mode: event.mode.clone(),
            reason: event.reason.clone(),
        }
    }

    fn ago(&self) -> String {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.at_ms));
        // A node's clock may be a little ahead of ours.
        at.map_or_else(|| "?".into(), |at| format!("{} ago", show(at.elapsed().unwrap_or_default())))
    }
}

/// Looks, and tells.
pub(crate) async fn history(context: &Context, args: &HistoryArgs) -> crate::Outcome {
    let client = context.connect().await?;
    // A name's own events may be among many others.
    let looked_at = if args.name.is_some() { quorlock::HISTORY_MAX } else { args.limit };
    let events = client.history(looked_at).await.map_err(|error| Failure::NoQuorum(error.to_string()))?;
    let wanted = |event: &&Event| args.name.as_ref().is_none_or(|name| event.name.as_str() == name);
    let chosen: Vec<&Event> = events.iter().filter(wanted).take(args.limit).collect();
    let shown: Vec<ShownEvent> = chosen.iter().map(|event| ShownEvent::new(event)).collect();
    if context.output.json {
        context.output.json(&Shown { events: shown })?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(["WHEN", "NAME", "WHAT", "FENCE", "BY", "MODE", "REASON"]);
    for (event, shown) in chosen.iter().zip(&shown) {
        let paint = matches!(event.what, What::Broken | What::Lost).then_some(Paint::Warn);
        table.painted_row([
            (shown.ago(), Some(Paint::Dim)),
            (shown.name.clone(), Some(Paint::Bold)),
            (shown.what.to_owned(), paint),
            (shown.fence.map_or_else(|| "-".into(), |fence| fence.to_string()), None),
            (shown.by.as_ref().map_or_else(|| "-".into(), show_holder), None),
            (shown.mode.clone(), None),
            (shown.reason.clone(), None),
        ]);
    }
    table.print(context.output)?;
    Ok(Exit::OK)
}
