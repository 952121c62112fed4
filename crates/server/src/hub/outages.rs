//! Nodes that stop and begin to vote, as this replica has seen it.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use crate::view::{NodeView, NodesView};

/// How many are remembered.
const OUTAGES_MAX: usize = 200;

/// What has happened to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Outage {
    /// When it was seen, in milliseconds of Unix time.
    at_ms: u64,
    /// The node, without secrets.
    node: String,
    /// `restarted`, `votes again`, or how it is instead.
    what: &'static str,
    /// Why, as far as is known.
    reason: String,
}

/// All of them since this replica began.
#[derive(Debug, Default)]
pub(super) struct Outages {
    known: HashMap<String, (&'static str, u64)>,
    /// Newest first.
    seen: VecDeque<Outage>,
}

impl Outages {
    /// What has happened since the last time. A node that is seen for the first time is as it is.
    pub(super) fn see(&mut self, nodes: &NodesView, at_ms: u64) -> Vec<Outage> {
        let mut news = Vec::new();
        for node in &nodes.nodes {
            let now = (node.state, node.restarts);
            let before = self.known.insert(node.node.clone(), now);
            if let Some(before) = before.filter(|before| *before != now) {
                news.push(Outage::new(node, before, at_ms));
            }
        }
        for outage in &news {
            self.seen.push_front(outage.clone());
        }
        self.seen.truncate(OUTAGES_MAX);
        news
    }

    pub(super) fn seen(&self) -> impl Iterator<Item = &Outage> {
        self.seen.iter()
    }
}

impl Outage {
    fn new(node: &NodeView, (state, restarts): (&'static str, u64), at_ms: u64) -> Self {
        let is_restarted = node.restarts > restarts;
        let what = match node.state {
            _ if is_restarted => "restarted",
            "voting" => "votes again",
            state => state,
        };
        let guess = || if is_restarted { "it lost its memory".into() } else { format!("it was {state}") };
        Self { at_ms, node: node.node.clone(), what, reason: node.trouble.clone().unwrap_or_else(guess) }
    }
}
