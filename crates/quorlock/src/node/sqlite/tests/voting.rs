//! Votes, lives and fences.

use quorlock_core::vote::QueuePosition;

use super::*;
use crate::node::Answer;

#[test]
fn two_sessions_see_each_others_votes() {
    let ground = Ground::new();
    let (mut ours, mut theirs) = (ground.session("boot"), ground.session("boot"));
    assert_eq!(ours.known, theirs.known);
    granted(&ours.acquire("a", 1));
    assert!(is_held(&theirs.acquire("a", 2)));
    granted(&theirs.acquire("b", 2));
    granted(&ours.ask("a", release(1)));
    granted(&theirs.acquire("a", 2));
}

#[test]
fn a_refusal_tells_holder_and_time_left() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    let fence = granted(&session.acquire("a", 1));
    ground.clock.pass(10_000);
    let (holder, remaining) = (Some(Holder::new("host", 7, "test")), Some(Duration::from_secs(20)));
    let held = Refusal::Held { holder, remaining, fence, queue: QueuePosition::default() };
    assert_eq!(session.acquire("a", 2), Vote::Refusal(held));
}

#[test]
fn votes_lapse() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("a", 1));
    ground.clock.pass(30_000);
    assert!(is_held(&session.acquire("a", 2)));
    ground.clock.pass(1);
    granted(&session.acquire("a", 2));
}

#[test]
fn a_tombstone_refuses_its_attempt_until_it_lapses() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    session.ask("a", tombstoning(1, 500));
    assert_eq!(session.acquire("a", 1), Vote::Refusal(Refusal::Tombstoned));
    granted(&session.acquire("b", 2));
    ground.clock.pass(501);
    granted(&session.acquire("a", 1));
    session.ask("a", tombstoning(1, u64::MAX));
    ground.clock.pass(1_000 * HOUR_MILLIS);
    assert_eq!(session.acquire("a", 1), Vote::Refusal(Refusal::Tombstoned));
}

#[test]
fn the_same_boot_keeps_votes_over_reopening() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("a", 1));
    let known = session.known.clone();
    drop(session);
    let mut session = ground.session("boot");
    assert_eq!(session.known, known);
    assert!(is_held(&session.acquire("a", 2)));
}

#[test]
fn a_reboot_voids_votes_and_tombstones() {
    let ground = Ground::new();
    let mut session = ground.session("first");
    granted(&session.acquire("a", 1));
    session.ask("b", tombstoning(2, 60_000));
    drop(session);
    let mut session = ground.session("second");
    granted(&session.acquire("a", 3));
    granted(&session.acquire("b", 2));
}

#[test]
fn a_session_of_another_boot_grants_nothing_before_its_hello() {
    let ground = Ground::new();
    let life = ground.session("first").life();
    let mut session = ground.open("second").unwrap();
    let replies = wait(session.send(Some(life), vec![message("a", acquire(1))])).unwrap();
    assert_eq!(vote(&replies[0]), Vote::Refusal(Refusal::WrongEpoch));
}

#[test]
fn fences_grow_over_reboots_that_lose_all_ordinary_rows() {
    let ground = Ground::new();
    let mut last = Fence::default();
    for boot in 0..5_u128 {
        let mut session = ground.session(&format!("boot {boot}"));
        for attempt in 0..3 {
            let fence = session.fence("a", boot * 3 + attempt);
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        drop(session);
        // What a power failure may do: everything but the reserve is as it was before.
        let forget = "DELETE FROM record; DELETE FROM tombstone; UPDATE node SET sure = 0, run = NULL, epoch = NULL";
        ground.other().execute_batch(forget).unwrap();
        // The wall clock need not even get ahead.
        ground.clock.pass(u64::from(boot % 2 == 0) * 1_000);
    }
}

#[test]
fn every_fence_is_below_the_reserve_on_the_disk() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    let other = ground.other();
    for attempt in 0..48 {
        let fence = session.fence("a", attempt);
        let read = |column: &str| {
            other.query_row(&format!("SELECT {column} FROM node"), [], |row| row.get::<_, i64>(0)).unwrap() as u64
        };
        assert!(fence.get() < read("sure") && read("sure") <= read("reserve"));
        assert!(read("reserve") < ground.clock.peek().wall_micros + 3 * HOUR_MILLIS * 1_000, "it runs away");
        ground.clock.pass(HOUR_MILLIS / 3);
    }
}

#[test]
fn a_grant_at_the_reserve_fails_alone() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("a", 1));
    granted(&session.ask("a", release(1)));
    ground.other().execute("UPDATE record SET fence = ?1", [(START_MICROS * 2).cast_signed()]).unwrap();
    let wild = acquire(1);
    let replies = session.send(vec![message("a", wild), message("b", acquire(2))]).unwrap();
    assert!(matches!(&replies[0], Reply::Failed(why) if why.contains("reserve")), "{replies:?}");
    granted(&vote(&replies[1]));
    assert!(session.fence("c", 3).get() < START_MICROS * 2);
}

#[test]
fn an_operators_new_life_keeps_votes_and_lifts_the_floor() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
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
fn the_end_of_a_quarantine_lifts_the_floor_over_the_reserve() {
    let ground = Ground::new();
    let fence = ground.session("first").fence("a", 1);
    let mut session = ground.open("second").unwrap();
    let epoch = Epoch(5);
    let mut node_command = |node_command| wait(session.node_command(node_command)).unwrap();
    let (identity, founders) = (Identity::of_run("second"), String::new());
    let life = node_command(NodeCommand::Hello {
        identity,
        fresh: epoch,
        constants: constants(),
        founders,
        trust: Trust::Quarantine,
    });
    assert_eq!(life.life.unwrap().floor, None);
    let over = node_command(NodeCommand::Claim { epoch, elapsed_micros: 66_000_000 });
    assert!(over.accepted && over.life.unwrap().floor.unwrap() > fence);
}

