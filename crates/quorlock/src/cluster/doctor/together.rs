//! The findings about the nodes together: duplicates, clusters, clocks, and how many may fail.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_core::fence::median;
use quorlock_core::node::Constants;
use quorlock_core::terms::Quorum;

use super::finding::Severity::{self, Note, Warning, Wrong};
use super::finding::{Finding, Topic};
use super::{ExaminedNode, Measure, NodeState, life, quarantine, shorten, spell};
use crate::node::probe::{Probe, Reading};

/// Judges the nodes together, and corrects the findings about each.
pub(super) fn judge(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) -> Vec<Finding> {
    twins(probes, nodes);
    constants(probes, nodes, measure);
    clusters(probes, nodes);
    clocks(probes, nodes, measure);
    newcomers(probes, nodes, measure).into_iter().chain(quorum(nodes, measure)).collect()
}

/// Reports servers that are listed twice, and servers that share a replication id, because one of them is or was a
/// replica of the other. Nodes must be independent: one server must not vote twice.
fn twins(probes: &[Probe], nodes: &mut [ExaminedNode]) {
    let run = |node: usize| probes[node].identity.as_ref().map(|identity| &identity.run);
    let replication = |node: usize| probes[node].redis.as_ref().map(|facts| facts.field("master_replid"));
    for node in 1..nodes.len() {
        let twin = (0..node).find(|other| run(node).is_some() && run(*other) == run(node));
        if let Some(twin) = twin {
            let text = format!("it is the same server as {}: one server must not vote twice", nodes[twin].title);
            nodes[node].state = NodeState::Unfit(text.clone());
            let advice = "list every server once, with one address and one database";
            nodes[node].find(Wrong, Topic::Server, text, advice);
        }
    }
    for node in 1..nodes.len() {
        let Some(id) = replication(node).filter(|id| !id.is_empty()) else { continue };
        let kin = (0..node).find(|other| replication(*other) == Some(id) && run(*other) != run(node));
        if let Some(kin) = kin {
            let is_replica = [node, kin].iter().any(|node| matches!(nodes[*node].state, NodeState::Unfit(_)));
            let title = &nodes[kin].title;
            let text = format!("it shares its replication id with {title}: one of them is, or was, a replica");
            let advice = "nodes must be independent: remove one of them, or restart it without data";
            nodes[node].find(if is_replica { Wrong } else { Warning }, Topic::Server, text, advice);
        }
    }
}

/// Reports nodes with other constants: every client and node must use the same.
fn constants(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) {
    for (probe, node) in probes.iter().zip(nodes) {
        let Some(theirs) = life(probe).map(|life| &life.constants) else { continue };
        let differences = differences(&measure.constants, theirs);
        if differences.is_empty() {
            let text = format!("cluster {}, with the same constants as here", shorten(&theirs.cluster));
            node.find(Severity::Ok, Topic::Constants, text, "");
        } else {
            let text = format!("it has other constants: {}", differences.join(", "));
            let advice =
                "configure the constants of the cluster, or change the cluster with quorlock nodes reconfigure";
            misfit(node, text, advice);
        }
    }
}

/// Marks a node that does not fit to the others.
fn misfit(node: &mut ExaminedNode, text: String, advice: &str) {
    if !matches!(node.state, NodeState::Unfit(_) | NodeState::Denied(_) | NodeState::Unreachable(_)) {
        node.state = NodeState::Unfit(text.clone());
    }
    node.find(Wrong, Topic::Constants, text, advice);
}

fn differences(ours: &Constants, theirs: &Constants) -> Vec<String> {
    let millis = |millis: u64| format!("{:?}", Duration::from_millis(millis));
    let micros = |micros: u64| format!("{:?}", Duration::from_micros(micros));
    let all = [
        ("nodes", ours.nodes.to_string(), theirs.nodes.to_string()),
        ("max_ttl", millis(ours.max_ttl_millis), millis(theirs.max_ttl_millis)),
        ("max_clock_skew", micros(ours.max_skew_micros), micros(theirs.max_skew_micros)),
    ];
    let differs = all.into_iter().filter(|(_, ours, theirs)| ours != theirs);
    differs.map(|(what, ours, theirs)| format!("{what} {theirs} there, {ours} here")).collect()
}

/// Reports nodes of another cluster.
fn clusters(probes: &[Probe], nodes: &mut [ExaminedNode]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for life in probes.iter().filter_map(life) {
        *counts.entry(&life.constants.cluster).or_default() += 1;
    }
    let Some((largest, _)) = counts.iter().max_by_key(|(_, count)| **count) else { return };
    for (probe, node) in probes.iter().zip(nodes) {
        let Some(cluster) = life(probe).map(|life| &*life.constants.cluster) else { continue };
        if cluster != *largest {
            let text = format!("it belongs to another cluster: {}, not {}", shorten(cluster), shorten(largest));
            let advice = "check the list of nodes. If no lock can be outstanding on any of them: quorlock nodes init";
            misfit(node, text, advice);
        }
    }
}

