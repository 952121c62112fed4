//! The state that is shown. Workers, nodes and the plan report to it.

use std::time::Duration;

use quorlock::{Quorum, Silence};
use tokio::time::Instant;

use super::checker::{Findings, Tenure};
use super::plan::{Fault, Outage};
use super::{NAMES, NODES, TTL, WORKERS};
use crate::output::Paint;

/// One name.
#[derive(Debug, Default)]
pub(super) struct NameRow {
    /// The worker that holds it.
    pub(super) holder: Option<usize>,
    /// The validity of its lease.
    pub(super) left: Duration,
    /// The fence of its latest lease.
    pub(super) fence: Option<u64>,
    pub(super) leases: usize,
}

/// One node.
#[derive(Debug, Default)]
pub(super) struct NodeRow {
    /// The fault that it has now.
    pub(super) fault: Option<Fault>,
    /// Why it cannot vote, as a client sees it.
    pub(super) trouble: Option<Silence>,
    /// The holder that it voted for, name by name.
    pub(super) votes: [Option<String>; NAMES.len()],
}

/// Why a node cannot vote, and the holders that it voted for.
pub(super) type Observation = (Option<Silence>, [Option<String>; NAMES.len()]);

/// An event. Without a colour, it is not shown on the screen.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) at: Duration,
    pub(super) paint: Option<Paint>,
    pub(super) text: String,
}

/// Everything that is shown. Workers, names and nodes are counted from 0.
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
    tenures: Vec<Tenure>,
    /// The faults so far.
    pub(super) faults: Vec<Fault>,
}

/// `w1` for the first worker.
pub(super) fn title(worker: usize) -> String {
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
            tenures: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Returns the time since the start.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn findings(&self) -> Findings {
        Findings::of(&NAMES, &self.tenures)
    }

    /// Returns the workers that wait for a name, in the order of the queue.
    pub(super) fn queue(&self, name: usize) -> Vec<usize> {
        let waits = self.waits.iter().enumerate().filter_map(|(worker, wait)| Some((worker, (*wait)?)));
        let mut queue: Vec<_> = waits.filter(|(_, (other, _))| *other == name).collect();
        queue.sort_by_key(|(worker, (_, place))| (place.unwrap_or(u32::MAX), *worker));
        queue.into_iter().map(|(worker, _)| worker).collect()
    }

    fn say(&mut self, paint: Option<Paint>, text: impl Into<String>) {
        self.log.push(LogLine { at: self.age(), paint, text: text.into() });
    }

    pub(super) fn waits(&mut self, worker: usize, name: usize, place: Option<u32>) {
        self.waits[worker] = Some((name, place));
    }

    /// Records that a worker acquired a name. Returns the time.
    pub(super) fn granted(&mut self, worker: usize, name: usize, fence: u64) -> Duration {
        self.waits[worker] = None;
        let leases = self.names[name].leases + 1;
        self.names[name] = NameRow { holder: Some(worker), left: TTL, fence: Some(fence), leases };
        self.say(None, format!("{} has {} with fence {fence}", title(worker), NAMES[name]));
        self.age()
    }

    pub(super) fn hangs(&mut self, worker: usize, name: usize) {
        let text = format!("{} hangs with {}: nothing renews its lease", title(worker), NAMES[name]);
        self.say(Some(Paint::Bad), text);
    }

    pub(super) fn gave_up(&mut self, worker: usize, name: usize) {
        self.waits[worker] = None;
        self.say(None, format!("{} timed out waiting for {}", title(worker), NAMES[name]));
    }

    pub(super) fn ended(&mut self, name: usize, tenure: Tenure) {
        let (worker, lock) = (title(tenure.worker), tenure.name);
        if tenure.is_lost {
            self.say(Some(Paint::Bad), format!("{worker} lost {lock}, and knew it in time"));
        } else {
            self.say(None, format!("{worker} releases {lock}"));
        }
        let holder = &mut self.names[name].holder;
        *holder = holder.filter(|holder| *holder != tenure.worker);
        self.tenures.push(tenure);
    }

    pub(super) fn fault_begins(&mut self, outage: Outage) {
        let node = outage.node + 1;
        let had_majority = self.has_majority();
        self.nodes[outage.node].fault = Some(outage.fault);
        self.faults.push(outage.fault);
        let text = match outage.fault {
            Fault::Freeze => format!("node {node} is frozen"),
            Fault::Cut => format!("node {node} is cut off"),
            Fault::Crash => format!("node {node} crashed, and its memory is gone"),
        };
        self.say(Some(Paint::Bad), text);
        if had_majority && !self.has_majority() {
            self.say(Some(Paint::Bad), "no majority is left: nobody can acquire, and leases end unrenewed");
        }
    }

    pub(super) fn fault_ends(&mut self, outage: Outage) {
        let node = outage.node + 1;
        let had_majority = self.has_majority();
        self.nodes[outage.node].fault = None;
        let (paint, text) = match outage.fault {
            Fault::Freeze => (Paint::Good, format!("node {node} continues where it stopped")),
            Fault::Cut => (Paint::Good, format!("node {node} can be reached again")),
            Fault::Crash => {
                (Paint::Bad, format!("node {node} is back, empty: in quarantine until every lease it forgot has ended"))
            }
        };
        self.say(Some(paint), text);
        if !had_majority && self.has_majority() {
            self.say(Some(Paint::Good), "a majority is back");
        }
    }

    /// Records the state of every node, as a client observed it.
    pub(super) fn observed(&mut self, nodes: Vec<Observation>) {
        for (node, (trouble, votes)) in nodes.into_iter().enumerate() {
            let row = &mut self.nodes[node];
            let ends_quarantine = is_in_quarantine(row) && trouble.is_none();
            (row.trouble, row.votes) = (trouble, votes);
            if ends_quarantine {
                self.say(Some(Paint::Good), format!("node {} is out of quarantine and votes again", node + 1));
            }
        }
    }

    fn has_majority(&self) -> bool {
        let voting = self.nodes.iter().filter(|node| node.fault.is_none() && !is_in_quarantine(node)).count();
        voting >= Quorum::majority_of(NODES)
    }
}

fn is_in_quarantine(node: &NodeRow) -> bool {
    node.trouble.as_ref().and_then(Silence::quarantine_left).is_some()
}
