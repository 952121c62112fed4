use super::What::{Granted, Lost, Released};
use super::*;

fn event() -> Event {
    Event {
        id: u64::MAX,
        at_micros: 1_700_000_000_123_456,
        name: Name::new("a b\u{9501}").unwrap(),
        what: What::Broken,
        fence: Some(Fence::new(7)),
        holder: Some(Holder::new("host", 1, "a label")),
        mode: "drain".into(),
        reason: String::new(),
    }
}

fn read(values: &[String; FIELDS.len()]) -> Option<Event> {
    Event::read(|wanted| FIELDS.iter().position(|field| *field == wanted).map(|at| values[at].clone()))
}

#[test]
fn what_comes_later_is_later_whatever_the_clocks_say() {
    let chronicle = Chronicle::default();
    let told = [7, 9, 8, 8, 20].map(|at| chronicle.after_the_last(at));
    assert_eq!(told, [7, 9, 10, 11, 20]);
}

#[test]
fn an_event_is_read_as_it_was_written() {
    let plain = Event { fence: None, holder: None, what: What::Lost, reason: "why".into(), ..event() };
    for event in [event(), plain] {
        assert_eq!(read(&event.values()), Some(event));
    }
}

#[test]
fn what_nobody_wrote_is_no_event() {
    for (at, wrong) in [(0, "xyz"), (1, ""), (2, ""), (3, "eaten"), (4, "-1")] {
        let mut values = event().values();
        values[at] = wrong.into();
        assert_eq!(read(&values), None, "{}: {wrong}", FIELDS[at]);
    }
    assert_eq!(Event::read(|_| None), None);
}

#[test]
fn a_reason_is_one_line_of_bounded_length() {
    let reason = event().because(&format!("two\nlines{}", "\u{9501}".repeat(REASON_BYTES_MAX))).reason;
    assert!(reason.starts_with("two lines\u{9501}") && reason.len() <= REASON_BYTES_MAX, "{reason}");
}

#[test]
fn a_lock_is_let_go_before_it_is_granted_again() {
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
