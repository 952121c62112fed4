//! Which nodes belong together: who may join a cluster, and who may not.

use std::sync::MutexGuard;
use std::time::Duration;

use quorlock_core::node::{Constants, Incarnation};
use quorlock_core::quorum::Quorum;
use tokio::sync::Notify;

use crate::platform::entropy;
use crate::platform::sync::Mutex;

/// What a client's links have learned about the nodes, together.
pub(crate) struct Membership {
    quorum: Quorum,
    titles: Vec<String>,
    max_ttl_millis: u64,
    max_skew_micros: u64,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    nodes: Vec<Option<Member>>,
    /// The cluster that a majority was once seen to carry.
    cluster: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Member {
    run: String,
    /// The cluster that it belongs to; `None` when it is blank.
    kin: Option<Kin>,
}

#[derive(Clone, PartialEq, Eq)]
struct Kin {
    cluster: String,
    founders: String,
}

/// What a link may do with the node it has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Say hello with these.
    Hello { constants: Constants, founders: String },
    /// More has to be known first.
    Wait(String),
    /// It does not belong here, and why.
    Refused(String),
}

impl Membership {
    pub(crate) fn new(quorum: Quorum, titles: Vec<String>, max_ttl_millis: u64, max_skew_micros: u64) -> Self {
        let seen = Seen { nodes: vec![None; quorum.nodes()], cluster: None };
        Self { quorum, titles, max_ttl_millis, max_skew_micros, seen: Mutex::new(seen), changed: Notify::new() }
    }

    /// The constants of a cluster of this name, as this client is configured.
    pub(crate) fn constants(&self, cluster: String) -> Constants {
        Constants {
            cluster,
            nodes: self.quorum.nodes(),
            max_ttl_millis: self.max_ttl_millis,
            max_skew_micros: self.max_skew_micros,
        }
    }

    /// Takes down what a node said of itself. Returns why it cannot be counted: one server must not vote twice.
    pub(crate) fn note(&self, node: usize, run: &str, life: Option<&Incarnation>) -> Result<(), String> {
        let mut seen = self.seen();
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
        // Only news: links that wait look again for each, and would wake each other for ever.
        if before != member {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// The id of the cluster that a majority of the nodes carries, or carried when they were last seen.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.seen().cluster.clone()
    }

    /// Forgets everything: the nodes have been told to be another cluster.
    pub(crate) fn reset(&self) {
        *self.seen() = Seen { nodes: vec![None; self.quorum.nodes()], cluster: None };
        self.changed.notify_waiters();
    }

    /// Something changed since this was called.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Whether a node that has been noted may be used, and how.
    ///
    /// A blank node joins a cluster that a majority carries. A cluster is founded only when all nodes are there and
    /// blank: the one with the lowest run gets a name first, so that clients that found at the same time agree, and
    /// all of them keep the list of founders, so that an interrupted founding can be told from a strange node.
    pub(crate) fn admit(&self, node: usize) -> Admission {
        let seen = self.seen();
        let Some(member) = &seen.nodes[node] else { return Admission::Wait("it has not been looked at".into()) };
        if let Some(cluster) = self.majority(&seen).or_else(|| seen.cluster.clone()) {
            return match &member.kin {
                Some(kin) if kin.cluster != cluster => Admission::Refused(format!(
                    "it belongs to the cluster {}, the majority of the nodes to {cluster}",
                    kin.cluster
                )),
                Some(kin) => self.hello(cluster, &kin.founders),
                None => {
                    // The last to be founded looks like the others to a client that saw all of them blank.
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

    /// Everyone who uses a cluster has to agree on its constants.
    fn compare(&self, theirs: &Constants) -> Result<(), String> {
        let ours = self.constants(theirs.cluster.clone());
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

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

/// The runs that a cluster was founded of, where a node knows.
fn founders<'a>(seen: &'a Seen, cluster: &str) -> Option<&'a str> {
    let kin = seen.nodes.iter().flatten().filter_map(|member| member.kin.as_ref());
    kin.filter(|kin| kin.cluster == cluster).map(|kin| kin.founders.as_str()).find(|founders| !founders.is_empty())
}

fn among(founders: &str, run: &str) -> bool {
    founders.split(',').any(|founder| founder == run)
}

#[cfg(test)]
mod tests;
