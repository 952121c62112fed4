use super::*;
use crate::plan::{Fault, Target};
use crate::register::RegisterAccess;
use crate::series::Series;

/// One turn, in milliseconds. The client's number is also the number of its turn.
struct TurnEvents {
    client: u32,
    requested_at: u64,
    from: u64,
    until: u64,
    fence: Option<u64>,
}

impl TurnEvents {
    fn records(&self) -> Vec<Record> {
        let &Self { client, requested_at, from, until, fence } = self;
        let event = |event| Record::Client { client, event };
        vec![
            event(Event::Asked { turn: 1, name: NAMES[0].into(), at: requested_at * 1_000_000 }),
            event(Event::Granted { turn: 1, at: from * 1_000_000, until: until * 1_000_000, fence }),
        ]
    }
}

fn history(turns: &[(u64, u64, u64, u64)]) -> Vec<Record> {
    let turn = |(client, &(requested_at, from, until, fence)): (usize, &(u64, u64, u64, u64))| {
        TurnEvents { client: client as u32, requested_at, from, until, fence: Some(fence) }.records()
    };
    turns.iter().enumerate().flat_map(turn).collect()
}

#[test]
fn consecutive_leases_are_no_violation() {
    let findings = Findings::of(Assumptions::Kept, &history(&[(0, 10, 20, 1), (0, 20, 30, 2), (5, 31, 50, 3)]));
    assert_eq!((findings.grants, findings.violations(Assumptions::Kept), findings.longest_wait), (3, 0, 26_000_000));
}

#[test]
fn an_overlap_is_a_violation_within_the_assumptions() {
    let records = history(&[(0, 10, 20, 1), (0, 15, 30, 2)]);
    let findings = Findings::of(Assumptions::Kept, &records);
    assert_eq!(
        (findings.overlaps, findings.longest_overlap, findings.violations(Assumptions::Kept)),
        (1, 5_000_000, 1)
    );
    assert_eq!(Findings::of(Assumptions::Broken, &records).violations(Assumptions::Broken), 0);
}

#[test]
fn a_released_or_lost_lease_is_over() {
    for event in [Event::Released { turn: 1, at: 15_000_000 }, Event::Lost { turn: 1, at: 15_000_000 }] {
        let mut records = history(&[(0, 10, 20, 1), (0, 15, 30, 2)]);
        records.push(Record::Client { client: 0, event });
        assert_eq!(Findings::of(Assumptions::Kept, &records).overlaps, 0);
    }
}

#[test]
fn an_extended_lease_lasts_longer() {
    let mut records = history(&[(0, 10, 20, 1), (0, 25, 30, 2)]);
    let event = Event::Extended { turn: 1, at: 19_000_000, until: 28_000_000 };
    records.push(Record::Client { client: 0, event });
    assert_eq!(Findings::of(Assumptions::Kept, &records).longest_overlap, 3_000_000);
}

#[test]
fn a_revived_lease_is_a_violation_with_any_clock() {
    let mut records = history(&[(0, 10, 20, 1)]);
    records.push(Record::Client { client: 0, event: Event::Lost { turn: 1, at: 15_000_000 } });
    assert_eq!(Findings::of(Assumptions::Broken, &records).violations(Assumptions::Broken), 0);
    records.push(Record::Client { client: 0, event: Event::Revived { turn: 1, at: 16_000_000 } });
    for assumptions in [Assumptions::Kept, Assumptions::Broken] {
        let findings = Findings::of(assumptions, &records);
        assert_eq!((findings.revived, findings.violations(assumptions), findings.messages.len()), (1, 1, 1));
    }
}

#[test]
fn a_lease_that_is_seen_after_its_end_holds_nothing() {
    let findings = Findings::of(Assumptions::Kept, &history(&[(0, 25, 20, 1), (0, 22, 30, 2)]));
    assert_eq!((findings.grants, findings.violations(Assumptions::Kept)), (1, 0));
}

#[test]
fn fences_out_of_order_are_found() {
    let records = history(&[(0, 10, 20, 2), (0, 20, 30, 1)]);
    assert_eq!(Findings::of(Assumptions::Kept, &records).fences_out_of_order, 1);
    // Beyond the assumptions the second may have been decided first: it was requested before the first was granted.
    assert_eq!(Findings::of(Assumptions::Broken, &records).fences_out_of_order, 0);
    for turns in [[(0, 10, 20, 2), (11, 20, 30, 1)], [(0, 10, 20, 2), (0, 20, 30, 2)]] {
        assert_eq!(Findings::of(Assumptions::Broken, &history(&turns)).fences_out_of_order, 1);
    }
}

#[test]
fn without_fences_only_overlaps_are_judged() {
    let turns = [(0, 10, 20), (1, 15, 30)];
    let turn = |(client, from, until)| TurnEvents { client, requested_at: 0, from, until, fence: None }.records();
    let findings = Findings::of(Assumptions::Kept, &turns.into_iter().flat_map(turn).collect::<Vec<_>>());
    assert_eq!((findings.overlaps, findings.fences_out_of_order), (1, 0));
}

#[test]
fn an_overwritten_cell_is_reported_and_late_writes_are_counted() {
    let mut records = history(&[(0, 10, 20, 1)]);
    let entry =
        |at, fenced, bare| Record::Register(RegisterAccess { at, client: 0, turn: 1, is_write: true, fenced, bare });
    records.push(entry(19_000_000, Some(Outcome::Done), Outcome::Done));
    records.push(entry(21_000_000, Some(Outcome::Refused), Outcome::Overwrote));
    let findings = Findings::of(Assumptions::Broken, &records);
    assert_eq!(
        (findings.late_accesses, findings.refused_accesses, findings.bare_overwrites, findings.fenced_overwrites),
        (1, 1, 1, 0)
    );
    assert_eq!(findings.violations(Assumptions::Broken), 0);
    records.push(entry(22_000_000, Some(Outcome::Overwrote), Outcome::Overwrote));
    assert_eq!(Findings::of(Assumptions::Broken, &records).violations(Assumptions::Broken), 1);
}

