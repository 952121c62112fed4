//! The findings about a single node. Findings that depend on several nodes are in the module `together`.

use std::collections::BTreeSet;

use quorlock_core::node::{Identity, Incarnation};

use super::finding::Severity::{self, Error, Note, Warning};
use super::finding::Topic;
use super::{ExaminedNode, Measure, NodeState, duration_text, life, quarantine_text, shorten};
use crate::node::Trouble;
use crate::node::probe::{FileFacts, Objection, Probe, Reading, RedisFacts};

/// The largest difference between the rates of a node's clock and of this host's clock without a warning, in parts per
/// million. The drift setting may allow a larger difference.
const RATE_PPM_MAX: u64 = 10_000;
/// The least free disk space without a warning.
const FREE_BYTES_MIN: u64 = 16 << 20;
/// The largest part of its memory that a server may use without a warning.
const USED_PERCENT_MAX: u64 = 90;

/// Judges one node by its probe.
pub(super) fn judge_node(title: String, probe: &Probe, measure: &Measure) -> ExaminedNode {
    let life = life(probe);
    let readings = probe.first.iter().chain(&probe.last);
    let mut node = ExaminedNode {
        title,
        state: life.map_or(NodeState::Blank, |life| member_state(life, probe.identity.as_ref())),
        server: probe.server.clone(),
        run: probe.identity.as_ref().map(|identity| shorten(&identity.run)),
        epoch: life.and_then(|life| life.epoch).map(|epoch| shorten(&format!("{:032x}", epoch.0))),
        cluster: life.map(|life| shorten(&life.constants.cluster)),
        restarts: life.map(|life| life.restarts),
        round_trip: readings.map(Reading::round_trip).min(),
        skew_micros: None,
        rate_ppm: None,
        findings: Vec::new(),
    };
    check_reach(&mut node, probe, measure);
    if let Some(server) = &probe.server {
        let run = node.run.as_ref().map_or_else(String::new, |run| format!(", run {run}"));
        node.add(Severity::Ok, Topic::Server, format!("{server}{run}"), "");
    }
    if let Some(facts) = &probe.redis {
        check_fitness(&mut node, facts);
        check_access(&mut node, facts);
        if !facts.info.is_empty() {
            check_memory(&mut node, facts);
            check_replicas(&mut node, facts);
            check_persistence(&mut node, facts, measure);
        }
    }
    if let Some(facts) = &probe.file {
        check_file(&mut node, facts, probe.trouble.is_some());
    }
    check_life(&mut node, life, measure);
    check_clock_rate(&mut node, probe, measure);
    node
}

fn check_reach(node: &mut ExaminedNode, probe: &Probe, measure: &Measure) {
    match &probe.trouble {
        Some(Trouble::Unreachable(why) | Trouble::Broken(why)) => {
            let advice = "start the server, or fix its address or the network";
            node.state = NodeState::Unreachable(why.clone());
            node.add(Error, Topic::Reach, format!("it cannot be reached: {why}"), advice);
        }
        Some(Trouble::Denied(why)) => {
            let advice = "fix the username or password, here or on the server";
            node.state = NodeState::Denied(why.clone());
            node.add(Error, Topic::Access, format!("access denied: {why}"), advice);
        }
        Some(Trouble::Unfit(why)) => {
            node.state = NodeState::Unfit(why.clone());
            node.add(Error, Topic::Settings, format!("it cannot be used: {why}"), "");
        }
        None => {}
    }
    let Some(fastest) = probe.first.iter().map(Reading::round_trip).min() else { return };
    let (took, deadline) = (duration_text(fastest), measure.node_deadline);
    let advice = "set a longer ttl or node deadline, or use a node that is closer";
    if fastest > deadline {
        let text = format!("a round trip takes {took}, and the node deadline is {deadline:?}");
        node.add(Error, Topic::Reach, text, advice);
    } else if fastest > deadline / 2 {
        let text = format!("a round trip takes {took}, more than half of the node deadline of {deadline:?}");
        node.add(Warning, Topic::Reach, text, advice);
    } else {
        node.add(Severity::Ok, Topic::Reach, format!("it answers within {took}"), "");
    }
}

