//! Votes, incarnations and fences.

use quorlock_core::vote::QueuePosition;

use super::*;
use crate::node::Answer;

#[test]
fn a_session_sees_the_votes_of_another_session() {
    let test_file = TestFile::new();
    let (mut ours, mut theirs) = (test_file.session("boot"), test_file.session("boot"));
    assert_eq!(ours.known, theirs.known);
    granted(&ours.acquire("a", 1));
    assert!(is_held(&theirs.acquire("a", 2)));
    granted(&theirs.acquire("b", 2));
    granted(&ours.ask("a", release(1)));
    granted(&theirs.acquire("a", 2));
}

#[test]
fn a_refusal_contains_the_holder_and_the_remaining_time() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let fence = granted(&session.acquire("a", 1));
    test_file.clock.pass(10_000);
    let (holder, remaining) = (Some(Holder::new("host", 7, "test")), Some(Duration::from_secs(20)));
    let held = Refusal::Held { holder, remaining, fence, queue: QueuePosition::default() };
    assert_eq!(session.acquire("a", 2), Vote::Refusal(held));
}

#[test]
fn a_vote_expires_after_its_ttl() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("a", 1));
    test_file.clock.pass(30_000);
    assert!(is_held(&session.acquire("a", 2)));
    test_file.clock.pass(1);
    granted(&session.acquire("a", 2));
}

#[test]
fn an_attempt_is_refused_until_its_tombstone_expires() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    session.ask("a", release_with_tombstone(1, 500));
    assert_eq!(session.acquire("a", 1), Vote::Refusal(Refusal::Tombstoned));
    granted(&session.acquire("b", 2));
    test_file.clock.pass(501);
    granted(&session.acquire("a", 1));
    session.ask("a", release_with_tombstone(1, u64::MAX));
    test_file.clock.pass(1_000 * HOUR_MILLIS);
    assert_eq!(session.acquire("a", 1), Vote::Refusal(Refusal::Tombstoned));
}

#[test]
fn votes_survive_reopening_within_the_same_boot() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("a", 1));
    let known = session.known.clone();
    drop(session);
    let mut session = test_file.session("boot");
    assert_eq!(session.known, known);
    assert!(is_held(&session.acquire("a", 2)));
}

#[test]
fn a_reboot_voids_votes_and_tombstones() {
    let test_file = TestFile::new();
    let mut session = test_file.session("first");
    granted(&session.acquire("a", 1));
    session.ask("b", release_with_tombstone(2, 60_000));
    drop(session);
    let mut session = test_file.session("second");
    granted(&session.acquire("a", 3));
    granted(&session.acquire("b", 2));
}

#[test]
fn a_session_of_another_boot_grants_nothing_before_its_hello() {
    let test_file = TestFile::new();
    let life = test_file.session("first").life();
    let mut session = test_file.open("second").unwrap();
    let replies = wait(session.send(Some(life), vec![message("a", acquire(1))])).unwrap();
    assert_eq!(vote(&replies[0]), Vote::Refusal(Refusal::WrongEpoch));
}

#[test]
fn fences_grow_across_reboots_that_lose_everything_except_the_reserve() {
    let test_file = TestFile::new();
    let mut last = Fence::default();
    for boot in 0..5_u128 {
        let mut session = test_file.session(&format!("boot {boot}"));
        for attempt in 0..3 {
            let fence = session.fence("a", boot * 3 + attempt);
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        drop(session);
        // A power failure may undo everything except the reserve.
        let forget = "DELETE FROM record; DELETE FROM tombstone; UPDATE node SET sure = 0, run = NULL, epoch = NULL";
        test_file.connect().execute_batch(forget).unwrap();
        // In every second round, the wall clock stands still.
        test_file.clock.pass(u64::from(boot % 2 == 0) * 1_000);
    }
}

#[test]
fn every_fence_is_below_the_reserve_on_disk() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let other_connection = test_file.connect();
    for attempt in 0..48 {
        let fence = session.fence("a", attempt);
        let read = |column: &str| {
            other_connection.query_row(&format!("SELECT {column} FROM node"), [], |row| row.get::<_, i64>(0)).unwrap()
                as u64
        };
        assert!(fence.get() < read("sure") && read("sure") <= read("reserve"));
        assert!(
            read("reserve") < test_file.clock.peek().wall_micros + 3 * HOUR_MILLIS * 1_000,
            "the reserve is too far ahead of the clock"
        );
        test_file.clock.pass(HOUR_MILLIS / 3);
    }
}

