use super::*;
use crate::plan::{Fault, Target};
use crate::register::RegisterAccess;
use crate::series::Series;

/// The only turn of a client. Times are in milliseconds.
struct TurnEvents {
    client: u32,
    requested_at: u64,
    valid_from: u64,
    valid_until: u64,
    fence: Option<u64>,
}

impl TurnEvents {
    fn records(&self) -> Vec<Record> {
        let &Self { client, requested_at, valid_from, valid_until, fence } = self;
        let event = |event| Record::Client { client, event };
        vec![
            event(Event::Asked { turn: 1, name: NAMES[0].into(), at: requested_at * 1_000_000 }),
            event(Event::Granted { turn: 1, at: valid_from * 1_000_000, until: valid_until * 1_000_000, fence }),
        ]
    }
}

/// A history in which each client, numbered from 0, has one turn: (`requested_at`, `valid_from`, `valid_until`, `fence`).
fn history(turns: &[(u64, u64, u64, u64)]) -> Vec<Record> {
    let records = |(client, &(requested_at, valid_from, valid_until, fence)): (usize, &(u64, u64, u64, u64))| {
        TurnEvents { client: client as u32, requested_at, valid_from, valid_until, fence: Some(fence) }.records()
    };
    turns.iter().enumerate().flat_map(records).collect()
}

#[test]
fn consecutive_leases_are_no_violation() {
    let findings = Findings::of(Assumptions::Kept, &history(&[(0, 10, 20, 1), (0, 20, 30, 2), (5, 31, 50, 3)]));
    assert_eq!((findings.grants, findings.violations(Assumptions::Kept), findings.longest_wait), (3, 0, 26_000_000));
}

