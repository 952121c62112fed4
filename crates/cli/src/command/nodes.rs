//! `quorlock nodes`: shows the nodes, creates a cluster, waits for the end of quarantines, and changes constants.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Subcommand;
use quorlock::{Examination, ExaminedNode, NodeState, Silence};
use serde_json::{Value, json};

use crate::args::COMMAND_HELP;
use crate::context::Context;
use crate::duration::{millis, parse_duration, show, show_exactly};
use crate::exit::{Exit, Failure, Outcome, counted};
use crate::inspection::or_dash;
use crate::output::{LiveText, Paint, ask};
use crate::table::Table;

/// The interval at which `wait` checks the nodes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which `wait` prints its progress without a terminal.
const PRINT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Make the nodes one new cluster that can vote at once.
    #[command(help_template = COMMAND_HELP, before_help = "\
Run it once for new nodes, while nobody can hold a lock on them. On a cluster in use it can allow two holders: it \
refuses while a node shows a lease, or cannot list its names.", after_help = "\
Exit codes:
  0 done   64 usage   69 unreachable nodes   75 a lease is held
  77 access denied   78 configuration

Example:
  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
    Init {
        /// Do not ask: nobody can hold a lock on these nodes.
        #[arg(long)]
        yes: bool,
        /// Discard leases: two may hold a lock.
        #[arg(long)]
        danger_discard_leases: bool,
    },
    /// Wait until every node can vote.
    #[command(help_template = COMMAND_HELP, before_help = "\
Waits for nodes that are in quarantine, loading or unreachable. A quarantine only passes while a client is connected: \
this command is one.", after_help = "\
Exit codes:
  0 all nodes can vote   69 timed out   77 access denied   78 configuration

Example:
  quorlock nodes wait --timeout 5m")]
    Wait {
        /// Wait at most this long.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
        timeout: Duration,
    },
    /// Change the constants that all clients of the cluster share.
    #[command(help_template = COMMAND_HELP, before_help = "\
Sets --max-ttl, --max-clock-skew and --nodes as given here. Held leases can no longer be renewed, and the nodes vote \
again after 1.1 times the old or the new max-ttl, whichever is longer. A majority of the cluster's nodes must be \
among --nodes; the others must be blank.", after_help = "\
Exit codes:
  0 done   64 usage   69 unreachable nodes   77 access denied
  78 configuration

Example:
  quorlock nodes reconfigure --max-ttl 5m --yes")]
    Reconfigure {
        /// Do not ask: holders may lose their locks.
        #[arg(long)]
        yes: bool,
    },
}

/// Shows the nodes, or performs an action on them.
pub(crate) async fn nodes(context: &Context, action: Option<Action>) -> Outcome {
    match action {
        None => list(context).await,
        Some(Action::Init { yes, danger_discard_leases }) => init(context, yes, danger_discard_leases).await,
        Some(Action::Wait { timeout }) => wait(context, timeout).await,
        Some(Action::Reconfigure { yes }) => reconfigure(context, yes).await,
    }
}

async fn list(context: &Context) -> Outcome {
    let examination = context.builder_without_lock()?.examine(Duration::ZERO).await;
    let output = context.output;
    if output.json {
        output.json(&examination_json(&examination))?;
    } else {
        let mut table = Table::new(["NODE", "STATE", "ROUND TRIP", "EPOCH", "MAY VOTE IN", "SKEW"]);
        for node in &examination.nodes {
            let cell = |text: Option<String>| (or_dash(text), None);
            table.painted_row([
                (node.title.clone(), None),
                (node.state.to_string(), Some(state_color(&node.state))),
                cell(node.round_trip.map(|took| format!("{:.1}ms", took.as_secs_f64() * 1e3))),
                cell(node.epoch.clone()),
                cell(quarantine_left(&node.state).map(show)),
                cell(node.skew_micros.map(|skew| format!("{:+.1}ms", skew as f64 / 1e3))),
            ]);
        }
        table.print(output)?;
        for (node, why) in examination.nodes.iter().filter_map(|node| Some((node, reason(&node.state)?))) {
            output.note(format_args!("{}: {why}", node.title));
        }
    }
    let has_node = |is_in: fn(&NodeState) -> bool| examination.nodes.iter().any(|node| is_in(&node.state));
    Ok(if can_grant(&examination) {
        Exit::OK
    } else if has_node(|state| matches!(state, NodeState::Denied(_))) {
        Exit::DENIED
    } else if has_node(|state| matches!(state, NodeState::Unfit(_))) {
        Exit::CONFIG
    } else {
        Exit::NO_QUORUM
    })
}

async fn init(context: &Context, is_confirmed: bool, discards_leases: bool) -> Outcome {
    let warning = "nodes init discards every lock that may be outstanding on these nodes";
    let condition = "there is none, because the cluster is new or all its users have stopped";
    confirm(is_confirmed, warning, condition, "nodes init --yes")?;
    let builder = context.builder_without_lock()?;
    let builder = if discards_leases { builder.danger_discard_leases() } else { builder };
    let nodes = builder.init_cluster().await?.nodes().len();
    let text = format!("{} can vote, as one new cluster", counted(nodes, "node"));
    context.output.result(&json!({ "nodes": nodes }), text)
}

