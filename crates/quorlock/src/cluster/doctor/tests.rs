use std::time::Duration;

use quorlock_core::node::Constants;
use quorlock_core::time::{Drift, Moment};

use super::*;
use crate::node::probe::{FileFacts, Reading};

fn measure() -> Measure {
    let constants = Constants { cluster: String::new(), nodes: 1, max_ttl_millis: 60_000, max_skew_micros: 10_000_000 };
    Measure { constants, drift: Drift::default(), node_deadline: Duration::from_millis(200) }
}

fn findings(probe: &Probe) -> Vec<String> {
    let node = judge::judge_node("node".into(), probe, &measure());
    node.findings.iter().map(|finding| format!("{} {finding}", finding.topic)).collect()
}

/// Returns one reading of a node's clock. The request was sent `sent_micros` after the start, the node's clock showed
/// `at_micros`, and the round trip took two milliseconds.
fn reading(sent_micros: u64, at_micros: u64) -> Vec<Reading> {
    let moment = |micros: u64| Moment::from_nanos(micros * 1_000);
    vec![Reading { sent: moment(sent_micros), heard: moment(sent_micros + 2_000), at_micros }]
}

#[test]
fn the_doctor_warns_of_a_full_disk_and_of_a_file_that_a_reboot_deletes() {
    let file = |free, volatile| FileFacts {
        path: "/locks.db".into(),
        exists: true,
        system: Some("tmpfs"),
        volatile,
        size: 4_096,
        free: Some(free),
        journal: Some("wal"),
    };
    let findings_of = |facts| findings(&Probe { file: Some(facts), ..Probe::default() });
    let without_trouble = findings_of(file(1 << 30, false));
    assert_eq!(without_trouble, ["file ok: /locks.db: 4096 bytes on tmpfs, journal mode wal"]);
    assert!(findings_of(file(1 << 20, false))[1].starts_with("file warning: only 1.0 MiB of its disk are free"));
    assert!(findings_of(file(1 << 30, true))[1].contains("fences may repeat"));
}

#[test]
fn a_clock_rate_is_judged_by_the_part_that_exceeds_the_uncertainty() {
    let second = 1_000_000;
    for (gained, severity) in [(0, "ok"), (11_000, "ok"), (20_000, "warning"), (99_000, "warning"), (103_000, "error")]
    {
        let probe = Probe { first: reading(0, 0), last: reading(second, second + gained), ..Probe::default() };
        let clock = findings(&probe).into_iter().find(|line| line.starts_with("clock")).unwrap();
        assert!(clock.starts_with(&format!("clock {severity}: its clock runs +")), "{gained}: {clock}");
        assert!(clock.contains("(within 0.20 %)"), "{clock}");
    }
}

#[test]
fn a_round_trip_is_judged_by_the_node_deadline() {
    for (round_trip, severity) in [(90, "ok"), (120, "warning"), (250, "error")] {
        let (sent, heard) = (Moment::from_nanos(0), Moment::from_nanos(round_trip * 1_000_000));
        let findings = findings(&Probe { first: vec![Reading { sent, heard, at_micros: 0 }], ..Probe::default() });
        assert!(findings[0].starts_with(&format!("reach {severity}")), "{findings:?}");
    }
}