#[test]
fn an_overlap_is_a_violation_only_within_the_assumptions() {
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
fn a_revived_lease_is_a_violation_even_beyond_the_assumptions() {
    let mut records = history(&[(0, 10, 20, 1)]);
    records.push(Record::Client { client: 0, event: Event::Lost { turn: 1, at: 15_000_000 } });
    assert_eq!(Findings::of(Assumptions::Broken, &records).violations(Assumptions::Broken), 0);
    records.push(Record::Client { client: 0, event: Event::Revived { turn: 1, at: 16_000_000 } });
    for assumptions in [Assumptions::Kept, Assumptions::Broken] {
        let findings = Findings::of(assumptions, &records);
        assert_eq!((findings.revived_leases, findings.violations(assumptions), findings.messages.len()), (1, 1, 1));
    }
}

#[test]
fn a_lease_that_its_client_sees_only_after_its_end_does_not_count() {
    let findings = Findings::of(Assumptions::Kept, &history(&[(0, 25, 20, 1), (0, 22, 30, 2)]));
    assert_eq!((findings.grants, findings.violations(Assumptions::Kept)), (1, 0));
}

#[test]
fn fences_out_of_order_are_found() {
    let records = history(&[(0, 10, 20, 2), (0, 20, 30, 1)]);
    assert_eq!(Findings::of(Assumptions::Kept, &records).fences_out_of_order, 1);
    // Beyond the assumptions, client 1 may have the lower fence, because it requested its lease before client 0 got one.
    assert_eq!(Findings::of(Assumptions::Broken, &records).fences_out_of_order, 0);
    for turns in [[(0, 10, 20, 2), (11, 20, 30, 1)], [(0, 10, 20, 2), (0, 20, 30, 2)]] {
        assert_eq!(Findings::of(Assumptions::Broken, &history(&turns)).fences_out_of_order, 1);
    }
}

#[test]
fn without_fences_only_overlaps_are_judged() {
    let turns = [(0, 10, 20), (1, 15, 30)];
    let records = |(client, valid_from, valid_until)| {
        TurnEvents { client, requested_at: 0, valid_from, valid_until, fence: None }.records()
    };
    let findings = Findings::of(Assumptions::Kept, &turns.into_iter().flat_map(records).collect::<Vec<_>>());
    assert_eq!((findings.overlaps, findings.fences_out_of_order), (1, 0));
}

#[test]
fn only_an_overwrite_of_the_fenced_register_is_a_violation() {
    let mut records = history(&[(0, 10, 20, 1)]);
    let write =
        |at, fenced, bare| Record::Register(RegisterAccess { at, client: 0, turn: 1, is_write: true, fenced, bare });
    records.push(write(19_000_000, Some(AccessOutcome::Done), AccessOutcome::Done));
    records.push(write(21_000_000, Some(AccessOutcome::Refused), AccessOutcome::Overwrote));
    let findings = Findings::of(Assumptions::Broken, &records);
    assert_eq!(
        (findings.late_accesses, findings.refused_accesses, findings.bare_overwrites, findings.fenced_overwrites),
        (1, 1, 1, 0)
    );
    assert_eq!(findings.violations(Assumptions::Broken), 0);
    records.push(write(22_000_000, Some(AccessOutcome::Overwrote), AccessOutcome::Overwrote));
    assert_eq!(Findings::of(Assumptions::Broken, &records).violations(Assumptions::Broken), 1);
}

#[test]
fn a_waiter_that_is_never_served_is_starved_unless_a_fault_killed_it() {
    let request = Record::Client { client: 0, event: Event::Asked { turn: 1, name: NAMES[0].into(), at: 0 } };
    let (kill, end_of_faults) = (Record::Killed { at: 1, client: 0 }, Record::FaultsEnded { at: 2 });
    let starved = |records: &[&Record]| {
        Findings::of(Assumptions::Kept, &records.iter().map(|&record| record.clone()).collect::<Vec<_>>())
            .starved_waiters
    };
    assert_eq!(starved(&[&request, &end_of_faults, &kill]), 1);
    assert_eq!(starved(&[&request, &kill, &end_of_faults]), 0);
}

#[test]
fn batched_requests_are_counted() {
    let sent = |client, requests, batched| Record::Client { client, event: Event::Sent { turn: 1, requests, batched } };
    let findings = Findings::of(Assumptions::Kept, &[sent(0, 9, 4), sent(1, 5, 0)]);
    assert_eq!((findings.requests, findings.batched_requests), (14, 4));
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
    assert_eq!(findings.killed_servers, BTreeMap::from([(Persistence::None, 2), (Persistence::AofAlways, 4)]));
}

fn run_that_exited_with(client: u32, code: i32) -> Record {
    Record::RunEnded { at: 0, client, code, message: "quorlock: it failed".into() }
}

#[test]
fn the_series_processes_permits_exit_codes_that_the_series_operations_forbids() {
    for code in [LOST, NO_QUORUM] {
        let findings = Findings::of(
            Assumptions::Kept,
            &[run_that_exited_with(0, 0), run_that_exited_with(1, HELD), run_that_exited_with(2, code)],
        );
        assert_eq!((Series::Operations.violations(&findings), Series::Processes.violations(&findings)), (1, 0));
    }
}

#[test]
fn a_run_with_an_unexpected_exit_code_is_broken() {
    let findings = Findings::of(Assumptions::Kept, &[run_that_exited_with(3, 70)]);
    assert_eq!((findings.broken_clients, Series::Processes.violations(&findings)), (1, 1));
    assert!(findings.messages[0].contains("70: quorlock: it failed"), "{:?}", findings.messages);
}

#[test]
fn hosts_without_a_lease_after_the_faults_are_stuck() {
    let findings_with_faults_until = |faults_ended_at_ms: u64| {
        let mut records = history(&[(0, 10, 20, 1), (0, 30, 40, 2)]);
        records.push(Record::FaultsEnded { at: faults_ended_at_ms * 1_000_000 });
        Findings::of(Assumptions::Kept, &records)
    };
    assert_eq!(Series::Restarts.violations(&findings_with_faults_until(25)), 0);
    assert_eq!(Series::Restarts.violations(&findings_with_faults_until(35)), 1);
    // A history with a later lease does not hide a history without one.
    let mut sum = findings_with_faults_until(25);
    sum.add(findings_with_faults_until(35));
    assert_eq!(sum.stuck_histories, 1);
}

/// Findings with a failover at 100 ms and a heartbeat of 50 ms.
fn findings_of_failover(turns: &[(u64, u64, u64, u64)]) -> Findings {
    let mut records = history(turns);
    records.push(Record::FailedOver { at: 100_000_000 });
    Findings::of_failover(&records, Duration::from_millis(50))
}

#[test]
fn a_failover_excuses_only_overlaps_that_are_near_it_and_short() {
    for (turns, unexcused_overlaps, why) in [
        ([(0, 90, 140, 1), (0, 120, 200, 2)], 0, "within a heartbeat of the failover"),
        ([(0, 90, 200, 1), (0, 120, 200, 2)], 1, "longer than a heartbeat"),
        ([(0, 160, 190, 1), (0, 170, 200, 2)], 1, "later than a heartbeat after the failover"),
    ] {
        let findings = findings_of_failover(&turns);
        assert_eq!(
            (findings.unexcused_overlaps, Series::Sentinel.violations(&findings)),
            (unexcused_overlaps, unexcused_overlaps),
            "{why}"
        );
    }
}

#[test]
fn a_failover_excuses_only_fences_of_leases_that_begin_near_it() {
    for (turns, fences_out_of_order, why) in [
        (
            [(0, 90, 110, 2), (80, 120, 130, 1)],
            0,
            "requested before the higher fence was granted, and within a heartbeat of the failover",
        ),
        ([(0, 90, 110, 2), (95, 120, 130, 1)], 1, "requested after the higher fence was granted"),
        ([(0, 90, 110, 2), (80, 160, 170, 1)], 1, "later than a heartbeat after the failover"),
    ] {
        let findings = findings_of_failover(&turns);
        assert_eq!(
            (findings.fences_out_of_order, Series::Sentinel.violations(&findings)),
            (fences_out_of_order, fences_out_of_order),
            "{why}"
        );
    }
}
