//! Decides which nodes form a cluster, and which nodes may join it.

use std::time::Duration;

use quorlock_core::node::{Constants, Incarnation};
use quorlock_core::quorum::Quorum;
use tokio::sync::Notify;

use crate::platform::entropy;
use crate::platform::sync::Mutex;

/// What the links of a client have learned about the nodes.
pub(crate) struct Membership {
    quorum: Quorum,
    titles: Vec<String>,
    /// As this client is configured. The cluster's id is empty.
    constants: Constants,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    nodes: Vec<Option<Member>>,
    /// The id of the cluster that a majority was seen to belong to.
    cluster: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Member {
    run: String,
    /// The cluster that the node belongs to; `None` if it is blank.
    kin: Option<Kin>,
}

#[derive(Clone, PartialEq, Eq)]
struct Kin {
    cluster: String,
    founders: String,
}

/// What a link may do with a node after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Send hello with these.
    Hello { constants: Constants, founders: String },
    /// Wait until more is known.
    Wait(String),
    /// The node does not belong to this cluster, for this reason.
    Refused(String),
}

impl Membership {
    pub(crate) fn new(quorum: Quorum, titles: Vec<String>, constants: Constants) -> Self {
        let seen = Seen { nodes: vec![None; quorum.nodes()], cluster: None };
        Self { quorum, titles, constants, seen: Mutex::new(seen), changed: Notify::new() }
    }

    /// Returns the constants of a cluster with this id, as this client is configured.
    pub(crate) fn constants(&self, cluster: String) -> Constants {
        Constants { cluster, ..self.constants.clone() }
    }