/// Measures how far each clock is from the median. If only two clocks differ, neither is known to be wrong.
fn clocks(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) {
    let sharpest = |probe: &Probe| probe.first.iter().copied().min_by_key(Reading::round_trip);
    let readings: Vec<Reading> = probes.iter().filter_map(sharpest).collect();
    let Some(middle) = median(readings.iter().map(Reading::offset)).filter(|_| readings.len() >= 3) else { return };
    let slowest = readings.iter().map(Reading::round_trip).max().unwrap_or_default();
    let max_clock_skew = Duration::from_micros(measure.constants.max_skew_micros);
    let advice = "synchronize the nodes' clocks with a time service";
    for (probe, node) in probes.iter().zip(nodes) {
        let Some(reading) = sharpest(probe) else { continue };
        let micros = reading.offset() - middle;
        node.skew_micros = Some(micros);
        let off = Duration::from_micros(micros.unsigned_abs());
        let side = if micros < 0 { "behind" } else { "ahead of" };
        let doubt = spell((reading.round_trip() + slowest) / 2);
        let text = format!("its clock is {} {side} the median (within {doubt})", spell(off));
        if off > max_clock_skew / 2 {
            if node.state == NodeState::Voting {
                node.state = NodeState::Skewed(micros);
            }
            let text =
                format!("{text}, more than half of max_clock_skew ({max_clock_skew:?}): its votes are not counted");
            node.find(Wrong, Topic::Clock, text, advice);
        } else if off > max_clock_skew / 10 {
            let text = format!("{text}; its votes are not counted from {:?} on", max_clock_skew / 2);
            node.find(Warning, Topic::Clock, text, advice);
        } else {
            node.find(Severity::Ok, Topic::Clock, text, "");
        }
    }
}

/// Reports nodes that belong to no cluster yet.
fn newcomers(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) -> Option<Finding> {
    let quarantine = quarantine(measure);
    let members = probes.iter().filter_map(life).count();
    let is_blank = |node: &usize| nodes[*node].state == NodeState::Blank && probes[*node].file.is_none();
    let blank: Vec<usize> = (0..nodes.len()).filter(is_blank).collect();
    if blank.is_empty() || measure.is_single() {
        return None;
    }
    if members == 0 {
        let text = format!(
            "the nodes are new: when the first client connects, they become a cluster, and may vote {quarantine} later"
        );
        let is_new = blank.len() == measure.constants.nodes;
        return is_new.then(|| Finding::new(Note, Topic::Life, text, "to skip the wait: quorlock nodes init --yes"));
    }
    let away = nodes.iter().filter(|node| matches!(node.state, NodeState::Unreachable(_)));
    let away: Vec<String> = away.map(|node| node.title.clone()).collect();
    let (severity, text, advice) = if members >= Quorum::majority_of(measure.constants.nodes) {
        let text = format!(
            "it is blank: when the next client connects, it joins the cluster, and may vote {quarantine} later"
        );
        (Warning, text, "wait for it: quorlock nodes wait")
    } else if !away.is_empty() {
        let text = format!("it is blank, and joins the cluster when {} can be reached", away.join(" and "));
        (Warning, text, "start the other nodes first")
    } else {
        let text = "it is blank, and no majority of the nodes belongs to one cluster: it cannot join automatically";
        (Wrong, text.into(), "if no lock can be outstanding on any of them: quorlock nodes init")
    };
    for node in blank {
        nodes[node].find(severity, Topic::Life, text.clone(), advice);
    }
    None
}

/// Reports how many nodes may fail.
fn quorum(nodes: &[ExaminedNode], measure: &Measure) -> Vec<Finding> {
    let count = measure.constants.nodes;
    let majority = Quorum::majority_of(count);
    let in_state = |is: fn(&NodeState) -> bool| nodes.iter().filter(|node| is(&node.state)).count();
    let voting = in_state(|state| *state == NodeState::Voting);
    let find = |severity, text: String| Finding::new(severity, Topic::Quorum, text, "");
    if count == 1 {
        // A single node votes as soon as a client connects.
        let ready = in_state(|state| matches!(state, NodeState::Blank | NodeState::Restarted));
        let text = "one node: when it fails, nobody gets a lock; after a restart it may vote at once";
        return vec![if voting + ready == 1 {
            find(Note, text.into())
        } else {
            find(Wrong, "the only node cannot vote: nobody gets a lock".into())
        }];
    }
    let mut findings = Vec::new();
    if count.is_multiple_of(2) && count > 2 {
        let text = format!("{count} nodes tolerate no more failures than {}", count - 1);
        findings.push(Finding::new(Warning, Topic::Quorum, text, "use an odd number of them"));
    }
    let tally = format!("{voting} of {count} nodes can vote, and {majority} are a majority");
    if voting == count {
        findings.push(find(Severity::Ok, format!("{tally}: {} may fail", count - majority)));
    } else if voting > majority {
        findings.push(find(Note, format!("{tally}: {} more may fail", voting - majority)));
    } else if voting == majority {
        findings.push(find(Warning, format!("{tally}: no more may fail")));
    } else if in_state(|state| *state == NodeState::Blank) < count {
        findings.push(find(Wrong, format!("{tally}: nobody gets a lock now")));
    }
    findings
}
