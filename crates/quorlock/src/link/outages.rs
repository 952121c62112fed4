//! Logs when a node, or the majority, stops voting and when it votes again. Each change is logged once, not once per
//! retry.

use std::collections::BTreeMap;

use quorlock_core::quorum::Quorum;
use quorlock_core::time::Moment;
use quorlock_core::vote::Silence;

use crate::platform::clock;
use crate::platform::sync::Mutex;

/// The nodes of one client that cannot vote.
#[derive(Debug)]
pub(crate) struct Outages {
    quorum: Quorum,
    is_logged: bool,
    out: Mutex<BTreeMap<usize, Outage>>,
}

#[derive(Debug)]
struct Outage {
    title: String,
    why: Silence,
    since: Moment,
}

impl Outages {
    pub(crate) fn new(quorum: Quorum, is_logged: bool) -> Self {
        Self { quorum, is_logged, out: Mutex::default() }
    }

    /// Records that a node cannot vote. Logs it if the node could vote before.
    pub(crate) fn begin(&self, node: usize, title: &str, why: Silence) {
        if !self.is_logged {
            return;
        }
        let mut out = self.out.lock();
        let had_majority = self.has_majority(&out);
        if let Some(outage) = out.get_mut(&node) {
            outage.why = why;
            return;
        }
        tracing::warn!(node = %title, reason = %why, "node is out: it cannot vote");
        out.insert(node, Outage { title: title.to_owned(), why, since: clock::now() });
        // With a single node, the message above says the same.
        if had_majority && !self.has_majority(&out) && self.quorum.nodes() > 1 {
            let nodes: Vec<String> = out.values().map(|outage| format!("{} {}", outage.title, outage.why)).collect();
            tracing::warn!(nodes = %nodes.join("; "), "no majority: no lock can be acquired or renewed");
        }
    }

    /// Records that a node can vote. Logs it if the node could not vote before.
    pub(crate) fn end(&self, node: usize) {
        let mut out = self.out.lock();
        let had_majority = self.has_majority(&out);
        let Some(Outage { title, since, .. }) = out.remove(&node) else { return };
        tracing::warn!(node = %title, out_for = ?clock::now().since(since), "node is back: it can vote");
        if !had_majority && self.has_majority(&out) && self.quorum.nodes() > 1 {
            tracing::warn!("a majority of the nodes can vote again");
        }
    }

    fn has_majority(&self, out: &BTreeMap<usize, Outage>) -> bool {
        self.quorum.nodes().saturating_sub(out.len()) >= self.quorum.majority()
    }
}
