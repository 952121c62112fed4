//! Decides which nodes form a cluster, and which nodes may join it.

use std::time::Duration;

use quorlock_core::node::{Constants, Incarnation};
use quorlock_core::quorum::Quorum;
use tokio::sync::Notify;

use crate::platform::entropy;
use crate::platform::sync::Mutex;

/// The facts about the nodes that the links of a client have learned.
pub(crate) struct Membership {
    quorum: Quorum,
    titles: Vec<String>,
    /// The constants that this client is configured with. Their cluster id is empty.
    constants: Constants,
    known: Mutex<KnownNodes>,
    changed: Notify,
}

/// The last known state of each node.
#[derive(Default)]
struct KnownNodes {
    nodes: Vec<Option<Member>>,
    /// The id of the cluster that a majority of the nodes belonged to when they were last seen.
    cluster: Option<String>,
}

/// A node that has answered.
#[derive(Clone, PartialEq, Eq)]
struct Member {
    run: String,
    /// The cluster that the node belongs to; `None` if the node is blank.
    affiliation: Option<Affiliation>,
}

/// The cluster of a node, and the run ids of the nodes that founded the cluster.
#[derive(Clone, PartialEq, Eq)]
struct Affiliation {
    cluster: String,
    founders: String,
}

/// The decision whether a link may use a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The link sends hello with these constants and founders.
    Hello { constants: Constants, founders: String },
    /// The link waits until other nodes have answered, for this reason.
    Wait(String),
    /// The link must not use the node, for this reason.
    Refused(String),
}

impl Membership {
    pub(crate) fn new(quorum: Quorum, titles: Vec<String>, constants: Constants) -> Self {
        let known = KnownNodes { nodes: vec![None; quorum.nodes()], cluster: None };
        Self { quorum, titles, constants, known: Mutex::new(known), changed: Notify::new() }
    }

    /// Returns the constants that this client is configured with, and this cluster id.
    pub(crate) fn constants(&self, cluster: String) -> Constants {
        Constants { cluster, ..self.constants.clone() }
    }

