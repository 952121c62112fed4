//! Which sessions get hints, and which sessions poll for hints.

use quorlock_testkit::eventually;

use super::*;

const FIRST: Ticket = Ticket { at: 1, id: 0xff };
const SECOND: Ticket = Ticket { at: 2, id: 0 };

/// Opens three sessions on one file.
fn three_sessions(test_file: &TestFile) -> [TestListener; 3] {
    [1, 2, 3].map(|channel| test_file.listener(Channel(channel)))
}

/// Waits for the next hint, and returns the ticket in the hint.
fn next_hint(listener: &mut TestListener) -> Ticket {
    let mut hint = None;
    eventually("the session gets a hint", || {
        hint = listener.hints.try_recv().ok();
        hint.is_some()
    });
    hint.unwrap().0
}

/// Waits until a session with waiters has polled often. Another session that polls at all has polled in the meantime
/// too.
fn wait_for_polls(polling: &TestListener) {
    let before = polling.clock.readings();
    eventually("the session polls for hints", || polling.clock.readings() > before + 20);
}

#[test]
fn only_the_session_of_the_first_waiter_gets_a_hint() {
    let test_file = TestFile::new();
    let [mut holder, mut first, mut second] = three_sessions(&test_file);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&second.queue("a", 3, SECOND)));
    assert!(is_held(&first.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(next_hint(&mut first), FIRST);
    granted(&first.queue("a", 2, FIRST));
    wait_for_polls(&second);
    assert_eq!(second.all_hints(), []);
    granted(&first.session.ask("a", release(2)));
    assert_eq!(next_hint(&mut second), SECOND);
    granted(&second.queue("a", 3, SECOND));
    assert_eq!([holder.all_hints(), first.all_hints(), second.all_hints()], [[], [], []]);
}

#[test]
fn a_hint_for_a_waiter_of_the_same_session_is_not_written_to_the_file() {
    let test_file = TestFile::new();
    let mut own_listener = test_file.listener(Channel(1));
    granted(&own_listener.session.acquire("a", 1));
    assert!(is_held(&own_listener.queue("a", 2, FIRST)));
    granted(&own_listener.session.ask("a", release(1)));
    assert_eq!(own_listener.all_hints(), [FIRST]);
    assert_eq!(test_file.count("hint"), 0);
}

#[test]
fn a_session_with_a_never_empty_queue_of_requests_still_gets_hints() {
    let test_file = TestFile::new();
    let [mut holder, mut waiting_listener, _] = three_sessions(&test_file);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting_listener.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    // Always send the next requests before the session has answered the earlier ones.
    for attempt in 0..20_000 {
        waiting_listener.session.post(vec![message("b", acquire(attempt))]);
        if attempt >= 64 {
            waiting_listener.session.replies().unwrap();
        }
        if let Ok((ticket, _)) = waiting_listener.hints.try_recv() {
            assert_eq!(ticket, FIRST);
            return;
        }
    }
    panic!("the session got no hint");
}

#[test]
fn no_hint_is_written_for_a_waiter_without_a_channel() {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    granted(&session.acquire("a", 1));
    let waiter = Waiter { ticket: FIRST, channel: Channel(0), shared: false };
    assert!(is_held(&session.ask("a", acquire_as(2, Mode::EXCLUSIVE, Some(waiter)))));
    granted(&session.ask("a", release(1)));
    assert_eq!(test_file.count("hint"), 0);
}

#[test]
fn only_a_session_with_waiters_polls_for_hints() {
    let test_file = TestFile::new();
    let [mut idle_listener, mut waiting_listener, mut holder] = three_sessions(&test_file);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting_listener.queue("a", 2, FIRST)));
    // The node refuses this request, but the client is not in the queue.
    assert!(is_held(&idle_listener.session.acquire("a", 3)));
    idle_listener.settle();
    let before = idle_listener.clock.readings();
    wait_for_polls(&waiting_listener);
    assert_eq!(idle_listener.clock.readings(), before);
}

#[test]
fn a_session_stops_polling_without_waiters() {
    let test_file = TestFile::new();
    let [mut own_listener, mut other_listener, mut holder] = three_sessions(&test_file);
    granted(&holder.session.acquire("held", 1));
    granted(&holder.session.acquire("a", 1));
    for (attempt, ticket) in [(2, FIRST), (3, SECOND)] {
        assert!(is_held(&own_listener.queue("a", attempt, ticket)));
    }
    // One waiter leaves the queue, and the other waiter gets the vote.
    own_listener.leave("a", 3, SECOND);
    wait_for_polls(&own_listener);
    granted(&holder.session.ask("a", release(1)));
    granted(&own_listener.queue("a", 2, FIRST));
    wait_until_polls_stop(&own_listener.clock, &mut other_listener);
    // A waiter that yields its vote keeps its queue position.
    let yielding = release_with_parting(2, Parting::Yield(own_listener.waiter(FIRST)));
    granted(&own_listener.session.ask("a", yielding));
    wait_for_polls(&own_listener);
    // The queue position expires, because the waiter does not ask again.
    test_file.clock.pass(5_001);
    wait_until_polls_stop(&own_listener.clock, &mut other_listener);
}

#[test]
fn a_dropped_session_with_waiters_stops_polling() {
    let test_file = TestFile::new();
    let [mut own_listener, mut other_listener, mut holder] = three_sessions(&test_file);
    let clock = own_listener.clock.clone();
    granted(&holder.session.acquire("held", 1));
    assert!(is_held(&own_listener.queue("held", 2, FIRST)));
    wait_for_polls(&own_listener);
    drop(own_listener);
    wait_until_polls_stop(&clock, &mut other_listener);
}

/// Waits until the session with the clock `stopping` does not poll while another session polls often.
fn wait_until_polls_stop(stopping: &TestClock, polling: &mut TestListener) {
    eventually("the session stops polling", || {
        let before = stopping.readings();
        assert!(is_held(&polling.queue("held", 9, SECOND)));
        wait_for_polls(polling);
        stopping.readings() == before
    });
}

#[test]
fn a_delivered_hint_is_deleted_by_the_next_request_of_the_session_that_got_it() {
    let test_file = TestFile::new();
    let [mut holder, mut waiting_listener, mut third_listener] = three_sessions(&test_file);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting_listener.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(next_hint(&mut waiting_listener), FIRST);
    third_listener.session.acquire("b", 3);
    waiting_listener.session.ask("b", Request::Inspect);
    assert_eq!(test_file.count("hint"), 1, "the requests of other sessions and inspections delete no hint");
    granted(&waiting_listener.queue("a", 2, FIRST));
    assert_eq!(test_file.count("hint"), 0);
    // The number of the next hint is higher, so no session takes the hint for an old one.
    assert!(is_held(&third_listener.queue("a", 3, SECOND)));
    granted(&waiting_listener.session.ask("a", release(2)));
    assert_eq!(next_hint(&mut third_listener), SECOND);
}

#[test]
fn a_malformed_hint_does_not_prevent_later_hints() {
    let test_file = TestFile::new();
    let [mut holder, mut waiting_listener, _] = three_sessions(&test_file);
    granted(&holder.session.acquire("a", 1));
    let garbage = format!("INSERT INTO hint(channel, ticket, until) VALUES ('{}', 'x', 999999)", Channel(2).digits());
    test_file.connect().execute_batch(&garbage).unwrap();
    assert!(is_held(&waiting_listener.queue("a", 2, FIRST)));
    assert!(is_held(&waiting_listener.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(next_hint(&mut waiting_listener), FIRST);
}