#[test]
fn a_fence_ahead_of_the_clock_is_not_forgotten() {
    let ground = Ground::new();
    drop(ground.session("first"));
    // A machine whose clock was right once and now starts years behind.
    ground.other().execute("UPDATE node SET reserve = reserve + 100000000000000", []).unwrap();
    let mut session = ground.session("second");
    let (first, second) = (session.fence("a", 1), session.fence("a", 2));
    assert!(second > first && first.get() > START_MICROS + 100_000_000_000_000);
    ground.clock.pass(25 * HOUR_MILLIS);
    assert!(session.fence("a", 3) > second);
    ground.clock.pass(25 * HOUR_MILLIS);
    for attempt in 0..2_000 {
        session.ask("b", release(attempt));
    }
    assert!(session.fence("a", 4) > second);
}

#[test]
fn what_has_lapsed_is_removed_in_bounded_steps() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    for hundred in 0..20_u128 {
        let ids = hundred * 100..hundred * 100 + 100;
        let messages =
            ids.flat_map(|id| [message(&format!("{id}"), acquire(id)), message("x", tombstoning(id + 100_000, 1_000))]);
        session.send(messages.collect()).unwrap();
    }
    assert_eq!((ground.count("record"), ground.count("tombstone")), (2_000, 2_000));
    granted(&session.acquire("kept", 1));
    ground.clock.pass(25 * HOUR_MILLIS);
    granted(&session.acquire("kept", 1));
    for _ in 0..6 {
        let messages = (0..500).map(|id| message("x", release(id)));
        session.send(messages.collect()).unwrap();
    }
    assert_eq!((ground.count("record"), ground.count("tombstone")), (1, 0));
    assert!(is_held(&session.acquire("kept", 2)));
}

#[test]
fn all_that_has_queued_up_goes_into_one_commit_in_order() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("warm", 1));
    let other = ground.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = ground.clock.readings();
    for attempt in 0..50 {
        session.post(vec![message("a", acquire(attempt))]);
        session.post(vec![message("a", release(attempt)), message("warm", acquire(attempt))]);
    }
    other.execute_batch("COMMIT").unwrap();
    for attempt in 0..50 {
        granted(&vote(&session.replies().unwrap()[0]));
        let replies = session.replies().unwrap();
        // The acquire went first: there was a vote to take back.
        assert_eq!(granted(&vote(&replies[0])), Fence::default());
        assert_eq!(is_held(&vote(&replies[1])), attempt != 1);
    }
    assert_eq!(ground.clock.readings() - before, 1, "one transaction reads the clock once");
}

#[test]
fn a_file_that_stays_locked_fails_everything_that_waits_and_nothing_else() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("a", 1));
    let other = ground.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.post(vec![message("a", acquire(2))]);
    session.post(vec![message("b", acquire(2)), message("c", acquire(2))]);
    let (first, second) = (session.replies().unwrap(), session.replies().unwrap());
    assert!(matches!(&first[..], [Reply::Failed(why)] if why.contains("locked")), "{first:?}");
    assert!(matches!(&second[..], [Reply::Failed(_), Reply::Failed(_)]));
    other.execute_batch("COMMIT").unwrap();
    assert!(is_held(&session.acquire("a", 2)));
    granted(&session.acquire("b", 3));

    // There is no such answer to a node command: it ends the session, behind the replies that were due before.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.post(vec![message("c", acquire(2))]);
    session.session.post(Question::NodeCommand(NodeCommand::Look));
    session.post(vec![message("d", acquire(2))]);
    assert!(matches!(&session.replies().unwrap()[..], [Reply::Failed(_)]));
    assert!(matches!(session.replies(), Err(Trouble::Unreachable(_))));
    other.execute_batch("COMMIT").unwrap();
    let mut session = ground.session("boot");
    assert!(is_held(&session.acquire("a", 2)));
    granted(&session.acquire("c", 4));
    granted(&session.acquire("d", 4));
}

#[test]
fn nothing_comes_after_the_end() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    let other = ground.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.session.post(Question::NodeCommand(NodeCommand::Look));
    session.post(vec![message("a", acquire(1))]);
    let mut answers = session.session.hang_up();
    let all: Vec<_> = std::iter::from_fn(|| answers.blocking_recv()).collect();
    // A reply now would be taken for the answer to a question that has none.
    assert!(matches!(&all[..], [Answer::End(Trouble::Unreachable(_))]), "{all:?}");
}

#[test]
fn the_thread_ends_with_its_session() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    session.post(vec![message("a", acquire(1))]);
    let held = Arc::downgrade(&ground.clock.read);
    let ours = held.strong_count();
    let mut answers = session.session.hang_up();
    let answer = answers.blocking_recv();
    assert!(
        matches!(&answer, Some(Answer::Votes(replies)) if granted(&vote(&replies[0])) > Fence::default()),
        "{answer:?}"
    );
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while held.strong_count() == ours {
        assert!(std::time::Instant::now() < deadline, "it still runs");
        std::thread::yield_now();
    }
}