#[test]
fn a_waiter_at_the_end_is_starved_unless_a_fault_killed_it() {
    let requested_at = Record::Client { client: 0, event: Event::Asked { turn: 1, name: NAMES[0].into(), at: 0 } };
    let (killed, faults_ended_at) = (Record::Killed { at: 1, client: 0 }, Record::FaultsEnded { at: 2 });
    let starved = |records: &[&Record]| {
        Findings::of(Assumptions::Kept, &records.iter().map(|&record| record.clone()).collect::<Vec<_>>()).starved
    };
    assert_eq!(starved(&[&requested_at, &faults_ended_at, &killed]), 1);
    assert_eq!(starved(&[&requested_at, &killed, &faults_ended_at]), 0);
}

#[test]
fn batched_requests_are_counted() {
    let sent = |client, requests, batched| Record::Client { client, event: Event::Sent { turn: 1, requests, batched } };
    let findings = Findings::of(Assumptions::Kept, &[sent(0, 9, 4), sent(1, 5, 0)]);
    assert_eq!((findings.requests, findings.batched), (14, 4));
}

#[test]
fn faults_are_counted() {
    let (at, length) = (Duration::ZERO, Duration::ZERO);
    let fault = |kind, persistence: Vec<Persistence>| {
        let fault = Fault { at, length, target: Target::Node(0), kind, amount: 0 };
        Record::Fault { at: 1, fault, persistence }
    };
    let records = [
        fault(FaultKind::Flush, vec![Persistence::None]),
        fault(FaultKind::Kill, vec![Persistence::AofAlways]),
        fault(FaultKind::Kill, vec![Persistence::None, Persistence::AofAlways]),
    ];
    let mut findings = Findings::of(Assumptions::Kept, &records);
    findings.add(findings.clone());
    assert_eq!((findings.faults[&FaultKind::Flush], findings.faults[&FaultKind::Kill]), (2, 4));
    assert_eq!(findings.kills, BTreeMap::from([(Persistence::None, 2), (Persistence::AofAlways, 4)]));
}

fn ran(client: u32, code: i32) -> Record {
    Record::RunEnded { at: 0, client, code, message: "quorlock: it failed".into() }
}

#[test]
fn a_run_may_lose_its_lock_by_a_signal_but_not_by_a_backup() {
    for code in [LOST, NO_QUORUM] {
        let findings = Findings::of(Assumptions::Kept, &[ran(0, 0), ran(1, HELD), ran(2, code)]);
        assert_eq!((Series::Operations.violations(&findings), Series::Processes.violations(&findings)), (1, 0));
    }
}

#[test]
fn a_run_with_an_unexpected_exit_code_is_broken() {
    let findings = Findings::of(Assumptions::Kept, &[ran(3, 70)]);
    assert_eq!((findings.broken, Series::Processes.violations(&findings)), (1, 1));
    assert!(findings.messages[0].contains("70: quorlock: it failed"), "{:?}", findings.messages);
}

#[test]
fn a_fleet_without_a_grant_after_the_faults_is_stuck() {
    let faults_ended_at = |at_ms: u64| {
        let mut records = history(&[(0, 10, 20, 1), (0, 30, 40, 2)]);
        records.push(Record::FaultsEnded { at: at_ms * 1_000_000 });
        Findings::of(Assumptions::Kept, &records)
    };
    assert_eq!(Series::Restarts.violations(&faults_ended_at(25)), 0);
    assert_eq!(Series::Restarts.violations(&faults_ended_at(35)), 1);
    // One good episode does not hide a bad one.
    let mut both = faults_ended_at(25);
    both.add(faults_ended_at(35));
    assert_eq!(both.stuck, 1);
}

/// Findings with a failover at 100 ms and a heartbeat of 50 ms.
fn found_of_failover(turns: &[(u64, u64, u64, u64)]) -> Findings {
    let mut records = history(turns);
    records.push(Record::FailedOver { at: 100_000_000 });
    Findings::of_failover(&records, Duration::from_millis(50))
}

#[test]
fn an_overlap_may_last_for_one_heartbeat_after_a_failover_and_no_longer() {
    for (turns, long_overlaps, why) in [
        ([(0, 90, 140, 1), (0, 120, 200, 2)], 0, "within a heartbeat of the failover"),
        ([(0, 90, 200, 1), (0, 120, 200, 2)], 1, "longer than a heartbeat"),
        ([(0, 160, 190, 1), (0, 170, 200, 2)], 1, "later than a heartbeat after the failover"),
    ] {
        let findings = found_of_failover(&turns);
        assert_eq!(
            (findings.long_overlaps, Series::Sentinel.violations(&findings)),
            (long_overlaps, long_overlaps),
            "{why}"
        );
    }
}

#[test]
fn fences_are_in_order_again_one_heartbeat_after_a_failover() {
    for (turns, fences_out_of_order, why) in [
        ([(0, 90, 110, 2), (80, 120, 130, 1)], 0, "requested before, within a heartbeat of the failover"),
        ([(0, 90, 110, 2), (95, 120, 130, 1)], 1, "requested after the higher fence was given out"),
        ([(0, 90, 110, 2), (80, 160, 170, 1)], 1, "later than a heartbeat after the failover"),
    ] {
        let findings = found_of_failover(&turns);
        assert_eq!(
            (findings.fences_out_of_order, Series::Sentinel.violations(&findings)),
            (fences_out_of_order, fences_out_of_order),
            "{why}"
        );
    }
}