/// Waits until every node can vote.
async fn wait(context: &Context, timeout: Duration) -> Outcome {
    let started = Instant::now();
    let client = context.builder_without_lock()?.connect_lazy().await?;
    let output = context.output;
    let mut live = LiveText::new(output);
    let mut printed_at: Option<Instant> = None;
    let silent = loop {
        let silent: Vec<(String, Silence)> =
            client.nodes().into_iter().filter_map(|(node, trouble)| Some((node, trouble?))).collect();
        if silent.is_empty() || started.elapsed() >= timeout {
            break silent;
        }
        if let Some(live) = &mut live {
            live.draw([format!("quorlock: {}", summary(&silent))]);
        } else if printed_at.is_none_or(|at| at.elapsed() >= PRINT_INTERVAL) {
            output.note(node_texts(&silent).join(", "));
            printed_at = Some(Instant::now());
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    };
    drop(live);
    let nodes = client.nodes().len();
    if !silent.is_empty() {
        let (count, waited, why) = (silent.len(), show_exactly(timeout), node_texts(&silent).join("\n  "));
        let text = format_args!("{count} of {nodes} nodes cannot vote after {waited}\n  {why}");
        return Err(Failure::new(Exit::NO_QUORUM, text));
    }
    output.result(&json!({ "nodes": nodes }), format_args!("{} can vote", counted(nodes, "node")))
}

/// Describes the nodes that cannot vote: how many they are, and when the quarantined ones can vote.
fn summary(silent: &[(String, Silence)]) -> String {
    let left: Vec<Duration> = silent.iter().filter_map(|(_, why)| why.quarantine_left()).collect();
    let others = silent.len() - left.len();
    match (left.iter().max(), others) {
        (Some(longest), 0) => format!("{} in quarantine, all can vote in {}", left.len(), show(*longest)),
        (Some(longest), _) => format!("{} in quarantine ({}), {others} unavailable", left.len(), show(*longest)),
        (None, _) => format!("{others} unavailable"),
    }
}

/// Describes each node that cannot vote.
fn node_texts(silent: &[(String, Silence)]) -> Vec<String> {
    let node_text = |(node, why): &(String, Silence)| match why.quarantine_left() {
        Some(left) => format!("{node} can vote in {}", show(left)),
        None => format!("{node}: {why}"),
    };
    silent.iter().map(node_text).collect()
}

async fn reconfigure(context: &Context, is_confirmed: bool) -> Outcome {
    let warning = "after this change, holders of locks on these nodes cannot renew them, and nobody can acquire one \
                   for 1.1 times the old or the new max-ttl, whichever is longer";
    confirm(is_confirmed, warning, "that is what you want", "nodes reconfigure --yes")?;
    let client = context.builder_without_lock()?.reconfigure().await?;
    let nodes = client.nodes();
    let left = nodes.iter().filter_map(|(_, trouble)| trouble.as_ref()?.quarantine_left()).max().unwrap_or_default();
    let text = if left.is_zero() {
        "the cluster has new constants, and can vote".to_owned()
    } else {
        let left = show(left);
        format!("the cluster has new constants, and can vote in {left}\n  to wait until then: quorlock nodes wait")
    };
    context.output.result(&json!({ "nodes": nodes.len(), "quarantine_left_ms": millis(left) }), text)
}

/// Asks the operator to confirm: with `--yes`, or by typing a word on a terminal.
fn confirm(is_confirmed: bool, warning: &str, condition: &str, command: &str) -> Outcome<()> {
    if is_confirmed {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format_args!("{warning}.\n  If {condition}: quorlock {command}")));
    }
    let answer = ask(format_args!("{warning}.\n  If {condition}, type yes:"))?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::usage("nothing was changed")) }
}

/// Returns whether clients can acquire locks on these nodes. A single node can vote as soon as a client connects.
fn can_grant(examination: &Examination) -> bool {
    let is_ready = |node: &ExaminedNode| matches!(node.state, NodeState::Blank | NodeState::Restarted);
    let nodes = &examination.nodes;
    examination.voting() >= examination.majority || (nodes.len() == 1 && nodes.iter().all(is_ready))
}

/// Returns the colour of a state.
pub(super) fn state_color(state: &NodeState) -> Paint {
    match state {
        NodeState::Voting => Paint::GOOD,
        NodeState::Blank | NodeState::Restarted | NodeState::Quarantined { .. } => Paint::WARN,
        _ => Paint::BAD,
    }
}

fn quarantine_left(state: &NodeState) -> Option<Duration> {
    let NodeState::Quarantined { left, .. } = state else { return None };
    Some(*left)
}

/// Returns why a node in this state cannot be used.
fn reason(state: &NodeState) -> Option<&str> {
    let (NodeState::Unfit(why) | NodeState::Denied(why) | NodeState::Unreachable(why)) = state else { return None };
    Some(why)
}

/// Returns the output of `--json`.
pub(super) fn examination_json(examination: &Examination) -> Value {
    let node = |node: &ExaminedNode| {
        json!({
            "node": node.title,
            "state": node.state.to_string(),
            "reason": reason(&node.state),
            "server": node.server,
            "round_trip_ms": node.round_trip.map(|took| took.as_secs_f64() * 1e3),
            "run": node.run,
            "epoch": node.epoch,
            "cluster": node.cluster,
            "restarts": node.restarts,
            "quarantine_left_ms": quarantine_left(&node.state).map(millis),
            "skew_ms": node.skew_micros.map(|skew| skew as f64 / 1e3),
        })
    };
    let nodes: Vec<Value> = examination.nodes.iter().map(node).collect();
    json!({ "majority": examination.majority, "voting": examination.voting(), "nodes": nodes })
}
