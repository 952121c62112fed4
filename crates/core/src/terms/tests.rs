use super::*;

const OWNER: OwnerId = OwnerId::from_bits(0xfe);

#[test]
fn a_period_is_begun_by_its_mode() {
    let periods = [
        (Mode::EXCLUSIVE, Period::Exclusive),
        (Mode::Exclusive { writer: Some(OWNER) }, Period::Exclusive),
        (Mode::Reentrant { owner: OWNER }, Period::Reentrant(OWNER)),
        (Mode::Shared { owner: OWNER, reenters: false }, Period::Shared),
        (Mode::Slot { permits: 3, slot: 1 }, Period::Slots(3)),
    ];
    for (mode, period) in periods {
        assert_eq!(Period::begun_by(mode), period);
    }
}

#[test]
fn only_readers_wait_side_by_side_but_slots_are_held_together_too() {
    let kinds = [
        (Mode::EXCLUSIVE, false, false),
        (Mode::Reentrant { owner: OWNER }, false, false),
        (Mode::Shared { owner: OWNER, reenters: false }, true, true),
        (Mode::Slot { permits: 3, slot: 1 }, false, true),
    ];
    for (mode, shared, among_others) in kinds {
        assert_eq!((mode.is_shared(), mode.is_among_others()), (shared, among_others), "{mode:?}");
    }
}

#[test]
fn a_period_is_read_as_it_was_written() {
    for period in
        [Period::Exclusive, Period::Reentrant(OwnerId::from_bits(7)), Period::Shared, Period::Slots(PERMITS_MAX)]
    {
        let text = period.reveal();
        assert!(text.starts_with(period.as_str()));
        assert_eq!(Period::parse(&text), Some(period));
    }
    for text in ["", "exclusive 1", "shared ", "reentrant", "reentrant x", "slots", "slots -1", "slot"] {
        assert_eq!(Period::parse(text), None, "{text:?}");
    }
}
