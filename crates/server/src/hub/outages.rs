//! Nodes that stop or resume voting, as this replica has seen it.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use crate::view::{NodeView, NodesView};

/// The most outages that are kept.
const OUTAGES_MAX: usize = 200;

/// The outages since this replica started. Each is the data of a `node` event of the stream.
#[derive(Debug, Default)]
pub(super) struct Outages {
    known: HashMap<String, (&'static str, u64)>,
    /// Newest first.
    seen: VecDeque<Value>,
}

impl Outages {
    /// Returns the changes since the last call. A node that is seen for the first time has no change.
    pub(super) fn see(&mut self, nodes: &NodesView, at_ms: u64) -> Vec<Value> {
        let mut news = Vec::new();
        for node in &nodes.nodes {
            let now = (node.state, node.restarts);
            let before = self.known.insert(node.node.clone(), now);
            if let Some(before) = before.filter(|before| *before != now) {
                news.push(outage(node, before, at_ms));
            }
        }
        for outage in &news {
            self.seen.push_front(outage.clone());
        }
        self.seen.truncate(OUTAGES_MAX);
        news
    }

    pub(super) fn seen(&self) -> impl Iterator<Item = &Value> {
        self.seen.iter()
    }
}

fn outage(node: &NodeView, (state, restarts): (&'static str, u64), at_ms: u64) -> Value {
    let is_restarted = node.restarts > restarts;
    let what = match node.state {
        _ if is_restarted => "restarted",
        "voting" => "votes again",
        state => state,
    };
    let guess = || if is_restarted { "it lost its memory".into() } else { format!("it was {state}") };
    json!({"at_ms": at_ms, "node": node.node, "what": what, "reason": node.trouble.clone().unwrap_or_else(guess)})
}
