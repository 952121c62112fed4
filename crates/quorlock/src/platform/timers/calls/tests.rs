use std::sync::Arc;

use super::*;

struct Nobody;

impl Timed for Nobody {
    fn tick(self: Arc<Self>, _now: Moment) -> Option<Moment> {
        None
    }
}

fn add(calls: &mut Calls, at: u64, whom: &Arc<Nobody>) -> Call {
    let whom: Weak<Nobody> = Arc::downgrade(whom);
    calls.add(Moment::from_nanos(at), whom)
}

#[test]
fn a_call_that_is_cancelled_does_not_come_and_keeps_nothing() {
    let (mut calls, whom) = (Calls::default(), Arc::new(Nobody));
    let first = add(&mut calls, 1, &whom);
    add(&mut calls, 2, &whom);
    assert!(calls.cancel(first).is_some());
    assert_eq!((Arc::weak_count(&whom), calls.next()), (1, Some(Moment::from_nanos(2))));
    add(&mut calls, 3, &whom);
    assert!(calls.cancel(first).is_none());
    assert_eq!(Arc::weak_count(&whom), 2);
    for expected in [2, 3] {
        assert_eq!(calls.next(), Some(Moment::from_nanos(expected)));
        assert!(calls.take_due(Moment::from_nanos(expected - 1)).is_none());
        assert!(calls.take_due(Moment::from_nanos(expected)).is_some());
    }
    assert!(calls.next().is_none() && calls.take_due(Moment::from_nanos(9)).is_none());
}

#[test]
fn calls_of_the_same_moment_come_in_the_order_of_asking() {
    let mut calls = Calls::default();
    let all: Vec<_> = (0..50).map(|_| Arc::new(Nobody)).collect();
    let before: Vec<Call> = all.iter().map(|whom| add(&mut calls, 7, whom)).collect();
    for call in before {
        calls.cancel(call);
    }
    for whom in &all {
        add(&mut calls, 7, whom);
    }
    for expected in &all {
        let expected: Weak<dyn Timed> = Arc::downgrade(expected) as Weak<Nobody>;
        let called = calls.take_due(Moment::from_nanos(7)).unwrap();
        assert!(called.ptr_eq(&expected));
    }
}

#[test]
fn nobody_wakes_up_for_those_who_are_gone() {
    let (mut calls, alive) = (Calls::default(), Arc::new(Nobody));
    for at in 1..10 {
        add(&mut calls, at, &Arc::new(Nobody));
    }
    add(&mut calls, 20, &alive);
    assert_eq!(calls.next(), Some(Moment::from_nanos(20)));
    assert_eq!(calls.queue.len(), 1);
    drop(alive);
    assert!(calls.next().is_none());
}

#[test]
fn those_who_are_gone_take_no_room() {
    let (mut calls, alive) = (Calls::default(), Arc::new(Nobody));
    add(&mut calls, 1_000_000, &alive);
    for at in 0..100_000 {
        let call = add(&mut calls, at, &Arc::new(Nobody));
        if at % 2 == 0 {
            calls.cancel(call);
        }
    }
    assert!(calls.queue.len() <= SWEEP_MIN + 4, "{}", calls.queue.len());
    assert_eq!(calls.take_all().iter().filter(|whom| whom.strong_count() > 0).count(), 1);
}
