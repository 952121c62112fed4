//! What is to be said of the nodes together: twins, clusters, clocks, and how many may fail.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_core::fence::median;
use quorlock_core::node::{Constants, quarantine_micros};
use quorlock_core::quorum::Quorum;

use super::finding::{Finding, Topic};
use super::{Measure, NodeState, Patient, Skew, shorten, spell};
use crate::node::probe::Reading;

/// Judges them, and changes what was thought of each.
pub(super) fn judge(patients: &mut [Patient], measure: &Measure) -> Vec<Finding> {
    twins(patients);
    replicas(patients);
    constants(patients, measure);
    clusters(patients);
    clocks(patients, measure);
    let mut findings = Vec::new();
    newcomers(patients, measure, &mut findings);
    quorum(patients, measure, &mut findings);
    findings
}

/// One server must not vote twice.
fn twins(patients: &mut [Patient]) {
    let id = |patient: &Patient| patient.probe.identity.as_ref().map(|identity| identity.run.clone());
    for index in 1..patients.len() {
        let (before, rest) = patients.split_at_mut(index);
        let patient = &mut rest[0];
        let Some(run) = id(patient) else { continue };
        if let Some(twin) = before.iter().find(|other| id(other).as_ref() == Some(&run)) {
            let text = format!("it is the same server as {}: one server must not vote twice", twin.title);
            patient.state = NodeState::Unfit(text.clone());
            let advice = "name every server once: by one address, and one database of it";
            patient.findings.push(Finding::wrong(Topic::Server, text).advise(advice));
        }
    }
}

/// Servers that replicate from one another share an id.
fn replicas(patients: &mut [Patient]) {
    let replication = |patient: &Patient| {
        let id = patient.probe.redis.as_ref()?.field("master_replid");
        (!id.is_empty()).then(|| id.to_owned())
    };
    let run = |patient: &Patient| patient.probe.identity.as_ref().map(|identity| identity.run.clone());
    for index in 1..patients.len() {
        let (before, rest) = patients.split_at_mut(index);
        let patient = &mut rest[0];
        let Some(id) = replication(patient) else { continue };
        let kin =
            before.iter_mut().find(|other| replication(other).as_ref() == Some(&id) && run(other) != run(patient));
        if let Some(other) = kin {
            let is_replica = |patient: &Patient| matches!(patient.state, NodeState::Unfit(_));
            let text = format!("it shares its replication id with {}: one of them is, or was, a replica", other.title);
            let advice = "a node has to be independent: give up one of them, or start it empty";
            patient.findings.push(if is_replica(patient) || is_replica(other) {
                Finding::wrong(Topic::Server, text).advise(advice)
            } else {
                Finding::warning(Topic::Server, text).advise(advice)
            });
        }
    }
}

