use super::What::{Granted, Lost, Released};
use super::*;
use crate::node::event::tests::event;

#[test]
fn a_later_event_gets_a_later_time_although_the_estimate_steps_back() {
    let last_event = LastEventTime::default();
    let times = [7, 9, 8, 8, 20].map(|estimate| last_event.next(estimate));
    assert_eq!(times, [7, 9, 10, 11, 20]);
}

#[test]
fn a_release_is_shown_before_the_next_grant() {
    let event = |at, what, fence, mode: &str| Event {
        id: at,
        at_micros: 1_700_000_000_000_000 + at,
        what,
        fence: Some(Fence::new(fence)),
        mode: mode.into(),
        ..event()
    };
    let other = |at, what, fence| Event { name: Name::new("other").unwrap(), ..event(at, what, fence, "exclusive") };
    let order = |events: &[Event]| -> Vec<u64> { sort(events.to_vec()).iter().map(|event| event.id).collect() };

    // By the estimates of their clients, the first holder released the lock at 20, and the second holder acquired it at
    // 10.
    let (first, second) = (event(20, Released, 1, "exclusive"), event(10, Granted, 2, "reentrant"));
    assert_eq!(order(&[second.clone(), other(15, Granted, 1), first.clone()]), [20, 10, 15]);
    let third = [event(30, Released, 2, "reentrant"), event(25, Granted, 3, "exclusive")];
    assert_eq!(order(&[third.as_slice(), &[first.clone(), second.clone()]].concat()), [20, 10, 30, 25]);

    for (unmoved, why) in [
        (other(20, Released, 1), "an event of another lock"),
        (event(20, Lost, 1, "exclusive"), "a loss, which may be noticed after the next grant"),
        (event(20, Released, 3, "exclusive"), "a release of a later lease than the grant"),
        (event(20, Released, 2, "reentrant"), "a release of the granted lease itself"),
        (event(20, Released, 1, "shared"), "a reader, who may overlap with the next holder"),
        (
            event(ESTIMATES_APART_MAX_MICROS + 11, Released, 1, "exclusive"),
            "a release so much later that no error of the estimates explains it",
        ),
    ] {
        let id = unmoved.id;
        assert_eq!(order(&[second.clone(), unmoved]), [10, id], "{why}");
    }
}
