//! How the file stores locks of every mode, and the queue.

use quorlock_core::name::OwnerId;
use quorlock_core::node::Record;
use quorlock_core::terms::HeldMode;
use quorlock_core::vote::Report;

use super::*;
use crate::node::sqlite::record;

const OWNER: OwnerId = OwnerId::from_bits(7);
const OTHER_OWNER: OwnerId = OwnerId::from_bits(8);

fn stored_record(test_file: &TestFile, name: &str) -> Record {
    record::load_without_tombstones(&test_file.connect(), &key(name).text).unwrap()
}

fn inspect(session: &mut TestSession, name: &str) -> Report {
    match session.ask(name, Request::Inspect) {
        Vote::Report(report) => *report,
        other => panic!("not a report: {other:?}"),
    }
}

fn waiter(at: u64, shared: bool) -> Waiter {
    Waiter { ticket: Ticket { at, id: u64::MAX - at }, channel: Channel(9), shared }
}

#[test]
fn locks_of_every_mode_survive_reopening() {
    let slot = |slot| Mode::Slot { permits: 3, slot };
    let cases = [
        (HeldMode::Exclusive, vec![Mode::EXCLUSIVE], Mode::EXCLUSIVE),
        (HeldMode::Reentrant(OWNER), vec![Mode::Reentrant { owner: OWNER }; 2], Mode::Reentrant { owner: OTHER_OWNER }),
        (
            HeldMode::Shared,
            vec![Mode::Shared { owner: OWNER, reenters: false }, Mode::Shared { owner: OTHER_OWNER, reenters: false }],
            Mode::EXCLUSIVE,
        ),
        (HeldMode::Slots(3), vec![slot(2), slot(1), slot(0)], slot(0)),
    ];
    for (held_mode, modes, refused_mode) in cases {
        let test_file = TestFile::new();
        let mut session = test_file.session("boot");
        for (attempt, mode) in (1..).zip(&modes) {
            granted(&session.ask("a", acquire_as(attempt, *mode, None)));
        }
        let (before, report) = (stored_record(&test_file, "a"), inspect(&mut session, "a"));
        drop(session);
        let mut session = test_file.session("boot");
        assert_eq!((stored_record(&test_file, "a"), inspect(&mut session, "a")), (before, report.clone()));
        let held = report.held.unwrap();
        assert_eq!((held.held_mode, held.holds as usize), (held_mode, modes.len()));
        assert!(is_held(&session.ask("a", acquire_as(99, refused_mode, None))));
        for attempt in 1..=modes.len() as u128 {
            assert!(inspect(&mut session, "a").held.is_some(), "{held_mode:?} ended before its last release");
            granted(&session.ask("a", release(attempt)));
        }
        assert_eq!((inspect(&mut session, "a").held, test_file.count("entry")), (None, 0));
    }
}

#[test]
fn the_queue_and_the_ticket_of_the_holder_survive_reopening() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.ask("a", acquire_as(1, Mode::EXCLUSIVE, Some(waiter(5, false)))));
    for (attempt, at, shared) in [(2, 20, false), (3, 3, true), (4, 10, false)] {
        let mode = if shared { Mode::Shared { owner: OWNER, reenters: false } } else { Mode::EXCLUSIVE };
        assert!(is_held(&session.ask("a", acquire_as(attempt, mode, Some(waiter(at, shared))))));
    }
    let before = stored_record(&test_file, "a");
    assert_eq!(
        before.queue.iter().map(|queued| queued.waiter).collect::<Vec<_>>(),
        [waiter(3, true), waiter(10, false), waiter(20, false)]
    );
    assert_eq!(before.fence.as_ref().unwrap().ticket, Some(waiter(5, false).ticket));
    drop(session);
    let mut session = test_file.session("boot");
    assert_eq!(stored_record(&test_file, "a"), before);
    granted(&session.ask("a", release(1)));
    assert!(
        matches!(session.ask("a", acquire(9)), Vote::Refusal(Refusal::Behind { .. })),
        "a request without a queue position overtook the queue"
    );
    let reader = acquire_as(5, Mode::Shared { owner: OWNER, reenters: false }, Some(waiter(3, true)));
    granted(&session.ask("a", reader));
    assert_eq!(inspect(&mut session, "a").waiting, 2);
}

