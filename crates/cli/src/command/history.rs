//! `quorlock history`: shows past events of locks.

use clap::Args;
use quorlock::{Event, EventView, What};
use serde_json::json;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::{elapsed, or_dash};
use crate::output::Paint;
use crate::table::Table;

/// Show who broke which lock, and why.
#[derive(Args, Debug)]
#[command(before_help = "\
The nodes always record breaks. They record grants, releases and losses only for clients that ask for it.")]
#[command(after_help = "\
Exit codes:
  0 shown, even if there are no events   69 no node answers

Example:
  quorlock history nightly-report")]
pub(crate) struct HistoryArgs {
    /// Show only events of this lock [default: all].
    name: Option<String>,

    /// Show the newest N events.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) async fn history(context: &Context, args: &HistoryArgs) -> Outcome {
    let client = context.connect().await?;
    // The newest events may all belong to other names.
    let read_limit = if args.name.is_some() { quorlock::HISTORY_MAX } else { args.limit };
    let events = client.history(read_limit).await.map_err(|error| Failure::new(Exit::NO_QUORUM, error))?;
    let is_about_name = |event: &&Event| args.name.as_ref().is_none_or(|name| event.name.as_str() == name);
    let events = events.iter().filter(is_about_name).take(args.limit);
    if context.output.json {
        let events: Vec<EventView> = events.map(EventView::from).collect();
        return context.output.json(&json!({ "events": events }));
    }
    if events.clone().next().is_none() {
        context.output.note("no events");
        return Ok(Exit::OK);
    }
    let mut table = Table::new(["WHEN", "NAME", "WHAT", "FENCE", "BY", "MODE", "REASON"]);
    for event in events {
        let ago = elapsed(event.at_micros / 1_000).map_or_else(|| "?".into(), |ago| format!("{} ago", show(ago)));
        let paint = matches!(event.what, What::Broken | What::Lost).then_some(Paint::WARN);
        table.painted_row([
            (ago, Some(Paint::DIM)),
            (event.name.to_string(), Some(Paint::BOLD)),
            (event.what.as_str().to_owned(), paint),
            (or_dash(event.fence), None),
            (or_dash(event.holder.as_ref()), None),
            (event.mode.clone(), None),
            (event.reason.clone(), None),
        ]);
    }
    table.print(context.output)
}
