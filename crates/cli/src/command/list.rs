//! `quorlock list`: everything that is held or waited for.

use clap::Args;
use quorlock::{Filter, LIST_DEFAULT, LIST_MAX, Listing, LockView};
use serde::Serialize;

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::inspection::{Look as _, called, shown, spread};
use crate::output::{Output, Paint};
use crate::table::Table;

/// Which names.
#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    /// Names that fit this pattern: * stands for any text, ? for any one letter [default: all].
    #[arg(value_name = "GLOB", default_value = "*", hide_default_value = true)]
    glob: String,

    /// At most so many names.
    #[arg(long, value_name = "N", default_value_t = LIST_DEFAULT)]
    limit: usize,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Result<Filter, Failure> {
        if self.limit == 0 || self.limit > LIST_MAX {
            return Err(Failure::Usage(format!("--limit {}: between 1 and {LIST_MAX}", self.limit)));
        }
        Ok(Filter::new(&self.glob).limit(self.limit))
    }
}

/// List the locks that are held or waited for. It changes nothing.
///
/// Redis servers are scanned step by step, so what comes and goes meanwhile may be missing. With -v, every node has a line
/// of its own.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 listed, also if there is nothing   69 no quorum

Example:
  quorlock list 'invoices/*'")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Serialize)]
struct Listed {
    names: Vec<LockView>,
    /// Whether there may be more.
    cut: bool,
    /// Nodes that could not be looked through.
    missing: Vec<Missing>,
}

#[derive(Serialize)]
struct Missing {
    node: String,
    trouble: String,
}

/// Lists, and tells what may be missing.
pub(crate) async fn list(context: &Context, args: &ListArgs) -> crate::Outcome {
    let filter = args.filter.filter()?;
    let client = context.connect().await?;
    let listing = client.list(&filter).await?;
    let (output, looks) = (context.output, looks(&listing));
    if output.json {
        let missing = listing.missing.iter();
        let missing = missing.map(|(node, why)| Missing { node: node.clone(), trouble: why.to_string() }).collect();
        output.json(&Listed { names: looks, cut: listing.is_cut, missing })?;
        return Ok(Exit::OK);
    }
    if looks.is_empty() {
        output.note("nothing is held or waited for");
    } else {
        table(output, &looks).print(output)?;
    }
    for remark in remarks(&listing) {
        output.note(remark);
    }
    Ok(Exit::OK)
}

pub(crate) fn looks(listing: &Listing) -> Vec<LockView> {
    listing.names.iter().map(LockView::from).collect()
}

/// What may be missing in a listing.
pub(crate) fn remarks(listing: &Listing) -> Vec<String> {
    let cut = listing.is_cut.then(|| "there are more: narrow it down by a pattern, or raise --limit".to_owned());
    let missing = listing.missing.iter().map(|(node, why)| format!("{node} was not looked through: {why}"));
    cut.into_iter().chain(missing).collect()
}

pub(crate) fn table(output: Output, looks: &[LockView]) -> Table {
    let mut table = Table::new(["NAME", "HELD BY", "HOW", "FENCE", "FOR", "LEFT", "WAITING", "NODES"]);
    for look in looks {
        let paint = if look.held { None } else { Some(Paint::Dim) };
        table.painted_row([
            (look.name.clone(), Some(Paint::Bold)),
            (look.who(), paint),
            (look.manner(), None),
            (called(look.fence, look.digest.as_deref()), None),
            (shown(look.held_for()), None),
            (shown(look.left_ms.map(std::time::Duration::from_millis)), None),
            (look.waiting.to_string(), None),
            (spread(look), None),
        ]);
        for node in look.nodes.iter().filter(|_| output.verbose) {
            table.painted_row([
                (format!("  {}", node.node), Some(Paint::Dim)),
                (node.who(), node.trouble.is_some().then_some(Paint::Bad)),
                (node.manner(), None),
                (called(node.fence, node.digest.as_deref()), None),
                (shown(node.held_for()), None),
                (shown(node.left_ms.map(std::time::Duration::from_millis)), None),
                (node.waiting.to_string(), None),
            ]);
        }
    }
    table
}
