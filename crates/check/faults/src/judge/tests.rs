use super::*;
use crate::plan::{Fault, Target};
use crate::register::Entry;
use crate::series::Series;

/// One turn, in milliseconds. The client's number is also the number of its turn.
struct TurnEvents {
    client: u32,
    asked: u64,
    from: u64,
    until: u64,
    fence: Option<u64>,
}

impl TurnEvents {
    fn records(&self) -> Vec<Record> {
        let &Self { client, asked, from, until, fence } = self;
        let event = |event| Record::Client { client, event };
        vec![
            event(Event::Asked { turn: 1, name: NAMES[0].into(), at: asked * 1_000_000 }),
            event(Event::Granted { turn: 1, at: from * 1_000_000, until: until * 1_000_000, fence }),
        ]
    }
}

fn history(turns: &[(u64, u64, u64, u64)]) -> Vec<Record> {
    let turn = |(client, &(asked, from, until, fence)): (usize, &(u64, u64, u64, u64))| {
        TurnEvents { client: client as u32, asked, from, until, fence: Some(fence) }.records()
    };
    turns.iter().enumerate().flat_map(turn).collect()
}

#[test]
fn consecutive_leases_are_no_violation() {
    let found = Findings::of(Bound::Within, &history(&[(0, 10, 20, 1), (0, 20, 30, 2), (5, 31, 50, 3)]));
    assert_eq!((found.grants, found.violations(Bound::Within), found.longest_wait), (3, 0, 26_000_000));
}

#[test]
fn an_overlap_is_a_violation_within_the_assumptions() {
    let records = history(&[(0, 10, 20, 1), (0, 15, 30, 2)]);
    let found = Findings::of(Bound::Within, &records);
    assert_eq!((found.overlaps, found.longest_overlap, found.violations(Bound::Within)), (1, 5_000_000, 1));
    assert_eq!(Findings::of(Bound::Beyond, &records).violations(Bound::Beyond), 0);
}

#[test]
fn a_released_or_lost_lease_is_over() {
    for event in [Event::Released { turn: 1, at: 15_000_000 }, Event::Lost { turn: 1, at: 15_000_000 }] {
        let mut records = history(&[(0, 10, 20, 1), (0, 15, 30, 2)]);
        records.push(Record::Client { client: 0, event });
        assert_eq!(Findings::of(Bound::Within, &records).overlaps, 0);
    }
}

#[test]
fn an_extended_lease_lasts_longer() {
    let mut records = history(&[(0, 10, 20, 1), (0, 25, 30, 2)]);
    let event = Event::Extended { turn: 1, at: 19_000_000, until: 28_000_000 };
    records.push(Record::Client { client: 0, event });
    assert_eq!(Findings::of(Bound::Within, &records).longest_overlap, 3_000_000);
}

#[test]
fn a_revived_lease_is_a_violation_with_any_clock() {
    let mut records = history(&[(0, 10, 20, 1)]);
    records.push(Record::Client { client: 0, event: Event::Lost { turn: 1, at: 15_000_000 } });
    assert_eq!(Findings::of(Bound::Beyond, &records).violations(Bound::Beyond), 0);
    records.push(Record::Client { client: 0, event: Event::Revived { turn: 1, at: 16_000_000 } });
    for bound in [Bound::Within, Bound::Beyond] {
        let found = Findings::of(bound, &records);
        assert_eq!((found.revived, found.violations(bound), found.messages.len()), (1, 1, 1));
    }
}

#[test]
fn a_lease_that_is_seen_after_its_end_holds_nothing() {
    let found = Findings::of(Bound::Within, &history(&[(0, 25, 20, 1), (0, 22, 30, 2)]));
    assert_eq!((found.grants, found.violations(Bound::Within)), (1, 0));
}

#[test]
fn fences_out_of_order_are_found() {
    let records = history(&[(0, 10, 20, 2), (0, 20, 30, 1)]);
    assert_eq!(Findings::of(Bound::Within, &records).disorder, 1);
    // Beyond the assumptions the second may have been decided first: it was requested before the first was granted.
    assert_eq!(Findings::of(Bound::Beyond, &records).disorder, 0);
    for turns in [[(0, 10, 20, 2), (11, 20, 30, 1)], [(0, 10, 20, 2), (0, 20, 30, 2)]] {
        assert_eq!(Findings::of(Bound::Beyond, &history(&turns)).disorder, 1);
    }
}

#[test]
fn without_fences_only_overlaps_are_judged() {
    let turns = [(0, 10, 20), (1, 15, 30)];
    let turn = |(client, from, until)| TurnEvents { client, asked: 0, from, until, fence: None }.records();
    let found = Findings::of(Bound::Within, &turns.into_iter().flat_map(turn).collect::<Vec<_>>());
    assert_eq!((found.overlaps, found.disorder), (1, 0));
}

#[test]
fn an_overwritten_cell_is_reported_and_late_writes_are_counted() {
    let mut records = history(&[(0, 10, 20, 1)]);
    let entry = |at, fenced, bare| Record::Register(Entry { at, client: 0, turn: 1, is_write: true, fenced, bare });
    records.push(entry(19_000_000, Some(Outcome::Done), Outcome::Done));
    records.push(entry(21_000_000, Some(Outcome::Refused), Outcome::Overwrote));
    let found = Findings::of(Bound::Beyond, &records);
    assert_eq!((found.late, found.refused, found.bare_overwrites, found.fenced_overwrites), (1, 1, 1, 0));
    assert_eq!(found.violations(Bound::Beyond), 0);
    records.push(entry(22_000_000, Some(Outcome::Overwrote), Outcome::Overwrote));
    assert_eq!(Findings::of(Bound::Beyond, &records).violations(Bound::Beyond), 1);
}

