//! Every kind of holding, and the queue, as the file keeps them.

use quorlock_core::name::OwnerId;
use quorlock_core::node::Record;
use quorlock_core::terms::Period;
use quorlock_core::vote::Report;

use super::*;
use crate::node::sqlite::record;

const OURS: OwnerId = OwnerId::from_bits(7);
const THEIRS: OwnerId = OwnerId::from_bits(8);

fn stored(ground: &Ground, name: &str) -> Record {
    record::load_standing(&ground.other(), &key(name).text).unwrap()
}

fn look(session: &mut Handled, name: &str) -> Report {
    match session.ask(name, Request::Inspect) {
        Vote::Report(report) => *report,
        other => panic!("no report: {other:?}"),
    }
}

fn waiter(at: u64, shared: bool) -> Waiter {
    Waiter { ticket: Ticket { at, id: u64::MAX - at }, channel: Channel(9), shared }
}

#[test]
fn every_kind_of_holding_survives_reopening() {
    let slot = |slot| Mode::Slot { permits: 3, slot };
    let kinds = [
        (Period::Exclusive, vec![Mode::EXCLUSIVE], Mode::EXCLUSIVE),
        (Period::Reentrant(OURS), vec![Mode::Reentrant { owner: OURS }; 2], Mode::Reentrant { owner: THEIRS }),
        (
            Period::Shared,
            vec![Mode::Shared { owner: OURS, reenters: false }, Mode::Shared { owner: THEIRS, reenters: false }],
            Mode::EXCLUSIVE,
        ),
        (Period::Slots(3), vec![slot(2), slot(1), slot(0)], slot(0)),
    ];
    for (period, modes, refused) in kinds {
        let ground = Ground::new();
        let mut session = ground.session("boot");
        for (attempt, mode) in (1..).zip(&modes) {
            granted(&session.ask("a", asking(attempt, *mode, None)));
        }
        let (before, report) = (stored(&ground, "a"), look(&mut session, "a"));
        drop(session);
        let mut session = ground.session("boot");
        assert_eq!((stored(&ground, "a"), look(&mut session, "a")), (before, report.clone()));
        let held = report.held.unwrap();
        assert_eq!((held.period, held.holds as usize), (period, modes.len()));
        assert!(is_held(&session.ask("a", asking(99, refused, None))));
        for attempt in 1..=modes.len() as u128 {
            assert!(look(&mut session, "a").held.is_some(), "{period:?} ended before its last exit");
            granted(&session.ask("a", release(attempt)));
        }
        assert_eq!((look(&mut session, "a").held, ground.count("entry")), (None, 0));
    }
}

#[test]
fn the_queue_and_the_ticket_of_the_holder_survive_reopening() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.ask("a", asking(1, Mode::EXCLUSIVE, Some(waiter(5, false)))));
    for (attempt, at, shared) in [(2, 20, false), (3, 3, true), (4, 10, false)] {
        let mode = if shared { Mode::Shared { owner: OURS, reenters: false } } else { Mode::EXCLUSIVE };
        assert!(is_held(&session.ask("a", asking(attempt, mode, Some(waiter(at, shared))))));
    }
    let before = stored(&ground, "a");
    assert_eq!(
        before.queue.iter().map(|place| place.waiter).collect::<Vec<_>>(),
        [waiter(3, true), waiter(10, false), waiter(20, false)]
    );
    assert_eq!(before.fence.as_ref().unwrap().ticket, Some(waiter(5, false).ticket));
    drop(session);
    let mut session = ground.session("boot");
    assert_eq!(stored(&ground, "a"), before);
    granted(&session.ask("a", release(1)));
    assert!(matches!(session.ask("a", acquire(9)), Vote::Refusal(Refusal::Behind { .. })), "it overtook the queue");
    let reader = asking(5, Mode::Shared { owner: OURS, reenters: false }, Some(waiter(3, true)));
    granted(&session.ask("a", reader));
    assert_eq!(look(&mut session, "a").waiting, 2);
}