/// Everyone has to go by the same.
fn constants(patients: &mut [Patient], measure: &Measure) {
    let ours = &measure.constants;
    for patient in patients {
        let Some(theirs) = patient.life().map(|life| life.constants.clone()) else { continue };
        let differences = differences(ours, &theirs);
        if differences.is_empty() {
            patient.findings.push(Finding::ok(
                Topic::Constants,
                format!("cluster {}, with the same constants as here", shorten(&theirs.cluster)),
            ));
            continue;
        }
        let text = format!("it goes by other constants: {}", differences.join(", "));
        if is_usable(&patient.state) {
            patient.state = NodeState::Unfit(text.clone());
        }
        let advice = "configure the same as everyone else, or change the cluster with quorlock nodes reconfigure";
        patient.findings.push(Finding::wrong(Topic::Constants, text).advise(advice));
    }
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

/// All nodes have to be of one cluster.
fn clusters(patients: &mut [Patient]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for life in patients.iter().filter_map(Patient::life) {
        *counts.entry(life.constants.cluster.clone()).or_default() += 1;
    }
    let Some((largest, _)) = counts.iter().max_by_key(|(_, count)| **count) else { return };
    for patient in patients {
        let Some(cluster) = patient.life().map(|life| life.constants.cluster.clone()) else { continue };
        if cluster != *largest {
            let text = format!("it belongs to another cluster: {}, not {}", shorten(&cluster), shorten(largest));
            if is_usable(&patient.state) {
                patient.state = NodeState::Unfit(text.clone());
            }
            let advice =
                "is the list of nodes right? If no lock can be outstanding on any of them: quorlock nodes init";
            patient.findings.push(Finding::wrong(Topic::Constants, text).advise(advice));
        }
    }
}

fn is_usable(state: &NodeState) -> bool {
    !matches!(state, NodeState::Unfit(_) | NodeState::Denied(_) | NodeState::Unreachable(_))
}

/// How far each clock is from the middle. Two that differ do not tell which of them is wrong.
fn clocks(patients: &mut [Patient], measure: &Measure) {
    let sharpest = |patient: &Patient| patient.probe.first.iter().copied().min_by_key(Reading::round_trip);
    let offsets: Vec<i64> = patients.iter().filter_map(sharpest).map(|reading| reading.offset()).collect();
    let Some(middle) = median(offsets.iter().copied()).filter(|_| offsets.len() >= 3) else { return };
    let max_clock_skew = Duration::from_micros(measure.constants.max_skew_micros);
    let slowest = patients.iter().filter_map(sharpest).map(|reading| reading.round_trip()).max().unwrap_or_default();
    for patient in patients {
        let Some(reading) = sharpest(patient) else { continue };
        let skew = Skew { micros: reading.offset() - middle, uncertainty: (reading.round_trip() + slowest) / 2 };
        patient.skew = Some(skew);
        let off = Duration::from_micros(skew.micros.unsigned_abs());
        let side = if skew.micros < 0 { "behind" } else { "ahead of" };
        let text = format!("its clock is {} {side} the middle (within {})", spell(off), spell(skew.uncertainty));
        let advice = "let a time service keep the nodes' clocks";
        patient.findings.push(if off > max_clock_skew / 2 {
            if patient.state == NodeState::Voting {
                patient.state = NodeState::Skewed(skew.micros);
            }
            let text =
                format!("{text}, more than half of max_clock_skew ({max_clock_skew:?}): its votes are not counted");
            Finding::wrong(Topic::Clock, text).advise(advice)
        } else if off > max_clock_skew / 10 {
            Finding::warning(
                Topic::Clock,
                format!("{text}; its votes are not counted from {:?} on", max_clock_skew / 2),
            )
            .advise(advice)
        } else {
            Finding::ok(Topic::Clock, text)
        });
    }
}

/// Nodes that belong to no cluster yet.
fn newcomers(patients: &mut [Patient], measure: &Measure, findings: &mut Vec<Finding>) {
    let quarantine = spell(Duration::from_micros(quarantine_micros(&measure.constants)));
    let members = patients.iter().filter(|patient| patient.life().is_some()).count();
    let majority = Quorum::majority_of(measure.constants.nodes);
    let is_away = |patient: &&Patient| matches!(patient.state, NodeState::Unreachable(_));
    let away: Vec<String> = patients.iter().filter(is_away).map(|patient| patient.title.clone()).collect();
    let blank: Vec<&mut Patient> = patients
        .iter_mut()
        .filter(|patient| patient.state == NodeState::Blank && patient.probe.file.is_none())
        .collect();
    if blank.is_empty() || measure.is_single() {
        return;
    }
    if members == 0 {
        if blank.len() == measure.constants.nodes {
            let text =
                format!("the nodes are new: with the first contact they become a cluster, and vote {quarantine} later");
            findings.push(Finding::note(Topic::Life, text).advise("to skip the wait: quorlock nodes init --yes"));
        }
        return;
    }
    for patient in blank {
        patient.findings.push(if members >= majority {
            let text = format!("it is blank: with the next contact it is taken in, and votes {quarantine} later");
            Finding::warning(Topic::Life, text).advise("wait for it: quorlock nodes wait")
        } else if !away.is_empty() {
            let text = format!("it is blank, and joins the cluster when {} can be reached", away.join(" and "));
            Finding::warning(Topic::Life, text).advise("bring the other nodes back first")
        } else {
            let text = "it is blank, and no majority of the nodes knows the cluster: it is not taken in by itself";
            Finding::wrong(Topic::Life, text)
                .advise("if no lock can be outstanding on any of them: quorlock nodes init")
        });
    }
}

/// How many may fail.
fn quorum(patients: &[Patient], measure: &Measure, findings: &mut Vec<Finding>) {
    let nodes = measure.constants.nodes;
    let majority = Quorum::majority_of(nodes);
    let count = |is: fn(&NodeState) -> bool| patients.iter().filter(|patient| is(&patient.state)).count();
    let voting = count(|state| *state == NodeState::Voting);
    // A node that stands alone votes as soon as somebody comes.
    let ready = count(|state| matches!(state, NodeState::Blank | NodeState::Restarted));
    if nodes == 1 {
        if voting + ready == 1 {
            let text = "one node: when it fails, nobody gets a lock, and it is trusted after a restart";
            findings.push(Finding::note(Topic::Quorum, text));
        } else {
            findings.push(Finding::wrong(Topic::Quorum, "the only node cannot vote: nobody gets a lock"));
        }
        return;
    }
    if nodes.is_multiple_of(2) && nodes > 2 {
        let text = format!("{nodes} nodes stand no more failures than {} do", nodes - 1);
        findings.push(Finding::warning(Topic::Quorum, text).advise("use an odd number of them"));
    }
    let tally = format!("{voting} of {nodes} nodes can vote, and {majority} decide");
    findings.push(if voting == nodes {
        Finding::ok(Topic::Quorum, format!("{tally}: {} may fail", nodes - majority))
    } else if voting > majority {
        Finding::note(Topic::Quorum, format!("{tally}: {} more may fail", voting - majority))
    } else if voting == majority {
        Finding::warning(Topic::Quorum, format!("{tally}: no more may fail"))
    } else if count(|state| *state == NodeState::Blank) == nodes {
        return;
    } else {
        Finding::wrong(Topic::Quorum, format!("{tally}: nobody gets a lock now"))
    });
}