#[test]
fn a_grant_above_the_reserve_fails_without_affecting_other_requests() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("a", 1));
    granted(&session.ask("a", release(1)));
    test_file.connect().execute("UPDATE record SET fence = ?1", [(START_MICROS * 2).cast_signed()]).unwrap();
    let replies = session.send(vec![message("a", acquire(1)), message("b", acquire(2))]).unwrap();
    assert!(matches!(&replies[0], Reply::Failed(why) if why.contains("reserve")), "{replies:?}");
    granted(&vote(&replies[1]));
    assert!(session.fence("c", 3).get() < START_MICROS * 2);
}

#[test]
fn an_incarnation_that_an_operator_starts_keeps_votes_and_raises_the_floor() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let fence = granted(&session.acquire("a", 1));
    let (identity, fresh, trust) = (|| Identity::of_run("boot"), Epoch(9), Trust::Vote { floor_offset: 0 });
    let constants = || Constants { max_ttl_millis: 70_000, ..constants() };
    for node_command in [
        NodeCommand::Init { identity: identity(), fresh, constants: constants() },
        NodeCommand::Reconfigure { identity: identity(), fresh, constants: constants(), trust, suspend: false },
    ] {
        session.known = wait(session.session.node_command(node_command)).unwrap().life.unwrap();
        assert_eq!((session.known.epoch, &session.known.constants), (Some(Epoch(9)), &constants()));
        assert!(session.known.floor.unwrap() > fence);
        assert!(is_held(&session.acquire("a", 2)));
    }
    assert!(session.fence("b", 3) >= session.known.floor.unwrap());
}

#[test]
fn the_end_of_a_quarantine_raises_the_floor_above_all_earlier_fences() {
    let test_file = TestFile::new();
    let fence = test_file.session("first").fence("a", 1);
    let mut session = test_file.open("second").unwrap();
    let epoch = Epoch(5);
    let mut node_command = |node_command| wait(session.node_command(node_command)).unwrap();
    let (identity, founders) = (Identity::of_run("second"), String::new());
    let standing = node_command(NodeCommand::Hello {
        identity,
        fresh: epoch,
        constants: constants(),
        founders,
        trust: Trust::Quarantine,
    });
    assert_eq!(standing.life.unwrap().floor, None);
    let standing = node_command(NodeCommand::Claim { epoch, elapsed_micros: 66_000_000 });
    assert!(standing.accepted && standing.life.unwrap().floor.unwrap() > fence);
}

#[test]
fn a_fence_ahead_of_the_clock_is_not_forgotten() {
    let test_file = TestFile::new();
    drop(test_file.session("first"));
    // The reserve is far ahead of the clock, as on a machine whose clock starts years in the past after a reboot.
    test_file.connect().execute("UPDATE node SET reserve = reserve + 100000000000000", []).unwrap();
    let mut session = test_file.session("second");
    let (first, second) = (session.fence("a", 1), session.fence("a", 2));
    assert!(second > first && first.get() > START_MICROS + 100_000_000_000_000);
    test_file.clock.pass(25 * HOUR_MILLIS);
    assert!(session.fence("a", 3) > second);
    test_file.clock.pass(25 * HOUR_MILLIS);
    for attempt in 0..2_000 {
        session.ask("b", release(attempt));
    }
    assert!(session.fence("a", 4) > second);
}