#[test]
fn a_waiter_at_the_end_is_starved_unless_a_fault_killed_it() {
    let asked = Record::Client { client: 0, event: Event::Asked { turn: 1, name: NAMES[0].into(), at: 0 } };
    let (killed, healed) = (Record::Killed { at: 1, client: 0 }, Record::Healed { at: 2 });
    let starved = |records: &[&Record]| {
        Findings::of(Bound::Within, &records.iter().map(|&record| record.clone()).collect::<Vec<_>>()).starved
    };
    assert_eq!(starved(&[&asked, &healed, &killed]), 1);
    assert_eq!(starved(&[&asked, &killed, &healed]), 0);
}

#[test]
fn batched_requests_are_counted() {
    let sent =
        |client, requests, together| Record::Client { client, event: Event::Sent { turn: 1, requests, together } };
    let found = Findings::of(Bound::Within, &[sent(0, 9, 4), sent(1, 5, 0)]);
    assert_eq!((found.requests, found.together), (14, 4));
}

#[test]
fn faults_are_counted() {
    let (at, length) = (Duration::ZERO, Duration::ZERO);
    let fault = |act, persistence: Vec<Persistence>| {
        let fault = Fault { at, length, target: Target::Node(0), act, amount: 0 };
        Record::Fault { at: 1, fault, persistence }
    };
    let records = [
        fault(Act::Flush, vec![Persistence::None]),
        fault(Act::Kill, vec![Persistence::AofAlways]),
        fault(Act::Kill, vec![Persistence::None, Persistence::AofAlways]),
    ];
    let mut found = Findings::of(Bound::Within, &records);
    found.add(found.clone());
    assert_eq!((found.faults[&Act::Flush], found.faults[&Act::Kill]), (2, 4));
    assert_eq!(found.kills, BTreeMap::from([(Persistence::None, 2), (Persistence::AofAlways, 4)]));
}

fn ran(client: u32, code: i32) -> Record {
    Record::Ran { at: 0, client, code, message: "quorlock: it failed".into() }
}

#[test]
fn a_run_may_lose_its_lock_by_a_signal_but_not_by_a_backup() {
    for code in [LOST, NO_QUORUM] {
        let found = Findings::of(Bound::Within, &[ran(0, 0), ran(1, HELD), ran(2, code)]);
        assert_eq!((Series::Operations.violations(&found), Series::Processes.violations(&found)), (1, 0));
    }
}

#[test]
fn a_run_with_an_unexpected_exit_code_is_broken() {
    let found = Findings::of(Bound::Within, &[ran(3, 70)]);
    assert_eq!((found.broken, Series::Processes.violations(&found)), (1, 1));
    assert!(found.messages[0].contains("70: quorlock: it failed"), "{:?}", found.messages);
}

#[test]
fn a_fleet_without_a_grant_after_the_faults_is_stuck() {
    let healed = |at_ms: u64| {
        let mut records = history(&[(0, 10, 20, 1), (0, 30, 40, 2)]);
        records.push(Record::Healed { at: at_ms * 1_000_000 });
        Findings::of(Bound::Within, &records)
    };
    assert_eq!(Series::Restarts.violations(&healed(25)), 0);
    assert_eq!(Series::Restarts.violations(&healed(35)), 1);
    // One good episode does not hide a bad one.
    let mut both = healed(25);
    both.add(healed(35));
    assert_eq!(both.stuck, 1);
}

/// Findings with a failover at 100 ms and a heartbeat of 50 ms.
fn found_of_failover(turns: &[(u64, u64, u64, u64)]) -> Findings {
    let mut records = history(turns);
    records.push(Record::Switched { at: 100_000_000 });
    Findings::of_failover(&records, Duration::from_millis(50))
}

#[test]
fn an_overlap_may_last_for_one_heartbeat_after_a_failover_and_no_longer() {
    for (turns, outlasting, why) in [
        ([(0, 90, 140, 1), (0, 120, 200, 2)], 0, "within a heartbeat of the failover"),
        ([(0, 90, 200, 1), (0, 120, 200, 2)], 1, "longer than a heartbeat"),
        ([(0, 160, 190, 1), (0, 170, 200, 2)], 1, "later than a heartbeat after the failover"),
    ] {
        let found = found_of_failover(&turns);
        assert_eq!((found.outlasting, Series::Sentinel.violations(&found)), (outlasting, outlasting), "{why}");
    }
}

#[test]
fn fences_are_in_order_again_one_heartbeat_after_a_failover() {
    for (turns, disorder, why) in [
        ([(0, 90, 110, 2), (80, 120, 130, 1)], 0, "requested before, within a heartbeat of the failover"),
        ([(0, 90, 110, 2), (95, 120, 130, 1)], 1, "requested after the higher fence was given out"),
        ([(0, 90, 110, 2), (80, 160, 170, 1)], 1, "later than a heartbeat after the failover"),
    ] {
        let found = found_of_failover(&turns);
        assert_eq!((found.disorder, Series::Sentinel.violations(&found)), (disorder, disorder), "{why}");
    }
}
