//! Hints: who hears them, and who looks for them.

use quorlock_testkit::eventually;

use super::*;

const FIRST: Ticket = Ticket { at: 1, id: 0xff };
const SECOND: Ticket = Ticket { at: 2, id: 0 };

/// Three sessions on one file.
fn three(ground: &Ground) -> [Listening; 3] {
    [1, 2, 3].map(|channel| ground.listener(Channel(channel)))
}

fn hears(listening: &mut Listening) -> Ticket {
    let mut heard = None;
    eventually("a hint", || {
        heard = listening.heard.try_recv().ok();
        heard.is_some()
    });
    heard.unwrap().0
}

/// Waits until a session that has waiters has looked so often that any other would have looked as well.
fn let_it_look(watching: &Listening) {
    let before = watching.clock.readings();
    eventually("it looks for hints", || watching.clock.readings() > before + 20);
}

#[test]
fn a_hint_crosses_to_the_first_in_queue_and_to_nobody_else() {
    let ground = Ground::new();
    let [mut holder, mut first, mut second] = three(&ground);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&second.queue("a", 3, SECOND)));
    assert!(is_held(&first.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(hears(&mut first), FIRST);
    granted(&first.queue("a", 2, FIRST));
    let_it_look(&second);
    assert_eq!(second.all_heard(), []);
    granted(&first.session.ask("a", release(2)));
    assert_eq!(hears(&mut second), SECOND);
    granted(&second.queue("a", 3, SECOND));
    assert_eq!([holder.all_heard(), first.all_heard(), second.all_heard()], [[], [], []]);
}

#[test]
fn a_hint_for_ones_own_waiter_is_told_without_the_file() {
    let ground = Ground::new();
    let mut ours = ground.listener(Channel(1));
    granted(&ours.session.acquire("a", 1));
    assert!(is_held(&ours.queue("a", 2, FIRST)));
    granted(&ours.session.ask("a", release(1)));
    assert_eq!(ours.all_heard(), [FIRST]);
    assert_eq!(ground.count("hint"), 0);
}

#[test]
fn a_hint_is_heard_although_the_session_never_rests() {
    let ground = Ground::new();
    let [mut holder, mut waiting, _] = three(&ground);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    // There is always more to do, so it never gets to wait for work.
    for attempt in 0..20_000 {
        waiting.session.post(vec![message("b", acquire(attempt))]);
        if attempt >= 64 {
            waiting.session.replies().unwrap();
        }
        if let Ok((ticket, _)) = waiting.heard.try_recv() {
            assert_eq!(ticket, FIRST);
            return;
        }
    }
    panic!("it heard nothing");
}

#[test]
fn nobody_is_hinted_where_nobody_listens() {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    granted(&session.acquire("a", 1));
    let waiter = Waiter { ticket: FIRST, channel: Channel(0), shared: false };
    assert!(is_held(&session.ask("a", asking(2, Mode::EXCLUSIVE, Some(waiter)))));
    granted(&session.ask("a", release(1)));
    assert_eq!(ground.count("hint"), 0);
}

#[test]
fn only_a_session_with_waiters_looks_for_hints() {
    let ground = Ground::new();
    let [mut idle, mut waiting, mut holder] = three(&ground);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting.queue("a", 2, FIRST)));
    // Refused, but not in the queue.
    assert!(is_held(&idle.session.acquire("a", 3)));
    idle.settle();
    let before = idle.clock.readings();
    let_it_look(&waiting);
    assert_eq!(idle.clock.readings(), before);
}

#[test]
fn a_session_stops_looking_with_its_last_waiter() {
    let ground = Ground::new();
    let [mut ours, mut others, mut holder] = three(&ground);
    granted(&holder.session.acquire("held", 1));
    granted(&holder.session.acquire("a", 1));
    for (attempt, ticket) in [(2, FIRST), (3, SECOND)] {
        assert!(is_held(&ours.queue("a", attempt, ticket)));
    }
    // One has left, one is granted.
    ours.leave("a", 3, SECOND);
    let_it_look(&ours);
    granted(&holder.session.ask("a", release(1)));
    granted(&ours.queue("a", 2, FIRST));
    let_it_look_no_more(&ours.clock, &mut others);
    // Yielded votes keep their place.
    let yielding = parting(2, Parting::Yield(ours.waiter(FIRST)));
    granted(&ours.session.ask("a", yielding));
    let_it_look(&ours);
    // A place that nobody asked for again has lapsed.
    ground.clock.pass(5_001);
    let_it_look_no_more(&ours.clock, &mut others);
}

#[test]
fn a_session_that_is_gone_looks_no_more_although_it_had_waiters() {
    let ground = Ground::new();
    let [mut ours, mut others, mut holder] = three(&ground);
    let clock = ours.clock.clone();
    granted(&holder.session.acquire("held", 1));
    assert!(is_held(&ours.queue("held", 2, FIRST)));
    let_it_look(&ours);
    drop(ours);
    let_it_look_no_more(&clock, &mut others);
}

/// Waits until a session has not looked for as long as another, that waits, has looked often.
fn let_it_look_no_more(ours: &Hands, others: &mut Listening) {
    eventually("it looks no more", || {
        let before = ours.readings();
        assert!(is_held(&others.queue("held", 9, SECOND)));
        let_it_look(others);
        ours.readings() == before
    });
}

#[test]
fn what_was_heard_is_removed_by_its_owners_next_request() {
    let ground = Ground::new();
    let [mut holder, mut waiting, mut third] = three(&ground);
    granted(&holder.session.acquire("a", 1));
    assert!(is_held(&waiting.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(hears(&mut waiting), FIRST);
    third.session.acquire("b", 3);
    waiting.session.ask("b", Request::Inspect);
    assert_eq!(ground.count("hint"), 1, "a hint was taken away by another, or by a look");
    granted(&waiting.queue("a", 2, FIRST));
    assert_eq!(ground.count("hint"), 0);
    // The numbers go on, so that nothing is taken for read.
    assert!(is_held(&third.queue("a", 3, SECOND)));
    granted(&waiting.session.ask("a", release(2)));
    assert_eq!(hears(&mut third), SECOND);
}

#[test]
fn a_hint_that_cannot_be_read_costs_nothing_but_the_hint() {
    let ground = Ground::new();
    let [mut holder, mut waiting, _] = three(&ground);
    granted(&holder.session.acquire("a", 1));
    let garbage = format!("INSERT INTO hint(channel, ticket, until) VALUES ('{}', 'x', 999999)", Channel(2).digits());
    ground.other().execute_batch(&garbage).unwrap();
    assert!(is_held(&waiting.queue("a", 2, FIRST)));
    assert!(is_held(&waiting.queue("a", 2, FIRST)));
    granted(&holder.session.ask("a", release(1)));
    assert_eq!(hears(&mut waiting), FIRST);
}