    /// Records what a node reported. Returns an error if the same server is listed twice: one server must not vote twice.
    pub(crate) fn note(&self, node: usize, run: &str, life: Option<&Incarnation>) -> Result<(), String> {
        let mut seen = self.seen.lock();
        let twin = seen
            .nodes
            .iter()
            .enumerate()
            .find(|(other, member)| *other != node && member.as_ref().is_some_and(|member| member.run == run));
        if let Some((other, _)) = twin {
            return Err(format!("it is the same server as {}: one server must not vote twice", self.titles[other]));
        }
        if let Some(life) = life {
            self.compare(&life.constants)?;
        }
        let kin = life.map(|life| Kin { cluster: life.constants.cluster.clone(), founders: life.founders.clone() });
        let member = Some(Member { run: run.into(), kin });
        let before = std::mem::replace(&mut seen.nodes[node], member.clone());
        if let Some(cluster) = self.majority(&seen) {
            seen.cluster = Some(cluster);
        }
        drop(seen);
        // Notify only about changes: waiting links look again after each, and would otherwise wake each other forever.
        if before != member {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Returns the id of the cluster that a majority of the nodes belongs to, as of when each was last seen.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.seen.lock().cluster.clone()
    }

    /// Forgets everything, because the nodes were made another cluster.
    pub(crate) fn reset(&self) {
        *self.seen.lock() = Seen { nodes: vec![None; self.quorum.nodes()], cluster: None };
        self.changed.notify_waiters();
    }

    /// Waits for a change after this call.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Decides whether and how a node may be used.
    ///
    /// A blank node joins a cluster that a majority belongs to. A new cluster is founded only if all nodes are present and
    /// blank. The node with the lowest run id gets the cluster id first, so that clients that found a cluster at the same
    /// time agree. Every node stores the list of founders, which tells an interrupted founding from a node of another
    /// cluster.
    pub(crate) fn admit(&self, node: usize) -> Admission {
        let seen = self.seen.lock();
        let Some(member) = &seen.nodes[node] else { return Admission::Wait("it has not been looked at".into()) };
        if let Some(cluster) = self.majority(&seen).or_else(|| seen.cluster.clone()) {
            return match &member.kin {
                Some(kin) if kin.cluster != cluster => Admission::Refused(format!(
                    "it belongs to the cluster {}, the majority of the nodes to {cluster}",
                    kin.cluster
                )),
                Some(kin) => self.hello(cluster, &kin.founders),
                None => {
                    // To a client that saw all nodes blank, the last node to be founded looks like the others.
                    let founders = founders(&seen, &cluster).filter(|founders| among(founders, &member.run));
                    let founders = founders.unwrap_or_default().to_owned();
                    self.hello(cluster, &founders)
                }
            };
        }
        let members: Vec<&Member> = seen.nodes.iter().flatten().collect();
        if members.len() < self.quorum.nodes() {
            let missing = self.titles.iter().zip(&seen.nodes).filter(|(_, member)| member.is_none());
            let missing: Vec<&str> = missing.map(|(title, _)| title.as_str()).collect();
            let (count, nodes) = (missing.len(), self.quorum.nodes());
            let verb = if count == 1 { "has" } else { "have" };
            let others = format!("{count} of {nodes} nodes {verb} not answered ({})", missing.join(", "));
            return Admission::Wait(if members.len() < self.quorum.majority() {
                format!("{others}; nothing to do on this one")
            } else {
                format!("{others}, and the others are not yet one cluster")
            });
        }
        let mut runs: Vec<&str> = members.iter().map(|member| member.run.as_str()).collect();
        runs.sort_unstable();
        let founders = runs.join(",");
        let mut kin = members.iter().filter_map(|member| member.kin.as_ref());
        if !kin.all(|kin| kin.founders == founders) {
            return Admission::Refused(
                "no majority of the nodes carries one cluster's name, and some belong to other clusters or have lost \
                 their memory: if no lock can be outstanding, declare the cluster with `quorlock nodes init`"
                    .into(),
            );
        }
        let first = members.iter().min_by_key(|member| &member.run).and_then(|member| member.kin.as_ref());
        match first {
            Some(kin) => self.hello(kin.cluster.clone(), &founders),
            None if member.run == runs[0] => self.hello(format!("{:032x}", entropy::bits()), &founders),
            None => Admission::Wait("the cluster is being founded".into()),
        }
    }

    fn hello(&self, cluster: String, founders: &str) -> Admission {
        Admission::Hello { constants: self.constants(cluster), founders: founders.into() }
    }

    fn majority(&self, seen: &Seen) -> Option<String> {
        let clusters = || seen.nodes.iter().flatten().filter_map(|member| member.kin.as_ref().map(|kin| &kin.cluster));
        let mut candidates = clusters();
        candidates.find(|name| clusters().filter(|other| other == name).count() >= self.quorum.majority()).cloned()
    }

    /// Checks that the node has this client's constants.
    fn compare(&self, theirs: &Constants) -> Result<(), String> {
        let ours = &self.constants;
        let differs = |what, ours: String, theirs: String| {
            Err(format!("this client is configured with {what} {ours}, the cluster with {theirs}"))
        };
        if ours.nodes != theirs.nodes {
            return differs("a number of nodes of", ours.nodes.to_string(), theirs.nodes.to_string());
        }
        if ours.max_ttl_millis != theirs.max_ttl_millis {
            let spell = |millis| format!("{:?}", Duration::from_millis(millis));
            return differs("a max_ttl of", spell(ours.max_ttl_millis), spell(theirs.max_ttl_millis));
        }
        if ours.max_skew_micros != theirs.max_skew_micros {
            let spell = |micros| format!("{:?}", Duration::from_micros(micros));
            return differs("a max_clock_skew of", spell(ours.max_skew_micros), spell(theirs.max_skew_micros));
        }
        Ok(())
    }
}

/// Returns the run ids of the nodes that founded a cluster, if a node knows them.
fn founders<'a>(seen: &'a Seen, cluster: &str) -> Option<&'a str> {
    let kin = seen.nodes.iter().flatten().filter_map(|member| member.kin.as_ref());
    kin.filter(|kin| kin.cluster == cluster).map(|kin| kin.founders.as_str()).find(|founders| !founders.is_empty())
}

fn among(founders: &str, run: &str) -> bool {
    founders.split(',').any(|founder| founder == run)
}

#[cfg(test)]
mod tests;
