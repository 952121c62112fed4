//! The state that the demonstration shows. Workers, faults and the observer of the nodes update it.

use std::time::Duration;

use quorlock::{Quorum, Silence};
use tokio::time::Instant;

use super::checker::{Findings, PastLease};
use super::plan::Fault;
use super::{NAMES, NODES, TTL, WORKERS};
use crate::output::Paint;

/// One name.
#[derive(Debug, Default)]
pub(super) struct NameRow {
    /// The worker that holds the name.
    pub(super) holder: Option<usize>,
    /// The remaining validity of the holder's lease.
    pub(super) left: Duration,
    /// The fence of the latest lease of this name.
    pub(super) fence: Option<u64>,
    pub(super) leases: usize,
}

/// One node.
#[derive(Debug, Default)]
pub(super) struct NodeRow {
    /// The current fault of the node.
    pub(super) fault: Option<Fault>,
    /// Why the node cannot vote, as a client sees it.
    pub(super) trouble: Option<Silence>,
    /// Whether the node crashed or was in quarantine, and has not been able to vote since then.
    has_lost_memory: bool,
    /// For each name, the holder that the node voted for.
    pub(super) votes: [Option<String>; NAMES.len()],
}

/// Why a node cannot vote, and the holders that it voted for.
pub(super) type Observation = (Option<Silence>, [Option<String>; NAMES.len()]);

/// One event, as a line of text.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) at: Duration,
    /// The colour of the event. An event without a colour is not part of the picture.
    pub(super) paint: Option<Paint>,
    pub(super) text: String,
}

/// The state of the demonstration. Workers, names and nodes are counted from 0.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) length: Duration,
    started: Instant,
    pub(super) names: [NameRow; NAMES.len()],
    pub(super) nodes: [NodeRow; NODES],
    /// The name that each worker waits for, and its position in the queue.
    waits: [Option<(usize, Option<u32>)>; WORKERS],
    pub(super) log: Vec<LogLine>,
    past_leases: Vec<PastLease>,
    /// The faults that have begun so far.
    pub(super) faults: Vec<Fault>,
}

/// Returns the title of a worker: `w1` for the first worker.
pub(super) fn worker_title(worker: usize) -> String {
    format!("w{}", worker + 1)
}