/// Returns the state of a node that belongs to a cluster.
fn member_state(life: &Incarnation, identity: Option<&Identity>) -> NodeState {
    if life.suspended {
        NodeState::Suspended
    } else if life.epoch.is_none() || identity.is_some_and(|identity| life.is_replaced_by(identity)) {
        NodeState::Restarted
    } else if life.floor.is_some() {
        NodeState::Voting
    } else {
        NodeState::Quarantined { left: life.quarantine_left() }
    }
}

/// Checks that the server can be a node at all.
fn check_fitness(node: &mut ExaminedNode, facts: &RedisFacts) {
    let why = match &facts.unfit {
        None => return,
        Some(Trouble::Unfit(why)) => why,
        Some(trouble) => {
            let why = trouble.as_silence().to_string();
            node.add(Error, Topic::Reach, why.clone(), "");
            node.state = NodeState::Unreachable(why);
            return;
        }
    };
    node.state = NodeState::Unfit(why.clone());
    let policy = facts.field("maxmemory_policy");
    if facts.field("role") != "master" {
        let text = format!(
            "it is a replica of {}:{}, not an independent server",
            facts.field("master_host"),
            facts.field("master_port")
        );
        let advice = "remove it from the list of nodes, or make it independent: REPLICAOF NO ONE, and then FLUSHALL";
        node.add(Error, Topic::Server, text, advice);
    } else if policy != "noeviction" {
        let text = format!("its maxmemory-policy is {policy}: it may forget a lock when its memory is full");
        let advice = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file";
        node.add(Error, Topic::Memory, text, advice);
    } else {
        node.add(Error, Topic::Server, why, "");
    }
}

/// The commands that locks do not need. For each: its name in a finding, the severity of the finding if the server does
/// not permit the command, the effect, and the missing permissions.
const OPTIONAL_COMMANDS: [(&str, Severity, &str, &str); 6] = [
    ("CONFIG GET", Note, "the doctor cannot tell which data it keeps across a restart", "+config|get"),
    ("SCAN", Warning, "names cannot be listed", "+scan"),
    (
        HINTS,
        Warning,
        "waiters ask once a second, and a holder notices a break only at its next renewal",
        "+publish +subscribe &quorlock~*",
    ),
    ("TYPE", Note, "locks of other programs are shown without the type of their key", "+type"),
    ("PUBSUB NUMSUB", Warning, "a release sends only a hint, and does not hand the lock over", "+pubsub|numsub"),
    ("CLIENT TRACKING", Warning, "clients notice only within 10s that its data were replaced", "+client|tracking"),
];

/// The name of the commands for hints in a finding.
const HINTS: &str = "hints";

/// Returns the name of the command in a finding.
fn command_name(objection: &Objection) -> &str {
    match objection.command.as_str() {
        "PUBLISH" | "SUBSCRIBE" => HINTS,
        command => command,
    }
}

/// Reports the commands that the server does not permit.
fn check_access(node: &mut ExaminedNode, facts: &RedisFacts) {
    let (denied, failed): (Vec<&Objection>, Vec<&Objection>) =
        facts.objections.iter().partition(|objection| is_denial(&objection.why));
    for objection in failed {
        report_failure(node, objection);
    }
    for (name, severity, effect, permissions) in OPTIONAL_COMMANDS {
        if denied.iter().any(|objection| command_name(objection) == name) {
            let text = format!("it does not permit {name}: {effect}");
            node.add(severity, Topic::Access, text, &format!("ACL SETUSER <user> {permissions}"));
        }
    }
    let is_needed =
        |objection: &&Objection| OPTIONAL_COMMANDS.iter().all(|(name, ..)| *name != command_name(objection));
    let needed = denied.into_iter().filter(is_needed);
    let (keys, commands): (Vec<&Objection>, Vec<&Objection>) =
        needed.partition(|objection| objection.on.is_some() && objection.why.contains("key"));
    let (mut actions, mut grants) = (Vec::new(), Vec::new());
    if !commands.is_empty() {
        let names: BTreeSet<String> = commands.iter().map(|objection| objection.command.to_lowercase()).collect();
        grants.extend(names.iter().map(|name| format!("+{}", name.replace(' ', "|"))));
        actions.push(format!("run {}", names.into_iter().collect::<Vec<_>>().join(", ")));
    }
    if !keys.is_empty() {
        let kinds: Vec<&str> = keys.iter().filter_map(|objection| objection.on.as_deref()).collect();
        grants.extend(["~quorlock:*".to_owned(), "~quorlock~*".to_owned()]);
        actions.push(format!("touch {}", kinds.join(", ")));
    }
    if !actions.is_empty() {
        let text = format!("it does not permit us to {}", actions.join(", or to "));
        node.state = NodeState::Denied(text.clone());
        node.add(Error, Topic::Access, text, &format!("ACL SETUSER <user> {}", grants.join(" ")));
    } else if facts.objections.is_empty() {
        node.add(Severity::Ok, Topic::Access, "it permits all commands that locks need", "");
    }
}