#[test]
fn sweeps_delete_all_expired_rows_in_bounded_steps() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    for hundred in 0..20_u128 {
        let ids = hundred * 100..hundred * 100 + 100;
        let messages = ids.flat_map(|id| {
            [message(&format!("{id}"), acquire(id)), message("x", release_with_tombstone(id + 100_000, 1_000))]
        });
        session.send(messages.collect()).unwrap();
    }
    assert_eq!((test_file.count("record"), test_file.count("tombstone")), (2_000, 2_000));
    granted(&session.acquire("kept", 1));
    test_file.clock.pass(25 * HOUR_MILLIS);
    granted(&session.acquire("kept", 1));
    for _ in 0..6 {
        let messages = (0..500).map(|id| message("x", release(id)));
        session.send(messages.collect()).unwrap();
    }
    assert_eq!((test_file.count("record"), test_file.count("tombstone")), (1, 0));
    assert!(is_held(&session.acquire("kept", 2)));
}

#[test]
fn all_queued_requests_share_one_transaction_in_order() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("warm", 1));
    let other_connection = test_file.connect();
    other_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = test_file.clock.readings();
    for attempt in 0..50 {
        session.post(vec![message("a", acquire(attempt))]);
        session.post(vec![message("a", release(attempt)), message("warm", acquire(attempt))]);
    }
    other_connection.execute_batch("COMMIT").unwrap();
    for attempt in 0..50 {
        granted(&vote(&session.replies().unwrap()[0]));
        let replies = session.replies().unwrap();
        // The release was granted, so the acquire was executed before it.
        assert_eq!(granted(&vote(&replies[0])), Fence::default());
        assert_eq!(is_held(&vote(&replies[1])), attempt != 1);
    }
    assert_eq!(test_file.clock.readings() - before, 1, "a transaction reads the clock once");
}

#[test]
fn a_locked_file_fails_the_queued_requests_but_not_later_requests() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("a", 1));
    let other_connection = test_file.connect();
    other_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.post(vec![message("a", acquire(2))]);
    session.post(vec![message("b", acquire(2)), message("c", acquire(2))]);
    let (first, second) = (session.replies().unwrap(), session.replies().unwrap());
    assert!(matches!(&first[..], [Reply::Failed(why)] if why.contains("locked")), "{first:?}");
    assert!(matches!(&second[..], [Reply::Failed(_), Reply::Failed(_)]));
    other_connection.execute_batch("COMMIT").unwrap();
    assert!(is_held(&session.acquire("a", 2)));
    granted(&session.acquire("b", 3));

    // A node command has no answer for this error. The session ends, after the replies to earlier requests.
    other_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.post(vec![message("c", acquire(2))]);
    session.session.post(Question::NodeCommand(NodeCommand::Look));
    session.post(vec![message("d", acquire(2))]);
    assert!(matches!(&session.replies().unwrap()[..], [Reply::Failed(_)]));
    assert!(matches!(session.replies(), Err(Trouble::Unreachable(_))));
    other_connection.execute_batch("COMMIT").unwrap();
    let mut session = test_file.session("boot");
    assert!(is_held(&session.acquire("a", 2)));
    granted(&session.acquire("c", 4));
    granted(&session.acquire("d", 4));
}

#[test]
fn no_answer_follows_the_end_of_a_session() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let other_connection = test_file.connect();
    other_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.session.post(Question::NodeCommand(NodeCommand::Look));
    session.post(vec![message("a", acquire(1))]);
    let mut answers = session.session.hang_up();
    let all: Vec<_> = std::iter::from_fn(|| answers.blocking_recv()).collect();
    // The client would take a later reply for the answer to an earlier question.
    assert!(matches!(&all[..], [Answer::End(Trouble::Unreachable(_))]), "{all:?}");
}

#[test]
fn the_thread_of_a_session_ends_with_the_session() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    session.post(vec![message("a", acquire(1))]);
    let clock = Arc::downgrade(&test_file.clock.readings);
    let references = clock.strong_count();
    let mut answers = session.session.hang_up();
    let answer = answers.blocking_recv();
    assert!(
        matches!(&answer, Some(Answer::Votes(replies)) if granted(&vote(&replies[0])) > Fence::default()),
        "{answer:?}"
    );
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while clock.strong_count() == references {
        assert!(std::time::Instant::now() < deadline, "the thread still runs");
        std::thread::yield_now();
    }
}
