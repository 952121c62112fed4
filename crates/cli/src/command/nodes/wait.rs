//! `quorlock nodes wait`: waits until every node can vote.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use quorlock::{Client, Silence};
use serde::Serialize;

use crate::context::Context;
use crate::duration::{show, show_exactly};
use crate::exit::{Exit, Failure};

/// How often the nodes are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often progress is printed where there is no terminal.
const TELL: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Voting {
    nodes: usize,
}

pub(super) async fn wait(context: &Context, timeout: Duration) -> crate::Outcome {
    let began = Instant::now();
    let client = context.operator()?.connect_lazy().await?;
    let output = context.output;
    let live = std::io::stderr().is_terminal() && !output.quiet;
    let mut told: Option<Instant> = None;
    let silent = loop {
        let silent = silent(&client);
        if silent.is_empty() || began.elapsed() >= timeout {
            break silent;
        }
        if live {
            // Short enough for one line of any terminal.
            eprint!("\r\u{1b}[Kquorlock: {}", summary(&silent));
            let _ = std::io::stderr().flush();
        } else if told.is_none_or(|told| told.elapsed() >= TELL) {
            output.note(one_by_one(&silent).join(", "));
            told = Some(Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    };
    if live {
        eprint!("\r\u{1b}[K");
    }
    let nodes = client.nodes().len();
    if !silent.is_empty() {
        let (count, waited, why) = (silent.len(), show_exactly(timeout), one_by_one(&silent).join("\n  "));
        return Err(Failure::NoQuorum(format!("{count} of {nodes} nodes cannot vote after {waited}\n  {why}")));
    }
    if output.json {
        output.json(&Voting { nodes })?;
    } else {
        output.line(format!("{nodes} node{} may vote", if nodes == 1 { "" } else { "s" }))?;
    }
    Ok(Exit::OK)
}

/// The nodes that cannot vote, and why.
fn silent(client: &Client) -> Vec<(String, Silence)> {
    client.nodes().into_iter().filter_map(|(node, trouble)| Some((node, trouble?))).collect()
}

fn summary(silent: &[(String, Silence)]) -> String {
    let left: Vec<Duration> = silent.iter().filter_map(|(_, why)| why.quarantine_left()).collect();
    let others = silent.len() - left.len();
    match (left.iter().max(), others) {
        (Some(left_most), 0) => format!("{} in quarantine, all may vote in {}", left.len(), show(*left_most)),
        (Some(left_most), _) => format!("{} in quarantine ({}), {others} away", left.len(), show(*left_most)),
        (None, _) => format!("{others} away"),
    }
}

fn one_by_one(silent: &[(String, Silence)]) -> Vec<String> {
    let one = |(node, why): &(String, Silence)| match why.quarantine_left() {
        Some(left) => format!("{node} may vote in {}", show(left)),
        None => format!("{node}: {why}"),
    };
    silent.iter().map(one).collect()
}
