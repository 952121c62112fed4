//! `quorlock nodes ripen`: witnesses nodes until they may vote.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use quorlock::{Client, Silence};
use serde::Serialize;

use crate::context::Context;
use crate::duration::show;
use crate::exit::{Exit, Failure};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is told where there is no terminal.
const TELL: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Ripe {
    nodes: usize,
}

pub(super) async fn ripen(context: &Context) -> crate::Outcome {
    let client = context.operator()?.connect_lazy().await?;
    let output = context.output;
    let live = std::io::stderr().is_terminal() && !output.quiet;
    let mut told: Option<Instant> = None;
    while let Some(waiting) = waiting(&client) {
        if live {
            let (nodes, left) = (waiting.len(), waiting.iter().map(|(_, left)| *left).max().unwrap_or_default());
            // Short enough for one line of any terminal.
            eprint!("\r\u{1b}[Kquorlock: {nodes} in quarantine, all may vote in {}", show(left));
            let _ = std::io::stderr().flush();
        } else if told.is_none_or(|told| told.elapsed() >= TELL) {
            let text = waiting.iter().map(|(node, left)| format!("{node} may vote in {}", show(*left)));
            output.note(text.collect::<Vec<_>>().join(", "));
            told = Some(Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
    if live && told.is_none() {
        eprint!("\r\u{1b}[K");
    }
    let troubles: Vec<String> =
        client.nodes().into_iter().filter_map(|(node, trouble)| Some(format!("{node}: {}", trouble?))).collect();
    let nodes = client.nodes().len();
    if !troubles.is_empty() {
        return Err(Failure::NoQuorum(format!("not all nodes can vote\n  {}", troubles.join("\n  "))));
    }
    if output.json {
        output.json(&Ripe { nodes })?;
    } else {
        output.line(format!("{nodes} node{} may vote", if nodes == 1 { "" } else { "s" }))?;
    }
    Ok(Exit::OK)
}

/// The nodes that are still in quarantine, and for how long; `None` when there are none.
fn waiting(client: &Client) -> Option<Vec<(String, Duration)>> {
    let quarantined = client.nodes().into_iter().filter_map(|(node, trouble)| match trouble {
        Some(Silence::Quarantined(left)) => Some((node, left)),
        _ => None,
    });
    Some(quarantined.collect::<Vec<_>>()).filter(|nodes| !nodes.is_empty())
}
