//! The nodes as the doctor sees them: what is wrong, how bad that is, and what to do about it.
//!
//! Whoever examines only looks. It says no hello, so a blank node stays blank and a new life goes unnoticed; what it
//! tries on a Redis server, it tries within one script on keys that nobody has, and leaves nothing.

mod finding;
mod judge;
mod together;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::node::{Constants, Incarnation, quarantine_micros};
use quorlock_core::quorum::Quorum;
use quorlock_core::time::Drift;

pub use finding::{Finding, Severity, Topic};

use crate::node::probe::{Plan, Probe};
use crate::node::{Node, Trouble};

/// Every node as it was found, and what that means for the locks on them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// Each node, in the order of the configuration.
    pub nodes: Vec<ExaminedNode>,
    /// What is to be said of all of them together.
    pub findings: Vec<Finding>,
    /// How many of them have to vote for a lock.
    pub majority: usize,
}

impl Examination {
    /// Everything that was found, with the node that it is about.
    pub fn all(&self) -> impl Iterator<Item = (Option<&ExaminedNode>, &Finding)> {
        let of_nodes =
            self.nodes.iter().flat_map(|node| node.findings.iter().map(move |finding| (Some(node), finding)));
        of_nodes.chain(self.findings.iter().map(|finding| (None, finding)))
    }

    /// The worst of it.
    pub fn worst(&self) -> Severity {
        self.all().map(|(_, finding)| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// How many nodes can vote just now.
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.state == NodeState::Voting).count()
    }
}

/// One node as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExaminedNode {
    /// Its URL, without secrets.
    pub title: String,
    /// Whether it can vote.
    pub state: NodeState,
    /// What it is, and which version.
    pub server: Option<String>,
    /// The beginning of the server's own name for its run.
    pub run: Option<String>,
    /// The beginning of the name of this life of its memory.
    pub epoch: Option<String>,
    /// The beginning of the name of the cluster that it belongs to.
    pub cluster: Option<String>,
    /// How often it was seen to have restarted since the cluster was declared, as far as its memory goes.
    pub restarts: Option<u64>,
    /// The fastest of several round trips.
    pub round_trip: Option<Duration>,
    /// How far its clock is ahead of the middle of all nodes, in microseconds, where there are enough of them to tell.
    pub skew_micros: Option<i64>,
    /// How much faster than ours its clock runs, in millionths, if it was watched.
    pub rate_ppm: Option<i64>,
    /// What was found about it.
    pub findings: Vec<Finding>,
}

/// Whether a node can vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It can.
    Voting,
    /// It lost its memory.
    Quarantined {
        /// How much of the quarantine is left, as far as the node knows.
        left: Duration,
    },
    /// It restarted, or was wiped, and no client has met it since.
    Restarted,
    /// It belongs to no cluster yet.
    Blank,
    /// A change of the cluster's constants was begun and not finished.
    Suspended,
    /// It can be reached, but not be used.
    Unfit(String),
    /// Its clock is this many microseconds from the middle of all nodes.
    Skewed(i64),
    /// It does not let us in, or not do what has to be done.
    Denied(String),
    /// It does not answer.
    Unreachable(String),
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Voting => "voting",
            Self::Quarantined { .. } => "quarantined",
            Self::Restarted => "restarted",
            Self::Blank => "blank",
            Self::Suspended => "suspended",
            Self::Unfit(_) => "unfit",
            Self::Skewed(_) => "skewed",
            Self::Denied(_) => "denied",
            Self::Unreachable(_) => "unreachable",
        })
    }
}

/// What the nodes are measured by.
pub(crate) struct Measure {
    /// What everyone should agree on, but for the cluster's name.
    pub(crate) constants: Constants,
    pub(crate) drift: Drift,
    pub(crate) node_deadline: Duration,
}

impl Measure {
    fn is_single(&self) -> bool {
        self.constants.nodes == 1
    }
}

/// A node that was configured: as such, or why its URL cannot be read.
pub(crate) type Configured = Result<Arc<dyn Node>, (String, String)>;

impl ExaminedNode {
    fn find(&mut self, severity: Severity, topic: Topic, text: impl Into<String>, advice: &str) {
        self.findings.push(Finding::new(severity, topic, text, advice));
    }
}

/// What the node knows about itself, as far as it was seen.
fn life(probe: &Probe) -> Option<&Incarnation> {
    probe.standing.as_ref()?.life.as_ref()
}

/// Looks at all nodes at the same time, and judges what was seen.
pub(crate) async fn examine(nodes: Vec<Configured>, plan: &Plan, measure: &Measure) -> Examination {
    let probes = nodes.into_iter().map(async |configured| match configured {
        Ok(node) => (node.title().to_owned(), node.examine(plan).await),
        Err((title, why)) => (title, Probe { trouble: Some(Trouble::Unfit(why)), ..Probe::default() }),
    });
    let (titles, probes): (Vec<_>, Vec<_>) = futures_util::future::join_all(probes).await.into_iter().unzip();
    let judged = titles.into_iter().zip(&probes).map(|(title, probe)| judge::node(title, probe, measure));
    let mut nodes: Vec<ExaminedNode> = judged.collect();
    let findings = together::judge(&probes, &mut nodes, measure);
    Examination { nodes, findings, majority: Quorum::majority_of(measure.constants.nodes) }
}

/// Enough of a random name to tell it from others.
fn shorten(name: &str) -> String {
    name.chars().take(8).collect()
}

/// How long a node is quarantined that lost its memory, for people.
fn quarantine(measure: &Measure) -> String {
    spell(Duration::from_micros(quarantine_micros(&measure.constants)))
}

/// A duration for people.
fn spell(duration: Duration) -> String {
    if duration < Duration::from_secs(10) { format!("{duration:.1?}") } else { format!("{duration:.0?}") }
}

#[cfg(test)]
mod tests;
