//! `quorlock status`: shows the holder and the waiters of a lock.

use std::time::Duration;

use quorlock::LockView;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Outcome};
use crate::inspection::{TITLES, cells, elapsed, or_dash, sharing_text, show_holder, summary};
use crate::table::{Table, one_line};
use crate::wait_display::ordinal;

pub(crate) async fn status(context: &Context, name: &str) -> Outcome {
    let lock = LockView::from(&context.connect().await?.inspect(name).await?);
    let output = context.output;
    if output.json {
        return output.json(&lock);
    }
    output.line(state_line(&lock))?;
    let mut table = Table::new(["NODE"].into_iter().chain(TITLES));
    for node in &lock.nodes {
        table.painted_row([(node.node.clone(), None)].into_iter().chain(cells(node)));
    }
    table.print(output)?;
    for (position, waiter) in (1..).zip(&lock.queue) {
        let mode = if waiter.shared { ", for a shared lock" } else { "" };
        let waited = or_dash(elapsed(waiter.since_ms).map(show));
        output.line(format_args!("{} in the queue for {waited}{mode}", ordinal(position)))?;
    }
    let more = usize::try_from(lock.waiting).unwrap_or(usize::MAX).saturating_sub(lock.queue.len());
    if more > 0 {
        output.line(format_args!("and {more} more"))?;
    }
    Ok(Exit::OK)
}

/// Describes the state of the lock on a majority of the nodes, in one line.
fn state_line(lock: &LockView) -> String {
    let (name, summary) = (one_line(&lock.name), summary(lock));
    let state = match (lock.held, &summary.trouble) {
        (true, _) => format!("{name} is held by {}", show_holder(lock.holder.as_ref())),
        (false, Some(trouble)) => format!("{name} is {trouble}"),
        (false, None) => format!("{name} is free"),
    };
    let sharing = sharing_text(&summary).filter(|_| lock.held).map(|sharing| format!(", {sharing}"));
    let held_for = summary.since_ms.and_then(elapsed).map(|held_for| format!(" for {}", show(held_for)));
    let left = lock.left_ms.filter(|_| lock.held).map(|left| match show(Duration::from_millis(left)) {
        left if lock.broken => format!("; its lease was broken, and ends in {left}"),
        left => format!("; its lease ends in {left} unless renewed"),
    });
    let waiting = match lock.waiting {
        0 => None,
        1 => Some("; 1 waits".to_owned()),
        many => Some(format!("; {many} wait")),
    };
    [Some(state), sharing, held_for, left, waiting].into_iter().flatten().collect()
}
