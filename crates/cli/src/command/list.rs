//! `quorlock list`: lists the locks that are held or waited for.

use clap::Args;
use quorlock::{Filter, LIST_DEFAULT, LIST_MAX, Listing, LockView};
use serde_json::json;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::{TITLES, cells, summary};
use crate::output::{Output, Paint};
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Show names that match; * is any text, ? one character [default: all].
    #[arg(value_name = "GLOB", default_value = "*", hide_default_value = true)]
    glob: String,

    /// Show at most N names.
    #[arg(long, value_name = "N", default_value_t = LIST_DEFAULT)]
    limit: usize,
}

impl ListArgs {
    pub(crate) fn filter(&self) -> Outcome<Filter> {
        if self.limit == 0 || self.limit > LIST_MAX {
            return Err(Failure::usage(format_args!("--limit must be between 1 and {LIST_MAX} (got {})", self.limit)));
        }
        Ok(Filter::new(&self.glob).limit(self.limit))
    }
}

pub(crate) async fn list(context: &Context, args: &ListArgs) -> Outcome {
    let filter = args.filter()?;
    let listing = context.connect().await?.list(&filter).await?;
    let (output, locks) = (context.output, lock_views(&listing));
    if output.json {
        let missing = listing.missing.iter().map(|(node, why)| json!({ "node": node, "trouble": why.to_string() }));
        let missing: Vec<_> = missing.collect();
        return output.json(&json!({ "names": locks, "truncated": listing.is_truncated, "missing": missing }));
    }
    if locks.is_empty() {
        output.note("no lock is held or waited for");
    } else {
        lock_table(output, &locks).print(output)?;
    }
    for remark in remarks(&listing) {
        output.note(remark);
    }
    Ok(Exit::OK)
}

/// Returns the listed locks, in the form in which they are printed.
pub(crate) fn lock_views(listing: &Listing) -> Vec<LockView> {
    listing.names.iter().map(LockView::from).collect()
}

/// Returns a remark for each reason why the listing may be incomplete.
pub(crate) fn remarks(listing: &Listing) -> Vec<String> {
    let cut = listing.is_truncated.then(|| "there are more locks: give a pattern, or raise --limit".to_owned());
    let missing = listing.missing.iter().map(|(node, why)| format!("{node} was not searched: {why}"));
    cut.into_iter().chain(missing).collect()
}

/// Returns a table with a row for each lock, and if the output is verbose, for each node below its lock.
pub(crate) fn lock_table(output: Output, locks: &[LockView]) -> Table {
    let mut table = Table::new(["NAME"].into_iter().chain(TITLES).chain(["NODES"]));
    for lock in locks {
        let name = (lock.name.clone(), Some(Paint::BOLD));
        let holding = lock.nodes.iter().filter(|node| node.held).count();
        let nodes = (format!("{holding}/{}", lock.nodes.len()), None);
        table.painted_row([name].into_iter().chain(cells(&summary(lock))).chain([nodes]));
        for node in lock.nodes.iter().filter(|_| output.verbose) {
            let title = (format!("  {}", node.node), Some(Paint::DIM));
            table.painted_row([title].into_iter().chain(cells(node)));
        }
    }
    table
}
