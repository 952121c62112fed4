use super::*;

const OWNER: OwnerId = OwnerId::from_bits(0xfe);

#[test]
fn each_mode_begins_its_own_period() {
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
fn several_readers_may_enter_at_once_and_several_holders_may_share_slots() {
    let modes = [
        (Mode::EXCLUSIVE, false, false),
        (Mode::Reentrant { owner: OWNER }, false, false),
        (Mode::Shared { owner: OWNER, reenters: false }, true, true),
        (Mode::Slot { permits: 3, slot: 1 }, false, true),
    ];
    for (mode, shared, several_holders) in modes {
        assert_eq!((mode.is_shared(), mode.allows_several_holders()), (shared, several_holders), "{mode:?}");
    }
}

#[test]
fn parse_accepts_only_the_text_of_a_period() {
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
