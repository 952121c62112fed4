//! Examines the nodes, and reports problems with their severity and with advice.
//!
//! An examination does not change the nodes. It sends no hello command, so a blank node stays blank, and a node does
//! not record a memory loss. On a Redis server, an examination tries commands within one script, on unused keys, and
//! leaves no data.

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

/// The result of examining all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<ExaminedNode>,
    /// The findings about all nodes together.
    pub findings: Vec<Finding>,
    /// The number of nodes that must vote for a lock.
    pub majority: usize,
}

impl Examination {
    /// Returns every finding, with the node that the finding is about, or `None` for a finding about all nodes
    /// together.
    pub fn all(&self) -> impl Iterator<Item = (Option<&ExaminedNode>, &Finding)> {
        let of_nodes =
            self.nodes.iter().flat_map(|node| node.findings.iter().map(move |finding| (Some(node), finding)));
        of_nodes.chain(self.findings.iter().map(|finding| (None, finding)))
    }

    /// Returns the highest severity of all findings.
    pub fn worst(&self) -> Severity {
        self.all().map(|(_, finding)| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// Returns the number of nodes that can vote now.
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.state == NodeState::Voting).count()
    }
}

/// The result of examining one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExaminedNode {
    /// The node's URL, without secrets.
    pub title: String,
    /// Whether the node can vote.
    pub state: NodeState,
    /// The kind of server, and its version.
    pub server: Option<String>,
    /// The beginning of the server's run id.
    pub run: Option<String>,
    /// The beginning of the epoch, which names one life of the node's memory.
    pub epoch: Option<String>,
    /// The beginning of the id of the node's cluster.
    pub cluster: Option<String>,
    /// The number of restarts since the cluster was created, as the node reports it.
    pub restarts: Option<u64>,
    /// The shortest of several round trips.
    pub round_trip: Option<Duration>,
    /// The node's clock minus the median of all nodes' clocks, in microseconds, if at least three clocks were read.
    pub skew_micros: Option<i64>,
    /// By how many millionths the node's clock runs faster than the clock of this process, if the rate was measured.
    pub rate_ppm: Option<i64>,
    /// The findings about the node.
    pub findings: Vec<Finding>,
}

/// Whether a node can vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node can vote.
    Voting,
    /// The node lost its memory and must not vote yet.
    Quarantined {
        /// The remaining quarantine, as the node reports it.
        left: Duration,
    },
    /// The node restarted, or its data were deleted, and no client has connected to the node since then.
    Restarted,
    /// The node belongs to no cluster yet.
    Blank,
    /// A change of the cluster's constants was started but not finished.
    Suspended,
    /// The node can be reached, but cannot be used.
    Unfit(String),
    /// The node's clock differs too much from the median of all nodes' clocks: by this many microseconds.
    Skewed(i64),
    /// The node rejects the password, or denies permissions.
    Denied(String),
    /// The node does not answer.
    Unreachable(String),
}

/// Shows the state as one word.
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

/// The settings that the findings depend on.
pub(crate) struct Measure {
    /// The constants that all clients and nodes must share, without the cluster's id.
    pub(crate) constants: Constants,
    pub(crate) drift: Drift,
    pub(crate) node_deadline: Duration,
}

impl Measure {
    fn is_single(&self) -> bool {
        self.constants.nodes == 1
    }
}

/// A configured node. For a node with an invalid URL: the title and the error.
pub(crate) type Configured = Result<Arc<dyn Node>, (String, String)>;

impl ExaminedNode {
    fn add(&mut self, severity: Severity, topic: Topic, text: impl Into<String>, advice: &str) {
        self.findings.push(Finding::new(severity, topic, text, advice));
    }
}

/// Returns the node's incarnation, if the probe has read it.
fn life(probe: &Probe) -> Option<&Incarnation> {
    probe.standing.as_ref()?.life.as_ref()
}

/// Probes all nodes at the same time, and judges the results.
pub(crate) async fn examine(nodes: Vec<Configured>, plan: &Plan, measure: &Measure) -> Examination {
    let probes = nodes.into_iter().map(async |configured| match configured {
        Ok(node) => (node.title().to_owned(), node.examine(plan).await),
        Err((title, why)) => (title, Probe { trouble: Some(Trouble::Unfit(why)), ..Probe::default() }),
    });
    let (titles, probes): (Vec<_>, Vec<_>) = futures_util::future::join_all(probes).await.into_iter().unzip();
    let judged = titles.into_iter().zip(&probes).map(|(title, probe)| judge::judge_node(title, probe, measure));
    let mut nodes: Vec<ExaminedNode> = judged.collect();
    let findings = together::judge_nodes(&probes, &mut nodes, measure);
    Examination { nodes, findings, majority: Quorum::majority_of(measure.constants.nodes) }
}

/// Returns the beginning of a random id, which is sufficient to distinguish ids.
fn shorten(id: &str) -> String {
    id.chars().take(8).collect()
}

/// Formats the duration of a quarantine after a memory loss, for messages.
fn quarantine_text(measure: &Measure) -> String {
    duration_text(Duration::from_micros(quarantine_micros(&measure.constants)))
}

/// Formats a duration for messages.
fn duration_text(duration: Duration) -> String {
    if duration < Duration::from_secs(10) { format!("{duration:.1?}") } else { format!("{duration:.0?}") }
}

#[cfg(test)]
mod tests;