/// Returns whether an error of the server is about missing permissions. Within scripts, Redis before version 7 uses
/// other words.
fn is_denial(why: &str) -> bool {
    ["NOPERM", "can't run this command", "can't access", "can't publish", "no permissions", "No permissions"]
        .iter()
        .any(|words| why.contains(words))
}

/// Reports a command that failed for another reason than missing permissions.
fn report_failure(node: &mut ExaminedNode, Objection { command, why, .. }: &Objection) {
    if why.starts_with("OOM") {
        let advice = "raise maxmemory, or remove other data";
        node.add(Error, Topic::Memory, "its memory is full: it cannot grant locks", advice);
    } else if why.starts_with("MISCONF") {
        let text = "it rejects writes because it cannot write a snapshot";
        node.add(Error, Topic::Persistence, text, "see its log; is its disk full?");
    } else {
        node.add(Error, Topic::Server, format!("it answers {command} with an error: {why}"), "");
    }
}

fn check_memory(node: &mut ExaminedNode, facts: &RedisFacts) {
    let number = |name| facts.field(name).parse::<u64>().unwrap_or(0);
    let (used, max) = (number("used_memory"), number("maxmemory"));
    if facts.field("maxmemory_policy") != "noeviction" {
        return;
    }
    if max == 0 {
        node.add(Severity::Ok, Topic::Memory, "maxmemory-policy is noeviction; no memory limit is set", "");
    } else if used.saturating_mul(100) > max.saturating_mul(USED_PERCENT_MAX) {
        let text = format!("it uses {} of {} of memory", mib(used), mib(max));
        node.add(Warning, Topic::Memory, text, "raise maxmemory: a full server cannot grant locks");
    } else {
        let text = format!("maxmemory-policy is noeviction; it has {} of memory", mib(max));
        node.add(Severity::Ok, Topic::Memory, text, "");
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn check_replicas(node: &mut ExaminedNode, facts: &RedisFacts) {
    let replicas: u32 = facts.field("connected_slaves").parse().unwrap_or(0);
    if replicas > 0 {
        let text = format!("it has {replicas} replica{}", if replicas == 1 { "" } else { "s" });
        let advice = "never promote a replica while this server may be running: the node would vote twice";
        node.add(Note, Topic::Server, text, advice);
    }
}

fn check_persistence(node: &mut ExaminedNode, facts: &RedisFacts, measure: &Measure) {
    let config = |name: &str| facts.config.get(name).map(String::as_str);
    let appends = config("appendonly").map_or(facts.field("aof_enabled") == "1", |value| value == "yes");
    let persistence = match (appends, config("appendfsync"), config("save")) {
        (true, Some("always"), _) => "appendonly yes, appendfsync always: it keeps every vote across a restart",
        (true, Some("everysec"), _) => "appendonly yes, appendfsync everysec: a crash may lose the last second's votes",
        (true, ..) => "appendonly yes: a crash may lose the last votes",
        (false, _, None) => "appendonly no: a restart loses votes",
        (false, _, Some("")) => "appendonly no, save \"\": a restart loses all votes",
        (false, _, Some(_)) => "appendonly no, only snapshots: a restart restores old votes and loses later votes",
    };
    let is_safe = appends && config("appendfsync") == Some("always");
    let advice = "set appendonly yes and appendfsync always, or use three nodes";
    let (severity, text, advice) = match (measure.is_single(), is_safe) {
        (true, true) => (Severity::Ok, persistence.into(), ""),
        (true, false) => (
            Warning,
            format!("{persistence}, and a single node may vote at once after it: two clients may get the same lock"),
            advice,
        ),
        (false, true) => (Severity::Ok, format!("{persistence}, but it is still quarantined after a restart"), ""),
        (false, false) => {
            (Note, format!("{persistence}, so it is quarantined for {} after a restart", quarantine_text(measure)), "")
        }
    };
    node.add(severity, Topic::Persistence, text, advice);
}

fn check_file(node: &mut ExaminedNode, facts: &FileFacts, has_trouble: bool) {
    let FileFacts { path, exists, system, volatile, size, free, journal } = facts;
    let system = system.unwrap_or("unknown");
    if *exists {
        let journal = journal.map_or_else(String::new, |journal| format!(", journal mode {journal}"));
        node.add(Severity::Ok, Topic::File, format!("{path}: {size} bytes on {system}{journal}"), "");
    } else if !has_trouble {
        node.add(Note, Topic::File, format!("{path} does not exist yet: the first lock creates it, on {system}"), "");
    }
    if *volatile {
        let text = format!("{system} is lost when the machine restarts: fences may repeat");
        node.add(Warning, Topic::File, text, "keep it on a disk");
    }
    if let Some(free) = free.filter(|free| *free < FREE_BYTES_MIN) {
        node.add(Warning, Topic::File, format!("only {} of its disk are free", mib(free)), "free disk space");
    }
}

/// Reports whether the node may vote, and if not, when it may vote.
fn check_life(node: &mut ExaminedNode, life: Option<&Incarnation>, measure: &Measure) {
    let wait = "wait for it: quorlock nodes wait";
    match &node.state {
        NodeState::Quarantined { left } => {
            let left = duration_text(*left);
            if life.is_some_and(Incarnation::is_founding) {
                let advice = format!("{wait}; or, if no lock can be outstanding anywhere, quorlock nodes init");
                node.add(Warning, Topic::Life, format!("it is new, and may vote in {left}"), &advice);
            } else {
                node.add(Warning, Topic::Life, format!("it lost its memory, and may vote in {left}"), wait);
            }
        }
        NodeState::Restarted if measure.is_single() => {
            node.add(Note, Topic::Life, "it restarted: it votes again when the next client connects", "");
        }
        NodeState::Restarted => {
            let time = quarantine_text(measure);
            let text = format!("it lost its memory: when the next client connects, it is quarantined for {time}");
            node.add(Warning, Topic::Life, text, wait);
        }
        NodeState::Suspended => {
            let text = "a change of the cluster's constants was started but not finished: the node does not vote";
            node.add(Error, Topic::Life, text, "run quorlock nodes reconfigure again");
        }
        NodeState::Voting => node.add(Severity::Ok, Topic::Life, "it may vote", ""),
        _ => {}
    }
    if let Some(restarts) = node.restarts.filter(|restarts| *restarts > 0) {
        let times = if restarts == 1 { "once".into() } else { format!("{restarts} times") };
        node.add(Note, Topic::Life, format!("it restarted {times} since the cluster was created"), "");
    }
}

/// Compares the rates of the node's clock and of this host's clock, by an early and a late reading.
fn check_clock_rate(node: &mut ExaminedNode, probe: &Probe, measure: &Measure) {
    let most_exact = |readings: &[Reading]| readings.iter().copied().min_by_key(Reading::round_trip);
    let (Some(first), Some(last)) = (most_exact(&probe.first), most_exact(&probe.last)) else { return };
    let passed = last.sent.since(first.sent).as_micros() as i64;
    if passed <= 0 {
        return;
    }
    let ppm_of = |micros: i64| (i128::from(micros) * 1_000_000 / i128::from(passed)) as i64;
    let ppm = ppm_of(last.offset().saturating_sub(first.offset()));
    let uncertainty = ppm_of((first.round_trip() + last.round_trip()).as_micros() as i64 / 2).unsigned_abs();
    node.rate_ppm = Some(ppm);
    let certain_ppm = ppm.unsigned_abs().saturating_sub(uncertainty);
    let percent = |ppm: f64| ppm / 10_000.0;
    let (rate, uncertainty) = (percent(ppm as f64), percent(uncertainty as f64));
    let text = format!("its clock runs {rate:+.2} % relative to ours (within {uncertainty:.2} %)");
    if certain_ppm > u64::from(measure.drift.ppm) {
        let allowed = percent(f64::from(measure.drift.ppm));
        let text = format!("{text}, more than the drift allowance of {allowed} %, or the clock was set");
        let advice = "let a time service slew the clock, and never step it while locks are held";
        node.add(Error, Topic::Clock, text, advice);
    } else if certain_ppm > RATE_PPM_MAX {
        node.add(Warning, Topic::Clock, text, "check its time service");
    } else {
        node.add(Severity::Ok, Topic::Clock, text, "");
    }
}
