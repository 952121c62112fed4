//! The findings that depend on several nodes: duplicates, clusters, clocks, and how many nodes may fail.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_core::fence::median;
use quorlock_core::node::Constants;
use quorlock_core::quorum::Quorum;

use super::finding::Severity::{self, Error, Note, Warning};
use super::finding::{Finding, Topic};
use super::{ExaminedNode, Measure, NodeState, duration_text, life, quarantine_text, shorten};
use crate::node::probe::{Probe, Reading};

/// Compares the nodes. Returns the findings about all nodes together, and adds findings and states to single nodes.
pub(super) fn judge_nodes(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) -> Vec<Finding> {
    check_duplicates(probes, nodes);
    check_constants(probes, nodes, measure);
    check_clusters(probes, nodes);
    check_clocks(probes, nodes, measure);
    check_blank_nodes(probes, nodes, measure).into_iter().chain(check_quorum(nodes, measure)).collect()
}

/// Reports servers that are listed twice, because one server must not vote twice. Also reports two servers with the
/// same replication id: one of these servers is or was a replica of the other, but nodes must be independent.
fn check_duplicates(probes: &[Probe], nodes: &mut [ExaminedNode]) {
    let run = |node: usize| probes[node].identity.as_ref().map(|identity| &identity.run);
    let replication = |node: usize| probes[node].redis.as_ref().map(|facts| facts.field("master_replid"));
    for node in 1..nodes.len() {
        let duplicate = (0..node).find(|other| run(node).is_some() && run(*other) == run(node));
        if let Some(duplicate) = duplicate {
            let text = format!("it is the same server as {}: one server must not vote twice", nodes[duplicate].title);
            nodes[node].state = NodeState::Unfit(text.clone());
            let advice = "list every server once, with one address and one database";
            nodes[node].add(Error, Topic::Server, text, advice);
        }
    }
    for node in 1..nodes.len() {
        let Some(id) = replication(node).filter(|id| !id.is_empty()) else { continue };
        let related = (0..node).find(|other| replication(*other) == Some(id) && run(*other) != run(node));
        if let Some(related) = related {
            let is_replica = [node, related].iter().any(|node| matches!(nodes[*node].state, NodeState::Unfit(_)));
            let title = &nodes[related].title;
            let text = format!("it shares its replication id with {title}: one of the two is, or was, a replica");
            let advice = "nodes must be independent: remove one of the two, or restart it without data";
            nodes[node].add(if is_replica { Error } else { Warning }, Topic::Server, text, advice);
        }
    }
}

/// Reports nodes whose constants differ from the configured constants.
fn check_constants(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) {
    for (probe, node) in probes.iter().zip(nodes) {
        let Some(theirs) = life(probe).map(|life| &life.constants) else { continue };
        let differences = differences(&measure.constants, theirs);
        if differences.is_empty() {
            let text = format!("cluster {}, with the configured constants", shorten(&theirs.cluster));
            node.add(Severity::Ok, Topic::Constants, text, "");
        } else {
            let text = format!("its constants differ from the configured ones: {}", differences.join(", "));
            let advice =
                "configure the constants of the cluster, or change the cluster with quorlock nodes reconfigure";
            mark_unfit(node, text, advice);
        }
    }
}

/// Marks a node that does not fit the configuration or the other nodes.
fn mark_unfit(node: &mut ExaminedNode, text: String, advice: &str) {
    if !matches!(node.state, NodeState::Unfit(_) | NodeState::Denied(_) | NodeState::Unreachable(_)) {
        node.state = NodeState::Unfit(text.clone());
    }
    node.add(Error, Topic::Constants, text, advice);
}

fn differences(ours: &Constants, theirs: &Constants) -> Vec<String> {
    let millis = |millis: u64| format!("{:?}", Duration::from_millis(millis));
    let micros = |micros: u64| format!("{:?}", Duration::from_micros(micros));
    let constants = [
        ("nodes", ours.nodes.to_string(), theirs.nodes.to_string()),
        ("max_ttl", millis(ours.max_ttl_millis), millis(theirs.max_ttl_millis)),
        ("max_clock_skew", micros(ours.max_skew_micros), micros(theirs.max_skew_micros)),
    ];
    let different = constants.into_iter().filter(|(_, ours, theirs)| ours != theirs);
    different.map(|(what, ours, theirs)| format!("{what} is {theirs} on the node and {ours} here")).collect()
}

/// Reports nodes that belong to another cluster than most nodes.
fn check_clusters(probes: &[Probe], nodes: &mut [ExaminedNode]) {
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
            mark_unfit(node, text, advice);
        }
    }
}