#[test]
fn a_queue_without_a_vote_and_a_fence_is_kept() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    let attempt = LeaseId::from_bits(1);
    granted(&session.ask("a", Request::PlainAcquire { attempt, ttl: ttl(1_000) }));
    assert!(is_held(&session.ask("a", asking(2, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    granted(&session.ask("a", Request::PlainRelease { attempt }));
    assert!(matches!(session.acquire("a", 3), Vote::Refusal(Refusal::Behind { .. })));
    sweep(&mut session);
    assert!(matches!(session.acquire("a", 3), Vote::Refusal(Refusal::Behind { .. })), "the sweep took the queue");
    granted(&session.ask("a", asking(2, Mode::EXCLUSIVE, Some(waiter(1, false)))));
}

/// Enough requests for every record to be looked at.
fn sweep(session: &mut Handled) {
    for _ in 0..3 {
        session.send((0..500).map(|id| message("x", release(id))).collect()).unwrap();
    }
}

#[test]
fn entries_places_and_hints_that_have_lapsed_are_swept() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    for (name, attempt) in [("a", 1), ("b", 2), ("c", 3)] {
        granted(&session.ask(name, asking(attempt, Mode::Shared { owner: OURS, reenters: false }, None)));
        assert!(is_held(&session.ask(name, asking(attempt + 10, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    }
    granted(&session.ask("a", release(1)));
    let counts = || ["entry", "place", "hint"].map(|table| ground.count(table));
    assert_eq!(counts(), [2, 3, 1]);
    // A reader that renews, and a waiter that asks again.
    ground.clock.pass(20_000);
    granted(&session.ask("b", asking(2, Mode::Shared { owner: OURS, reenters: false }, None)));
    ground.clock.pass(10_001);
    assert!(is_held(&session.ask("b", asking(12, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    sweep(&mut session);
    assert_eq!(counts(), [1, 1, 0]);
    assert_eq!(ground.count("record"), 3, "fences are kept for longer");
    ground.clock.pass(25 * HOUR_MILLIS);
    sweep(&mut session);
    assert_eq!((counts(), ground.count("record")), ([0, 0, 0], 0));
}

#[test]
fn a_reboot_voids_entries_places_and_hints() {
    let ground = Ground::new();
    let mut session = ground.session("first");
    granted(&session.ask("a", asking(1, Mode::Slot { permits: 1, slot: 0 }, None)));
    for at in 1..3 {
        let waiting = asking(2, Mode::Slot { permits: 1, slot: 0 }, Some(waiter(at, false)));
        assert!(is_held(&session.ask("a", waiting)));
    }
    granted(&session.ask("a", release(1)));
    granted(&session.ask("b", asking(1, Mode::Slot { permits: 1, slot: 0 }, None)));
    assert!(["record", "entry", "place", "hint"].iter().all(|table| ground.count(table) > 0));
    drop(session);
    drop(ground.session("second"));
    assert!(["record", "entry", "place", "hint"].iter().all(|table| ground.count(table) == 0));
}

#[test]
fn a_look_writes_nothing() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.ask("a", asking(1, Mode::Shared { owner: OURS, reenters: false }, None)));
    assert!(is_held(&session.ask("a", asking(2, Mode::EXCLUSIVE, Some(waiter(1, false))))));
    ground.clock.pass(60_000);
    // A session that has put a reserve on the disk has something to write with its next grant.
    ground.other().execute("UPDATE node SET sure = 0", []).unwrap();
    let other = ground.other();
    let version = || other.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    let looks = (0..1_200).map(|_| message("a", Request::Inspect)).collect();
    let replies = session.send(looks).unwrap();
    let Vote::Report(report) = vote(&replies[0]) else { panic!("no report") };
    assert_eq!((report.held, report.waiting), (None, 0));
    assert_eq!(version(), before);
    assert_eq!((ground.count("entry"), ground.count("place")), (1, 1), "what has lapsed is left to others");
}
