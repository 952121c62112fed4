//! What is to be said of one node by itself.

use std::time::Duration;

use quorlock_core::node::{Identity, Incarnation};

use super::finding::{Finding, Topic};
use super::{Measure, NodeState, Patient, Rate, spell};
use crate::node::Trouble;
use crate::node::probe::{FileFacts, Objection, Probe, Reading, RedisFacts};

/// A clock that runs this much faster or slower than ours is worth a warning, whatever the drift allows.
const RATE_PPM_MAX: u64 = 10_000;
/// Less than this on a disk will not last.
const FREE_MIN: u64 = 16 << 20;
/// A server that uses more than this part of its memory may refuse locks soon.
const FULL_PERCENT: u64 = 90;

/// What was seen of a node, and what that means.
pub(super) fn node(title: String, probe: Probe, measure: &Measure) -> Patient {
    let mut findings = Vec::new();
    reach(&probe, measure, &mut findings);
    if let Some(server) = &probe.server {
        findings.push(Finding::ok(Topic::Server, format!("{server}{}", run(&probe))));
    }
    let mut state = state(&probe);
    if let Some(facts) = &probe.redis {
        match &facts.unfit {
            Some(Trouble::Unfit(why)) => {
                state = NodeState::Unfit(why.clone());
                findings.push(unfit(facts, why));
            }
            Some(trouble) => {
                let why = trouble.as_silence().to_string();
                findings.push(Finding::wrong(Topic::Reach, why.clone()));
                state = NodeState::Unreachable(why);
            }
            None => {}
        }
        if let Some(denied) = access(facts, &mut findings) {
            state = NodeState::Denied(denied);
        }
        if !facts.info.is_empty() {
            memory(facts, &mut findings);
            replicas(facts, &mut findings);
            persistence(facts, measure, &mut findings);
        }
    }
    if let Some(facts) = &probe.file {
        file(facts, probe.trouble.is_some(), &mut findings);
    }
    life(&probe, &state, measure, &mut findings);
    let rate = rate(&probe.first, &probe.last);
    findings.extend(rate.map(|rate| judge_rate(rate, measure)));
    Patient { title, probe, state, skew: None, rate, findings }
}

fn run(probe: &Probe) -> String {
    let run = |identity: &Identity| format!(", run {}", super::shorten(&identity.run));
    probe.identity.as_ref().map_or_else(String::new, run)
}

fn reach(probe: &Probe, measure: &Measure, findings: &mut Vec<Finding>) {
    match &probe.trouble {
        Some(Trouble::Unreachable(why) | Trouble::Broken(why)) => findings.push(
            Finding::wrong(Topic::Reach, format!("it cannot be reached: {why}"))
                .advise("start it, or mend its address or the network in between"),
        ),
        Some(Trouble::Denied(why)) => findings.push(
            Finding::wrong(Topic::Access, format!("it does not let us in: {why}"))
                .advise("mend the user or the password in its URL, or on the server"),
        ),
        Some(Trouble::Unfit(why)) => {
            findings.push(Finding::wrong(Topic::Settings, format!("it cannot be used: {why}")));
        }
        None => {}
    }
    let Some(fastest) = probe.first.iter().map(Reading::round_trip).min() else { return };
    let (took, deadline) = (spell(fastest), measure.node_deadline);
    findings.push(if fastest > deadline {
        Finding::wrong(
            Topic::Reach,
            format!("a round trip takes {took}, and it is not waited for longer than {deadline:?}"),
        )
        .advise("set a longer ttl or node deadline, or use a node that is nearer")
    } else if fastest > deadline / 2 {
        Finding::warning(
            Topic::Reach,
            format!("a round trip takes {took}, more than half of the {deadline:?} that it has"),
        )
        .advise("set a longer ttl or node deadline, or use a node that is nearer")
    } else {
        Finding::ok(Topic::Reach, format!("it answers within {took}"))
    });
}

fn state(probe: &Probe) -> NodeState {
    match (&probe.trouble, &probe.standing) {
        (Some(Trouble::Unreachable(why) | Trouble::Broken(why)), _) => NodeState::Unreachable(why.clone()),
        (Some(Trouble::Denied(why)), _) => NodeState::Denied(why.clone()),
        (Some(Trouble::Unfit(why)), _) => NodeState::Unfit(why.clone()),
        (None, Some(standing)) => {
            standing.life.as_ref().map_or(NodeState::Blank, |life| living(life, probe.identity.as_ref()))
        }
        (None, None) => NodeState::Blank,
    }
}