#[test]
fn a_queue_is_kept_although_there_is_neither_vote_nor_fence() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let attempt = LeaseId::from_bits(1);
    granted(&session.ask("a", Request::PlainAcquire { attempt, ttl: ttl(1_000) }));
    assert!(is_held(&session.ask("a", acquire_as(2, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    granted(&session.ask("a", Request::PlainRelease { attempt }));
    assert!(matches!(session.acquire("a", 3), Vote::Refusal(Refusal::Behind { .. })));
    sweep(&mut session);
    assert!(matches!(session.acquire("a", 3), Vote::Refusal(Refusal::Behind { .. })), "the sweep deleted the queue");
    granted(&session.ask("a", acquire_as(2, Mode::EXCLUSIVE, Some(waiter(1, false)))));
}

/// Sends enough requests for sweeps of all records.
fn sweep(session: &mut TestSession) {
    for _ in 0..3 {
        session.send((0..500).map(|id| message("x", release(id))).collect()).unwrap();
    }
}

#[test]
fn expired_entries_queue_positions_and_hints_are_swept() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    for (name, attempt) in [("a", 1), ("b", 2), ("c", 3)] {
        granted(&session.ask(name, acquire_as(attempt, Mode::Shared { owner: OWNER, reenters: false }, None)));
        assert!(is_held(&session.ask(name, acquire_as(attempt + 10, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    }
    granted(&session.ask("a", release(1)));
    let counts = || ["entry", "waiter", "hint"].map(|table| test_file.count(table));
    assert_eq!(counts(), [2, 3, 1]);
    // The reader of "b" renews its lease, and the waiter for "b" asks again.
    test_file.clock.pass(20_000);
    granted(&session.ask("b", acquire_as(2, Mode::Shared { owner: OWNER, reenters: false }, None)));
    test_file.clock.pass(10_001);
    assert!(is_held(&session.ask("b", acquire_as(12, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    sweep(&mut session);
    assert_eq!(counts(), [1, 1, 0]);
    assert_eq!(test_file.count("record"), 3, "records with fences are kept for longer");
    test_file.clock.pass(25 * HOUR_MILLIS);
    sweep(&mut session);
    assert_eq!((counts(), test_file.count("record")), ([0, 0, 0], 0));
}

#[test]
fn a_reboot_deletes_entries_queue_positions_and_hints() {
    let test_file = TestFile::new();
    let mut session = test_file.session("first");
    granted(&session.ask("a", acquire_as(1, Mode::Slot { permits: 1, slot: 0 }, None)));
    for at in 1..3 {
        let waiting = acquire_as(2, Mode::Slot { permits: 1, slot: 0 }, Some(waiter(at, false)));
        assert!(is_held(&session.ask("a", waiting)));
    }
    granted(&session.ask("a", release(1)));
    granted(&session.ask("b", acquire_as(1, Mode::Slot { permits: 1, slot: 0 }, None)));
    assert!(["record", "entry", "waiter", "hint"].iter().all(|table| test_file.count(table) > 0));
    drop(session);
    drop(test_file.session("second"));
    assert!(["record", "entry", "waiter", "hint"].iter().all(|table| test_file.count(table) == 0));
}

#[test]
fn an_inspection_writes_nothing() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.ask("a", acquire_as(1, Mode::Shared { owner: OWNER, reenters: false }, None)));
    assert!(is_held(&session.ask("a", acquire_as(2, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    test_file.clock.pass(60_000);
    // Lower the stored value: a session that had synced a reserve would write this value with its next grant.
    test_file.connect().execute("UPDATE node SET sure = 0", []).unwrap();
    let other_connection = test_file.connect();
    let version = || other_connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    let inspections = (0..1_200).map(|_| message("a", Request::Inspect)).collect();
    let replies = session.send(inspections).unwrap();
    let Vote::Report(report) = vote(&replies[0]) else { panic!("not a report") };
    assert_eq!((report.held, report.waiting), (None, 0));
    assert_eq!(version(), before);
    assert_eq!((test_file.count("entry"), test_file.count("waiter")), (1, 1), "an inspection deletes no expired rows");
}
