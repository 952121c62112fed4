//! `quorlock nodes wait`: waits until every node can vote.

use std::time::{Duration, Instant};

use quorlock::Silence;
use serde_json::json;

use crate::context::Context;
use crate::duration::{show, show_exactly};
use crate::exit::{Exit, Failure, Outcome, counted};
use crate::output::LiveText;

/// The interval at which the nodes are checked.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The interval at which progress is printed without a terminal.
const PRINT_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn wait(context: &Context, timeout: Duration) -> Outcome {
    let began = Instant::now();
    let client = context.operator()?.connect_lazy().await?;
    let output = context.output;
    let mut live = LiveText::new(output);
    let mut printed: Option<Instant> = None;
    let silent = loop {
        let silent: Vec<(String, Silence)> =
            client.nodes().into_iter().filter_map(|(node, trouble)| Some((node, trouble?))).collect();
        if silent.is_empty() || began.elapsed() >= timeout {
            break silent;
        }
        if let Some(live) = &mut live {
            live.draw([format!("quorlock: {}", summary(&silent))]);
        } else if printed.is_none_or(|printed| printed.elapsed() >= PRINT_EVERY) {
            output.note(one_by_one(&silent).join(", "));
            printed = Some(Instant::now());
        }
        tokio::time::sleep(CHECK_EVERY).await;
    };
    drop(live);
    let nodes = client.nodes().len();
    if !silent.is_empty() {
        let (count, waited, why) = (silent.len(), show_exactly(timeout), one_by_one(&silent).join("\n  "));
        let text = format!("{count} of {nodes} nodes cannot vote after {waited}\n  {why}");
        return Err(Failure::new(Exit::NO_QUORUM, text));
    }
    output.result(&json!({ "nodes": nodes }), format_args!("{} can vote", counted(nodes, "node")))
}

fn summary(silent: &[(String, Silence)]) -> String {
    let left: Vec<Duration> = silent.iter().filter_map(|(_, why)| why.quarantine_left()).collect();
    let others = silent.len() - left.len();
    match (left.iter().max(), others) {
        (Some(longest), 0) => format!("{} in quarantine, all can vote in {}", left.len(), show(*longest)),
        (Some(longest), _) => format!("{} in quarantine ({}), {others} away", left.len(), show(*longest)),
        (None, _) => format!("{others} away"),
    }
}

fn one_by_one(silent: &[(String, Silence)]) -> Vec<String> {
    let one = |(node, why): &(String, Silence)| match why.quarantine_left() {
        Some(left) => format!("{node} can vote in {}", show(left)),
        None => format!("{node}: {why}"),
    };
    silent.iter().map(one).collect()
}