impl Scene {
    pub(super) fn new(seed: u64, length: Duration) -> Self {
        Self {
            seed,
            length,
            started: Instant::now(),
            names: Default::default(),
            nodes: Default::default(),
            waits: Default::default(),
            log: Vec::new(),
            past_leases: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Returns the time since the start.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn findings(&self) -> Findings {
        Findings::of(&NAMES, &self.past_leases)
    }

    /// Returns the workers that wait for a name, in the order of the queue.
    pub(super) fn queue(&self, name: usize) -> Vec<usize> {
        let waits = self.waits.iter().enumerate().filter_map(|(worker, wait)| Some((worker, (*wait)?)));
        let mut queue: Vec<_> = waits.filter(|(_, (other, _))| *other == name).collect();
        queue.sort_by_key(|(worker, (_, position))| (position.unwrap_or(u32::MAX), *worker));
        queue.into_iter().map(|(worker, _)| worker).collect()
    }

    fn add_event(&mut self, paint: Option<Paint>, text: impl Into<String>) {
        self.log.push(LogLine { at: self.age(), paint, text: text.into() });
    }

    pub(super) fn record_wait(&mut self, worker: usize, name: usize, position: Option<u32>) {
        self.waits[worker] = Some((name, position));
    }

    /// Records that a worker acquired a name. Returns the time since the start.
    pub(super) fn record_grant(&mut self, worker: usize, name: usize, fence: u64) -> Duration {
        self.waits[worker] = None;
        let leases = self.names[name].leases + 1;
        self.names[name] = NameRow { holder: Some(worker), left: TTL, fence: Some(fence), leases };
        self.add_event(None, format!("{} has {} with fence {fence}", worker_title(worker), NAMES[name]));
        self.age()
    }

    pub(super) fn record_hang(&mut self, worker: usize, name: usize) {
        let text = format!("{} hangs with {}, and does not renew its lease", worker_title(worker), NAMES[name]);
        self.add_event(Some(Paint::BAD), text);
    }

    pub(super) fn record_timeout(&mut self, worker: usize, name: usize) {
        self.waits[worker] = None;
        self.add_event(None, format!("{} timed out waiting for {}", worker_title(worker), NAMES[name]));
    }

    pub(super) fn record_end(&mut self, name: usize, past_lease: PastLease) {
        let (worker, lock) = (worker_title(past_lease.worker), past_lease.name);
        if past_lease.is_lost {
            self.add_event(Some(Paint::BAD), format!("{worker} lost {lock}, and noticed in time"));
        } else {
            self.add_event(None, format!("{worker} releases {lock}"));
        }
        let holder = &mut self.names[name].holder;
        *holder = holder.filter(|holder| *holder != past_lease.worker);
        self.past_leases.push(past_lease);
    }

    /// Records that a fault of a node began or ended.
    pub(super) fn record_fault(&mut self, node: usize, fault: Fault, begins: bool) {
        let had_majority = self.has_majority();
        self.nodes[node].fault = begins.then_some(fault);
        self.faults.extend(self.nodes[node].fault);
        let (paint, text) = match (fault, begins) {
            (Fault::Freeze, true) => (Paint::BAD, "is frozen"),
            (Fault::Cut, true) => (Paint::BAD, "is cut off"),
            (Fault::Crash, true) => (Paint::BAD, "crashed, and its memory is gone"),
            (Fault::Freeze, false) => (Paint::GOOD, "continues where it stopped"),
            (Fault::Cut, false) => (Paint::GOOD, "can be reached again"),
            (Fault::Crash, false) => {
                (Paint::BAD, "is back, empty: in quarantine until every lease that it forgot has ended")
            }
        };
        self.nodes[node].has_lost_memory |= self.nodes[node].fault == Some(Fault::Crash);
        self.add_event(Some(paint), format!("node {} {text}", node + 1));
        self.report_majority_change(had_majority);
    }

    /// Records the state of every node, as a client observed it.
    pub(super) fn record_observation(&mut self, nodes: Vec<Observation>) {
        for (node, (trouble, votes)) in nodes.into_iter().enumerate() {
            let had_majority = self.has_majority();
            let row = &mut self.nodes[node];
            let ends_quarantine = row.has_lost_memory && row.fault.is_none() && trouble.is_none();
            let is_quarantined = trouble.as_ref().and_then(Silence::quarantine_left).is_some();
            row.has_lost_memory = (row.has_lost_memory || is_quarantined) && !ends_quarantine;
            (row.trouble, row.votes) = (trouble, votes);
            if ends_quarantine {
                self.add_event(Some(Paint::GOOD), format!("node {} is out of quarantine and votes again", node + 1));
            }
            self.report_majority_change(had_majority);
        }
    }

    fn report_majority_change(&mut self, had_majority: bool) {
        match (had_majority, self.has_majority()) {
            (true, false) => {
                self.add_event(Some(Paint::BAD), "no majority is left: nobody can acquire, and leases end unrenewed");
            }
            (false, true) => self.add_event(Some(Paint::GOOD), "a majority is back"),
            _ => {}
        }
    }

    fn has_majority(&self) -> bool {
        let voting = self.nodes.iter().filter(|node| node.fault.is_none() && !node.has_lost_memory).count();
        voting >= Quorum::majority_of(NODES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_back_when_the_quarantine_of_a_crashed_node_ends() {
        let mut scene = Scene::new(1, Duration::from_secs(60));
        let majority = Quorum::majority_of(NODES);
        for node in 0..majority {
            scene.record_fault(node, Fault::Crash, true);
        }
        let observe = |scene: &mut Scene, trouble: Option<Silence>| {
            scene.record_observation((0..NODES).map(|_| (trouble.clone(), Observation::default().1)).collect());
        };
        observe(&mut scene, Some(Silence::Broken("connection refused".into())));
        for node in 0..majority {
            scene.record_fault(node, Fault::Crash, false);
        }
        assert!(!scene.has_majority(), "the nodes came back empty");
        observe(&mut scene, Some(Silence::Quarantined(Duration::from_secs(1))));
        assert!(!scene.has_majority());
        observe(&mut scene, None);
        assert!(scene.has_majority());
        assert!(scene.log.iter().any(|line| line.text == "a majority is back"));
    }
}