/// Reports how far each node's clock is from the median. Does nothing with fewer than three clocks: if only two clocks
/// differ, it is unknown which of them is wrong.
fn check_clocks(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) {
    let most_exact = |probe: &Probe| probe.first.iter().copied().min_by_key(Reading::round_trip);
    let readings: Vec<Reading> = probes.iter().filter_map(most_exact).collect();
    let Some(median) = median(readings.iter().map(Reading::offset)).filter(|_| readings.len() >= 3) else { return };
    let slowest = readings.iter().map(Reading::round_trip).max().unwrap_or_default();
    let max_clock_skew = Duration::from_micros(measure.constants.max_skew_micros);
    let advice = "synchronize the nodes' clocks with a time service";
    for (probe, node) in probes.iter().zip(nodes) {
        let Some(reading) = most_exact(probe) else { continue };
        let micros = reading.offset() - median;
        node.skew_micros = Some(micros);
        let distance = Duration::from_micros(micros.unsigned_abs());
        let side = if micros < 0 { "behind" } else { "ahead of" };
        let uncertainty = duration_text((reading.round_trip() + slowest) / 2);
        let text = format!("its clock is {} {side} the median (within {uncertainty})", duration_text(distance));
        if distance > max_clock_skew / 2 {
            if node.state == NodeState::Voting {
                node.state = NodeState::Skewed(micros);
            }
            let text =
                format!("{text}, more than half of max_clock_skew ({max_clock_skew:?}): its votes are not counted");
            node.add(Error, Topic::Clock, text, advice);
        } else if distance > max_clock_skew / 10 {
            let text = format!("{text}; from {:?} on, its votes are not counted", max_clock_skew / 2);
            node.add(Warning, Topic::Clock, text, advice);
        } else {
            node.add(Severity::Ok, Topic::Clock, text, "");
        }
    }
}

/// Reports nodes that belong to no cluster yet.
fn check_blank_nodes(probes: &[Probe], nodes: &mut [ExaminedNode], measure: &Measure) -> Option<Finding> {
    let quarantine = quarantine_text(measure);
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
        let are_all_blank = blank.len() == measure.constants.nodes;
        return are_all_blank
            .then(|| Finding::new(Note, Topic::Life, text, "to skip the wait: quorlock nodes init --yes"));
    }
    let unreachable = nodes.iter().filter(|node| matches!(node.state, NodeState::Unreachable(_)));
    let unreachable: Vec<String> = unreachable.map(|node| node.title.clone()).collect();
    let (severity, text, advice) = if members >= Quorum::majority_of(measure.constants.nodes) {
        let text = format!(
            "it is blank: when the next client connects, it joins the cluster, and may vote {quarantine} later"
        );
        (Warning, text, "wait for it: quorlock nodes wait")
    } else if !unreachable.is_empty() {
        let text =
            format!("it is blank, and joins the cluster as soon as {} can be reached", unreachable.join(" and "));
        (Warning, text, "start the other nodes first")
    } else {
        let text = "it is blank, and no majority of the nodes belongs to one cluster: it cannot join automatically";
        (Error, text.into(), "if no lock can be outstanding on any of them: quorlock nodes init")
    };
    for node in blank {
        nodes[node].add(severity, Topic::Life, text.clone(), advice);
    }
    None
}

/// Reports how many nodes may fail.
fn check_quorum(nodes: &[ExaminedNode], measure: &Measure) -> Vec<Finding> {
    let count = measure.constants.nodes;
    let majority = Quorum::majority_of(count);
    let count_in = |is_in: fn(&NodeState) -> bool| nodes.iter().filter(|node| is_in(&node.state)).count();
    let voting = count_in(|state| *state == NodeState::Voting);
    let finding = |severity, text: String| Finding::new(severity, Topic::Quorum, text, "");
    if count == 1 {
        // A single node that is blank or has restarted can vote as soon as a client connects.
        let ready = count_in(|state| matches!(state, NodeState::Blank | NodeState::Restarted));
        let text = "one node: when it fails, nobody gets a lock; after a restart it may vote at once";
        return vec![if voting + ready == 1 {
            finding(Note, text.into())
        } else {
            finding(Error, "the only node cannot vote: nobody gets a lock".into())
        }];
    }
    let mut findings = Vec::new();
    if count.is_multiple_of(2) && count > 2 {
        let text = format!("{count} nodes tolerate no more failures than {}", count - 1);
        findings.push(Finding::new(Warning, Topic::Quorum, text, "use an odd number of nodes"));
    }
    let tally = format!("{voting} of {count} nodes can vote, and {majority} are a majority");
    if voting == count {
        findings.push(finding(Severity::Ok, format!("{tally}: {} may fail", count - majority)));
    } else if voting > majority {
        findings.push(finding(Note, format!("{tally}: {} more may fail", voting - majority)));
    } else if voting == majority {
        findings.push(finding(Warning, format!("{tally}: no more may fail")));
    } else if count_in(|state| *state == NodeState::Blank) < count {
        findings.push(finding(Error, format!("{tally}: nobody gets a lock now")));
    }
    findings
}
