use super::*;

const OWNER: OwnerId = OwnerId::from_bits(0xfe);

#[test]
fn each_mode_begins_its_own_held_mode() {
    let modes = [
        (Mode::EXCLUSIVE, HeldMode::Exclusive),
        (Mode::Exclusive { writer: Some(OWNER) }, HeldMode::Exclusive),
        (Mode::Reentrant { owner: OWNER }, HeldMode::Reentrant(OWNER)),
        (Mode::Shared { owner: OWNER, reenters: false }, HeldMode::Shared),
        (Mode::Slot { permits: 3, slot: 1 }, HeldMode::Slots(3)),
    ];
    for (mode, held_mode) in modes {
        assert_eq!(HeldMode::of(mode), held_mode);
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
fn parse_accepts_only_the_text_of_a_held_mode() {
    for held_mode in [
        HeldMode::Exclusive,
        HeldMode::Reentrant(OwnerId::from_bits(7)),
        HeldMode::Shared,
        HeldMode::Slots(PERMITS_MAX),
    ] {
        let text = held_mode.reveal();
        assert!(text.starts_with(held_mode.as_str()));
        assert_eq!(HeldMode::parse(&text), Some(held_mode));
    }
    for text in ["", "exclusive 1", "shared ", "reentrant", "reentrant x", "slots", "slots -1", "slot"] {
        assert_eq!(HeldMode::parse(text), None, "{text:?}");
    }
}