fn living(life: &Incarnation, identity: Option<&Identity>) -> NodeState {
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

fn unfit(facts: &RedisFacts, why: &str) -> Finding {
    if facts.field("role") != "master" {
        let (host, port) = (facts.field("master_host"), facts.field("master_port"));
        return Finding::wrong(Topic::Server, format!("it is a replica of {host}:{port}, not an independent server"))
            .advise("leave it out, or make it a server of its own: REPLICAOF NO ONE, and then FLUSHALL");
    }
    if facts.field("maxmemory_policy") != "noeviction" {
        let policy = facts.field("maxmemory_policy");
        return Finding::wrong(
            Topic::Memory,
            format!("its maxmemory-policy is {policy}: it may forget a lock when its memory is full"),
        )
        .advise("CONFIG SET maxmemory-policy noeviction, and the same in its configuration file");
    }
    Finding::wrong(Topic::Server, why)
}

/// What it does not let us do; returned if locks need it.
fn access(facts: &RedisFacts, findings: &mut Vec<Finding>) -> Option<String> {
    let (denied, failed): (Vec<&Objection>, Vec<&Objection>) =
        facts.objections.iter().partition(|objection| is_denial(&objection.why));
    for objection in failed {
        findings.push(failure(objection));
    }
    let (optional, needed): (Vec<&Objection>, Vec<&Objection>) =
        denied.into_iter().partition(|objection| OPTIONAL.contains(&objection.command.as_str()));
    if optional.iter().any(|objection| objection.command == "CONFIG GET") {
        findings.push(
            Finding::note(Topic::Access, "it does not show its settings: what it keeps over a restart is not known")
                .advise("for the doctor: ACL SETUSER <user> +config|get"),
        );
    }
    if optional.iter().any(|objection| objection.command == "SCAN") {
        findings.push(
            Finding::warning(Topic::Access, "it does not let us look for names: there are no listings")
                .advise("ACL SETUSER <user> +scan"),
        );
    }
    if optional.iter().any(|objection| ["PUBLISH", "SUBSCRIBE"].contains(&objection.command.as_str())) {
        findings.push(
            Finding::warning(Topic::Access, "it lets nobody give or hear hints: whoever waits asks once a second, and learns late of a lease that is broken")
                .advise("ACL SETUSER <user> +publish +subscribe &quorlock~*"),
        );
    }
    if optional.iter().any(|objection| objection.command == "TYPE") {
        findings.push(
            Finding::note(
                Topic::Access,
                "it does not tell the types of keys: locks of other programs are shown without",
            )
            .advise("ACL SETUSER <user> +type"),
        );
    }
    if optional.iter().any(|objection| objection.command == "PUBSUB NUMSUB") {
        findings.push(
            Finding::warning(
                Topic::Access,
                "it does not tell who listens: a release sends a hint and hands nothing over",
            )
            .advise("ACL SETUSER <user> +pubsub|numsub"),
        );
    }
    if optional.iter().any(|objection| objection.command == "CLIENT TRACKING") {
        findings.push(
            Finding::warning(Topic::Access, "it does not let us track its memory: clients notice within 10s, and not at once, that its data were replaced")
                .advise("ACL SETUSER <user> +client|tracking"),
        );
    }
    if needed.is_empty() {
        if facts.objections.is_empty() {
            findings.push(Finding::ok(Topic::Access, "it lets us do everything that locks need"));
        }
        return None;
    }
    let (keys, commands): (Vec<&Objection>, Vec<&Objection>) =
        needed.into_iter().partition(|objection| objection.on.is_some() && is_about_keys(&objection.why));
    let mut says = Vec::new();
    let mut grants = Vec::new();
    if !commands.is_empty() {
        let mut names: Vec<String> = commands.iter().map(|objection| objection.command.to_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        grants.extend(names.iter().map(|name| format!("+{}", name.replace(' ', "|"))));
        says.push(format!("run {}", names.join(", ")));
    }
    if !keys.is_empty() {
        let on: Vec<&str> = keys.iter().filter_map(|objection| objection.on.as_deref()).collect();
        grants.extend(["~quorlock:*".to_owned(), "~quorlock~*".to_owned()]);
        says.push(format!("touch {}", on.join(", ")));
    }
    let text = format!("it does not let us {}", says.join(", nor "));
    findings
        .push(Finding::wrong(Topic::Access, text.clone()).advise(format!("ACL SETUSER <user> {}", grants.join(" "))));
    Some(text)
}

/// Without these there are locks all the same.
const OPTIONAL: [&str; 7] = ["CLIENT TRACKING", "CONFIG GET", "PUBLISH", "PUBSUB NUMSUB", "SCAN", "SUBSCRIBE", "TYPE"];

/// Whether it is for want of permission. Redis before 7 has other words for it within scripts.
fn is_denial(why: &str) -> bool {
    ["NOPERM", "can't run this command", "can't access", "can't publish", "no permissions", "No permissions"]
        .iter()
        .any(|words| why.contains(words))
}

fn is_about_keys(why: &str) -> bool {
    why.contains("key")
}

fn failure(objection: &Objection) -> Finding {
    let Objection { command, why, .. } = objection;
    if why.starts_with("OOM") {
        return Finding::wrong(Topic::Memory, "its memory is full: it takes no lock")
            .advise("raise maxmemory, or remove what else is kept there");
    }
    if why.starts_with("MISCONF") {
        return Finding::wrong(Topic::Persistence, "it takes no writes because it cannot write a snapshot")
            .advise("see its log; is its disk full?");
    }
    Finding::wrong(Topic::Server, format!("it answers {command} with an error: {why}"))
}

fn memory(facts: &RedisFacts, findings: &mut Vec<Finding>) {
    let number = |name| facts.field(name).parse::<u64>().unwrap_or(0);
    let (used, most) = (number("used_memory"), number("maxmemory"));
    if facts.field("maxmemory_policy") != "noeviction" {
        return;
    }
    findings.push(if most == 0 {
        Finding::ok(Topic::Memory, "it forgets nothing when its memory is full, and has no limit but the machine's")
    } else if used.saturating_mul(100) > most.saturating_mul(FULL_PERCENT) {
        Finding::warning(Topic::Memory, format!("it uses {} of {} of memory", mib(used), mib(most)))
            .advise("raise maxmemory: a full server takes no lock")
    } else {
        Finding::ok(Topic::Memory, format!("it forgets nothing when its {} of memory are full", mib(most)))
    });
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn replicas(facts: &RedisFacts, findings: &mut Vec<Finding>) {
    let replicas: u32 = facts.field("connected_slaves").parse().unwrap_or(0);
    if replicas > 0 {
        let text = format!("it has {replicas} replica{}", if replicas == 1 { "" } else { "s" });
        findings.push(
            Finding::note(Topic::Server, text)
                .advise("never promote one while this server may live: it would vote a second time"),
        );
    }
}

fn persistence(facts: &RedisFacts, measure: &Measure, findings: &mut Vec<Finding>) {
    let config = |name: &str| facts.config.get(name).map(String::as_str);
    let appends = config("appendonly").map_or(facts.field("aof_enabled") == "1", |value| value == "yes");
    let keeps = match (appends, config("appendfsync"), config("save")) {
        (true, Some("always"), _) => "appendonly yes, appendfsync always: it keeps every vote over a restart",
        (true, Some("everysec"), _) => "appendonly yes, appendfsync everysec: a crash may lose the last second's votes",
        (true, ..) => "appendonly yes: a crash may lose the last votes",
        (false, _, None) => "appendonly no: a restart loses votes",
        (false, _, Some("")) => "appendonly no, save \"\": a restart loses all votes",
        (false, _, Some(_)) => "appendonly no, only snapshots: a restart brings back old votes and loses later ones",
    };
    let safe = appends && config("appendfsync") == Some("always");
    findings.push(match (measure.is_single(), safe) {
        (true, true) => Finding::ok(Topic::Persistence, keeps),
        (true, false) => Finding::warning(
            Topic::Persistence,
            format!("{keeps}, and a single node is trusted after it: a lock may be given twice"),
        )
        .advise("set appendonly yes and appendfsync always, or use three nodes"),
        (false, true) => Finding::ok(Topic::Persistence, format!("{keeps}, and is quarantined after it all the same")),
        (false, false) => {
            let text = format!("{keeps}, so that it is quarantined for {} after it", quarantine(measure));
            Finding::note(Topic::Persistence, text)
        }
    });
}

fn quarantine(measure: &Measure) -> String {
    spell(Duration::from_micros(quorlock_core::node::quarantine_micros(&measure.constants)))
}

fn file(facts: &FileFacts, in_trouble: bool, findings: &mut Vec<Finding>) {
    let FileFacts { path, exists, system, volatile, size, free, journal } = facts;
    let system = system.as_deref().unwrap_or("unknown");
    if *exists {
        let journal = journal.map_or_else(String::new, |journal| format!(", journal mode {journal}"));
        findings.push(Finding::ok(Topic::File, format!("{path}: {size} bytes on {system}{journal}")));
    } else if !in_trouble {
        findings
            .push(Finding::note(Topic::File, format!("{path} is not there yet: the first lock makes it, on {system}")));
    }
    if *volatile {
        findings.push(
            Finding::warning(Topic::File, format!("{system} is gone with the machine's next start: fences may repeat"))
                .advise("keep it on a disk"),
        );
    }
    if let Some(free) = free.filter(|free| *free < FREE_MIN) {
        findings.push(
            Finding::warning(Topic::File, format!("only {} are free there", mib(free)))
                .advise("make room on that disk"),
        );
    }
}

fn life(probe: &Probe, state: &NodeState, measure: &Measure, findings: &mut Vec<Finding>) {
    match state {
        NodeState::Quarantined { left } => {
            let life = probe.standing.as_ref().and_then(|standing| standing.life.as_ref());
            let left = spell(*left);
            findings.push(if life.is_some_and(Incarnation::is_founding) {
                Finding::warning(Topic::Life, format!("it is new, and may vote in {left}")).advise(
                    "wait for it: quorlock nodes wait; or, if no lock can be outstanding anywhere, quorlock nodes init",
                )
            } else {
                Finding::warning(Topic::Life, format!("it lost its memory, and may vote in {left}"))
                    .advise("wait for it: quorlock nodes wait")
            });
        }
        NodeState::Restarted if measure.is_single() => {
            findings.push(Finding::note(Topic::Life, "it restarted: the next client that comes makes it vote again"));
        }
        NodeState::Restarted => findings.push(
            Finding::warning(
                Topic::Life,
                format!("it lost its memory: from the next contact on it is quarantined for {}", quarantine(measure)),
            )
            .advise("wait for it: quorlock nodes wait"),
        ),
        NodeState::Suspended => findings.push(
            Finding::wrong(
                Topic::Life,
                "a change of the cluster's constants was begun and not finished: it does not vote",
            )
            .advise("say quorlock nodes reconfigure once more"),
        ),
        NodeState::Voting => findings.push(Finding::ok(Topic::Life, "it may vote")),
        _ => {}
    }
    let life = probe.standing.as_ref().and_then(|standing| standing.life.as_ref());
    if let Some(restarts) = life.map(|life| life.restarts).filter(|restarts| *restarts > 0) {
        let times = if restarts == 1 { "once".into() } else { format!("{restarts} times") };
        findings.push(Finding::note(Topic::Life, format!("it restarted {times} since the cluster was declared")));
    }
}

/// How fast its clock runs, from two looks at it.
fn rate(first: &[Reading], last: &[Reading]) -> Option<Rate> {
    let sharpest = |readings: &[Reading]| readings.iter().copied().min_by_key(Reading::round_trip);
    let (first, last) = (sharpest(first)?, sharpest(last)?);
    let passed = last.sent.since(first.sent).as_micros() as i64;
    if passed <= 0 {
        return None;
    }
    let ppm = |micros: i64| (i128::from(micros) * 1_000_000 / i128::from(passed)) as i64;
    let doubt = (first.round_trip() + last.round_trip()).as_micros() as i64 / 2;
    Some(Rate { ppm: ppm(last.offset().saturating_sub(first.offset())), uncertainty_ppm: ppm(doubt).unsigned_abs() })
}

fn judge_rate(rate: Rate, measure: &Measure) -> Finding {
    let Rate { ppm, uncertainty_ppm } = rate;
    let surely = ppm.unsigned_abs().saturating_sub(uncertainty_ppm);
    let percent = |ppm: f64| ppm / 10_000.0;
    let (by, doubt) = (percent(ppm as f64), percent(uncertainty_ppm as f64));
    let text = format!("its clock runs {by:+.2} % against ours (within {doubt:.2} %)");
    if surely > u64::from(measure.drift.ppm) {
        let allowed = percent(f64::from(measure.drift.ppm));
        Finding::wrong(
            Topic::Clock,
            format!("{text}, more than the drift of {allowed} % that leases allow for, or was set"),
        )
        .advise("let a time service slew it, and never step it while locks are held")
    } else if surely > RATE_PPM_MAX {
        Finding::warning(Topic::Clock, text).advise("look after its time service")
    } else {
        Finding::ok(Topic::Clock, text)
    }
}
