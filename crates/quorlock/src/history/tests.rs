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
