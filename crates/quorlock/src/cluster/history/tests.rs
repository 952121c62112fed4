use super::What::{Granted, Lost, Released};
use super::*;
use crate::node::event::tests::event;

#[test]
fn what_comes_later_is_later_whatever_the_clocks_say() {
    let chronicle = Chronicle::default();
    let told = [7, 9, 8, 8, 20].map(|at| chronicle.after_the_last(at));
    assert_eq!(told, [7, 9, 10, 11, 20]);
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
    let order = |events: &[Event]| -> Vec<u64> { in_order(events.to_vec()).iter().map(|event| event.id).collect() };

    // By its client's clock the first holder let go when the second had it.
    let (first, second) = (event(20, Released, 1, "exclusive"), event(10, Granted, 2, "reentrant"));
    assert_eq!(order(&[second.clone(), other(15, Granted, 1), first.clone()]), [20, 10, 15]);
    let third = [event(30, Released, 2, "reentrant"), event(25, Granted, 3, "exclusive")];
    assert_eq!(order(&[third.as_slice(), &[first.clone(), second.clone()]].concat()), [20, 10, 30, 25]);

    for (stands, why) in [
        (other(20, Released, 1), "it is another lock"),
        (event(20, Lost, 1, "exclusive"), "a loss is noticed when it is noticed"),
        (event(20, Released, 3, "exclusive"), "it was granted after that"),
        (event(20, Released, 2, "reentrant"), "it is its own grant"),
        (event(20, Released, 1, "shared"), "readers overlap"),
        (event(CLOCKS_APART_MICROS + 11, Released, 1, "exclusive"), "no clocks are so far apart"),
    ] {
        let id = stands.id;
        assert_eq!(order(&[second.clone(), stands]), [10, id], "{why}");
    }
}
