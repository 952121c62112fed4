//! Examines the nodes: what is wrong, how severe it is, and what to do about it.
//!
//! An examination does not change the nodes. It sends no hello, so a blank node stays blank, and a memory loss is not
//! recorded. On a Redis server it tries commands within one script, on unused keys, and leaves no data.

mod finding;
mod judge;
mod together;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::node::{Constants, Incarnation, quarantine_micros};
use quorlock_core::terms::Quorum;
use quorlock_core::time::Drift;

pub use finding::{Finding, Severity, Topic};

use crate::node::probe::{Plan, Probe};
use crate::node::{Node, Trouble};

/// The result of examining all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// Each node, in the order of the configuration.
    pub nodes: Vec<ExaminedNode>,
    /// The findings about all nodes together.
    pub findings: Vec<Finding>,
    /// The number of nodes that must vote for a lock.
    pub majority: usize,
}

impl Examination {
    /// Returns every finding, with the node that it is about.
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
    /// Its URL, without secrets.
    pub title: String,
    /// Whether it can vote.
    pub state: NodeState,
    /// The kind of server, and its version.
    pub server: Option<String>,
    /// The beginning of the server's run id.
    pub run: Option<String>,
    /// The beginning of the epoch of its memory.
    pub epoch: Option<String>,
    /// The beginning of the id of its cluster.
    pub cluster: Option<String>,
    /// The number of restarts since the cluster was created, as the node reports it.
    pub restarts: Option<u64>,
    /// The fastest of several round trips.
    pub round_trip: Option<Duration>,
    /// How far its clock is ahead of the median of all nodes, in microseconds, if there are at least three.
    pub skew_micros: Option<i64>,
    /// By how many millionths its clock runs faster than the clock of this process, if it was measured.
    pub rate_ppm: Option<i64>,
    /// The findings about it.
    pub findings: Vec<Finding>,
}

/// Whether a node can vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It can vote.
    Voting,
    /// It lost its memory.
    Quarantined {
        /// The remaining quarantine, as the node reports it.
        left: Duration,
    },
    /// It restarted, or was wiped, and no client has connected to it since.
    Restarted,
    /// It belongs to no cluster yet.
    Blank,
    /// A change of the cluster's constants was started and not finished.
    Suspended,
    /// It can be reached, but cannot be used.
    Unfit(String),
    /// Its clock is this many microseconds from the median of all nodes.
    Skewed(i64),
    /// It rejects the password, or denies permissions.
    Denied(String),
    /// It does not answer.
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

/// A configured node, or the title and the error of a URL that is invalid.
pub(crate) type Configured = Result<Arc<dyn Node>, (String, String)>;

impl ExaminedNode {
    fn find(&mut self, severity: Severity, topic: Topic, text: impl Into<String>, advice: &str) {
        self.findings.push(Finding::new(severity, topic, text, advice));
    }
}

/// Returns the life of the node's memory, if it was read.
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
    let judged = titles.into_iter().zip(&probes).map(|(title, probe)| judge::node(title, probe, measure));
    let mut nodes: Vec<ExaminedNode> = judged.collect();
    let findings = together::judge(&probes, &mut nodes, measure);
    Examination { nodes, findings, majority: Quorum::majority_of(measure.constants.nodes) }
}

/// Shortens a random id. The beginning is sufficient to distinguish ids.
fn shorten(name: &str) -> String {
    name.chars().take(8).collect()
}

/// Returns the duration of a quarantine after a memory loss, for messages.
fn quarantine(measure: &Measure) -> String {
    spell(Duration::from_micros(quarantine_micros(&measure.constants)))
}

/// Formats a duration for messages.
fn spell(duration: Duration) -> String {
    if duration < Duration::from_secs(10) { format!("{duration:.1?}") } else { format!("{duration:.0?}") }
}

#[cfg(test)]
mod tests;
