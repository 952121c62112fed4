//! `quorlock nodes`: how they are, the founding of a cluster, its quarantine, and its constants.

mod init;
mod reconfigure;
mod wait;

use std::time::Duration;

use clap::{Args, Subcommand};
use quorlock::{Examination, ExaminedNode, NodeState};
use serde::Serialize;

use crate::context::Context;
use crate::duration::show;
use crate::exit::Exit;
use crate::output::Paint;
use crate::table::Table;

/// Show the nodes, declare a new cluster, wait until all nodes can vote, or change a cluster's constants.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 a majority of the nodes can vote   69 it cannot   77 access denied   78 configuration

Example:
  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Declare that no lock can be outstanding: the nodes become one new cluster and may vote at once.
    ///
    /// It refuses while a node shows a lease, or cannot list its names.
    #[command(after_help = "Example:\n  quorlock nodes init --nodes redis://a,redis://b,redis://c")]
    Init {
        /// Yes, no lock can be outstanding on these nodes.
        #[arg(long)]
        yes: bool,
        /// Go on although there are leases: their holders may then share their locks with others.
        #[arg(long)]
        danger_discard_leases: bool,
    },
    /// Wait until every node can vote: those in quarantine, and those that are loading or unreachable.
    #[command(after_help = "Exit codes:
  0 all nodes can vote   69 some cannot, and the time is over   77 access denied   78 configuration

Example:
  quorlock nodes wait --timeout 5m")]
    Wait {
        /// Wait at most this long.
        #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse_duration, default_value = "10m")]
        timeout: Duration,
    },
    /// Change what everyone who uses the cluster has to agree on: to --max-ttl, --max-clock-skew and --nodes, as given here.
    ///
    /// Leases that are held are not renewed any more, and the nodes vote again after a quarantine of the longer max-ttl.
    /// A majority of the cluster's nodes has to be among --nodes; others have to be blank.
    #[command(after_help = "Example:\n  quorlock nodes reconfigure --max-ttl 5m --yes")]
    Reconfigure {
        /// Yes, whoever holds a lock may lose it.
        #[arg(long)]
        yes: bool,
    },
}

/// Shows the nodes, or does something about them.
pub(crate) async fn nodes(context: &Context, args: &NodesArgs) -> crate::Outcome {
    match args.action {
        None => list(context).await,
        Some(Action::Init { yes, danger_discard_leases }) => init::init(context, yes, danger_discard_leases).await,
        Some(Action::Wait { timeout }) => wait::wait(context, timeout).await,
        Some(Action::Reconfigure { yes }) => reconfigure::reconfigure(context, yes).await,
    }
}

async fn list(context: &Context) -> crate::Outcome {
    let found = context.operator()?.examine(Duration::ZERO).await;
    let output = context.output;
    if output.json {
        output.json(&Listed::new(&found))?;
    } else {
        let mut table = Table::new(["NODE", "STATE", "ROUND TRIP", "EPOCH", "MAY VOTE IN", "SKEW"]);
        for node in &found.nodes {
            let cell = |text: Option<String>| (text.unwrap_or_else(|| "-".into()), None);
            table.painted_row([
                (node.title.clone(), None),
                (node.state.to_string(), Some(paint(&node.state))),
                cell(node.round_trip.map(|took| format!("{:.1}ms", took.as_secs_f64() * 1e3))),
                cell(node.epoch.clone()),
                cell(left(&node.state).map(show)),
                cell(node.skew.map(|skew| format!("{:+.1}ms", skew.micros as f64 / 1e3))),
            ]);
        }
        table.print(output)?;
        for (node, why) in found.nodes.iter().filter_map(|node| Some((node, reason(&node.state)?))) {
            output.note(format_args!("{}: {why}", node.title));
        }
    }
    let any = |is: fn(&NodeState) -> bool| found.nodes.iter().any(|node| is(&node.state));
    Ok(if is_able(&found) {
        Exit::OK
    } else if any(|state| matches!(state, NodeState::Denied(_))) {
        Exit::DENIED
    } else if any(|state| matches!(state, NodeState::Unfit(_))) {
        Exit::CONFIG
    } else {
        Exit::NO_QUORUM
    })
}

/// Whether a lock can be had. A node that stands alone votes as soon as somebody comes.
fn is_able(found: &Examination) -> bool {
    let ready = |node: &ExaminedNode| matches!(node.state, NodeState::Blank | NodeState::Restarted);
    found.voting() >= found.majority || (found.nodes.len() == 1 && found.nodes.iter().all(ready))
}

/// The colour of a state.
pub(super) fn paint(state: &NodeState) -> Paint {
    match state {
        NodeState::Voting => Paint::Good,
        NodeState::Blank | NodeState::Restarted | NodeState::Quarantined { .. } => Paint::Warn,
        _ => Paint::Bad,
    }
}

fn left(state: &NodeState) -> Option<Duration> {
    match state {
        NodeState::Quarantined { left, .. } => Some(*left),
        _ => None,
    }
}

fn reason(state: &NodeState) -> Option<&str> {
    match state {
        NodeState::Unfit(why) | NodeState::Denied(why) | NodeState::Unreachable(why) => Some(why),
        _ => None,
    }
}

#[derive(Serialize)]
struct Listed {
    majority: usize,
    voting: usize,
    nodes: Vec<ListedNode>,
}

impl Listed {
    fn new(found: &Examination) -> Self {
        let nodes = found.nodes.iter().map(ListedNode::new).collect();
        Self { majority: found.majority, voting: found.voting(), nodes }
    }
}

/// A node for programs to read.
#[derive(Serialize)]
pub(super) struct ListedNode {
    node: String,
    state: String,
    reason: Option<String>,
    server: Option<String>,
    round_trip_ms: Option<f64>,
    run: Option<String>,
    epoch: Option<String>,
    cluster: Option<String>,
    restarts: Option<u64>,
    quarantine_left_ms: Option<u64>,
    skew_ms: Option<f64>,
}

impl ListedNode {
    pub(super) fn new(node: &ExaminedNode) -> Self {
        Self {
            node: node.title.clone(),
            state: node.state.to_string(),
            reason: reason(&node.state).map(str::to_owned),
            server: node.server.clone(),
            round_trip_ms: node.round_trip.map(|took| took.as_secs_f64() * 1e3),
            run: node.run.clone(),
            epoch: node.epoch.clone(),
            cluster: node.cluster.clone(),
            restarts: node.restarts,
            quarantine_left_ms: left(&node.state).map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            skew_ms: node.skew.map(|skew| skew.micros as f64 / 1e3),
        }
    }
}