    /// Records the run id and the state of a node. Fails if another node is the same server, because one server must
    /// not vote twice, or if the node has other constants than this client.
    pub(crate) fn note(&self, node: usize, run: &str, life: Option<&Incarnation>) -> Result<(), String> {
        let mut known = self.known.lock();
        let twin = known
            .nodes
            .iter()
            .enumerate()
            .find(|(other, member)| *other != node && member.as_ref().is_some_and(|member| member.run == run));
        if let Some((other, _)) = twin {
            return Err(format!("it is the same server as {}: one server must not vote twice", self.titles[other]));
        }
        if let Some(life) = life {
            self.check_constants(&life.constants)?;
        }
        let affiliation =
            life.map(|life| Affiliation { cluster: life.constants.cluster.clone(), founders: life.founders.clone() });
        let member = Some(Member { run: run.into(), affiliation });
        let before = std::mem::replace(&mut known.nodes[node], member.clone());
        if let Some(cluster) = self.majority(&known) {
            known.cluster = Some(cluster);
        }
        drop(known);
        // Notify only if something changed: a waiting link checks its node after each notification and records the
        // result here, so links would wake each other forever.
        if before != member {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Returns the id of the cluster that a majority of the nodes belonged to when they were last seen.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.known.lock().cluster.clone()
    }

    /// Forgets all nodes, because they now form a new cluster.
    pub(crate) fn reset(&self) {
        *self.known.lock() = KnownNodes { nodes: vec![None; self.quorum.nodes()], cluster: None };
        self.changed.notify_waiters();
    }

    /// Waits until a node is recorded that has changed after this call.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Decides whether and how a node may be used.
    ///
    /// A blank node joins the cluster that a majority of the nodes belongs to. If no node belongs to a cluster and all
    /// nodes have answered, the client founds a new cluster: it gives the cluster id first to the node with the lowest
    /// run id, so that clients that found a cluster at the same time agree on the id. Every node stores the list of
    /// founders, so that a client can tell an interrupted founding from a node of another cluster.
    pub(crate) fn admit(&self, node: usize) -> Admission {
        let known = self.known.lock();
        let Some(member) = &known.nodes[node] else { return Admission::Wait("it has not answered yet".into()) };
        if let Some(cluster) = self.majority(&known).or_else(|| known.cluster.clone()) {
            return match &member.affiliation {
                Some(affiliation) if affiliation.cluster != cluster => Admission::Refused(format!(
                    "it belongs to the cluster {}, but the majority of the nodes belongs to {cluster}",
                    affiliation.cluster
                )),
                Some(affiliation) => self.hello(cluster, &affiliation.founders),
                None => {
                    // A founder that is still blank gets the list of founders, as from a client that saw all nodes
                    // blank.
                    let founders = founders(&known, &cluster).filter(|founders| has_founder(founders, &member.run));
                    let founders = founders.unwrap_or_default().to_owned();
                    self.hello(cluster, &founders)
                }
            };
        }
        let members: Vec<&Member> = known.nodes.iter().flatten().collect();
        if members.len() < self.quorum.nodes() {
            let missing = self.titles.iter().zip(&known.nodes).filter(|(_, member)| member.is_none());
            let missing: Vec<&str> = missing.map(|(title, _)| title.as_str()).collect();
            let (count, nodes) = (missing.len(), self.quorum.nodes());
            let verb = if count == 1 { "has" } else { "have" };
            let others = format!("{count} of {nodes} nodes {verb} not answered ({})", missing.join(", "));
            return Admission::Wait(if members.len() < self.quorum.majority() {
                format!("{others}; this node itself is reachable")
            } else {
                format!(
                    "{others}, and the nodes that have answered do not form a cluster yet: to found one, every node must answer"
                )
            });
        }
        let mut runs: Vec<&str> = members.iter().map(|member| member.run.as_str()).collect();
        runs.sort_unstable();
        let founders = runs.join(",");
        let mut affiliation = members.iter().filter_map(|member| member.affiliation.as_ref());
        if !affiliation.all(|affiliation| affiliation.founders == founders) {
            return Admission::Refused(
                "it cannot vote, because no majority of the nodes belongs to one cluster (some nodes have lost their \
                 memory, or belong to other clusters); if no lock can be outstanding, create a new cluster with \
                 `quorlock nodes init`"
                    .into(),
            );
        }
        let first = members.iter().min_by_key(|member| &member.run).and_then(|member| member.affiliation.as_ref());
        match first {
            Some(affiliation) => self.hello(affiliation.cluster.clone(), &founders),
            None if member.run == runs[0] => self.hello(format!("{:032x}", entropy::bits()), &founders),
            None => Admission::Wait("the cluster is being founded".into()),
        }
    }

    fn hello(&self, cluster: String, founders: &str) -> Admission {
        Admission::Hello { constants: self.constants(cluster), founders: founders.into() }
    }

    fn majority(&self, known: &KnownNodes) -> Option<String> {
        let clusters = || {
            known
                .nodes
                .iter()
                .flatten()
                .filter_map(|member| member.affiliation.as_ref().map(|affiliation| &affiliation.cluster))
        };
        let mut candidates = clusters();
        candidates.find(|name| clusters().filter(|other| other == name).count() >= self.quorum.majority()).cloned()
    }

    /// Checks that the node has this client's constants.
    fn check_constants(&self, theirs: &Constants) -> Result<(), String> {
        let ours = &self.constants;
        if ours.nodes != theirs.nodes {
            return Err(format!(
                "this client lists {} nodes, but the cluster has {}: list the same nodes in every client",
                ours.nodes, theirs.nodes
            ));
        }
        let differs = |setting, ours: String, theirs: String| {
            Err(format!(
                "this client has a {setting} of {ours}, but the cluster has {theirs}: set the cluster's value, or change \
                 the cluster with `quorlock nodes reconfigure`"
            ))
        };
        if ours.max_ttl_millis != theirs.max_ttl_millis {
            let to_text = |millis| format!("{:?}", Duration::from_millis(millis));
            return differs("max_ttl", to_text(ours.max_ttl_millis), to_text(theirs.max_ttl_millis));
        }
        if ours.max_skew_micros != theirs.max_skew_micros {
            let to_text = |micros| format!("{:?}", Duration::from_micros(micros));
            return differs("max_clock_skew", to_text(ours.max_skew_micros), to_text(theirs.max_skew_micros));
        }
        Ok(())
    }
}

/// Returns the run ids of the nodes that founded a cluster, if one of the nodes has the list.
fn founders<'a>(known: &'a KnownNodes, cluster: &str) -> Option<&'a str> {
    let affiliation = known.nodes.iter().flatten().filter_map(|member| member.affiliation.as_ref());
    affiliation
        .filter(|affiliation| affiliation.cluster == cluster)
        .map(|affiliation| affiliation.founders.as_str())
        .find(|founders| !founders.is_empty())
}

fn has_founder(founders: &str, run: &str) -> bool {
    founders.split(',').any(|founder| founder == run)
}

#[cfg(test)]
mod tests;
