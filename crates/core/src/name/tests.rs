use super::*;
use alloc::format;

#[test]
fn a_name_is_1_to_512_bytes_of_utf8() {
    assert_eq!(Name::new(""), Err(NameError::Empty));
    assert!(Name::new(&"é".repeat(256)).is_ok());
    assert_eq!(Name::new(&"é".repeat(257)), Err(NameError::TooLong { bytes: 514 }));
}

#[test]
fn debug_hides_a_lease_id_and_parse_accepts_only_its_revealed_text() {
    let id = LeaseId::from_bits(0x2a);
    assert_eq!(format!("{id:?}"), "LeaseId(secret)");
    assert_eq!(LeaseId::parse(&id.reveal()), Some(id));
    for wrong in ["", "2a", "0000000000000000000000000000002A", "+000000000000000000000000000002a"] {
        assert_eq!(LeaseId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn decode_returns_the_encoded_holder_and_rejects_other_text() {
    for (host, label) in [("db-3", "backup.sh nightly"), ("db-3", ""), ("two words", "tab\there"), ("", "x")] {
        let holder = Holder::new(host, 4121, label);
        assert_eq!(Holder::decode(&holder.encode()), Some(holder));
    }
    for wrong in ["", "x y z", "1", "1 ", "1 h"] {
        assert_eq!(Holder::decode(wrong), None, "{wrong:?}");
    }
}

#[test]
fn long_labels_are_cut_between_characters() {
    let holder = Holder::new("h", 1, &"ü".repeat(200));
    assert_eq!(holder.label.len(), LABEL_BYTES_MAX);
}

#[test]
fn the_text_of_another_program_contains_the_type_of_its_key() {
    let holder = Holder::of_other_program("hash");
    assert_eq!(holder.to_string(), "another program (key type hash)");
    assert!(holder.is_other_program() && !Holder::new("db-3", 4121, "").is_other_program());
}

#[test]
fn debug_hides_an_owner_id_and_parse_accepts_only_its_revealed_text() {
    let owner = OwnerId::from_bits(0xfe);
    assert_eq!(owner.reveal(), "000000000000000000000000000000fe");
    assert_eq!(OwnerId::parse(&owner.reveal()), Some(owner));
    for text in ["", "fe", "000000000000000000000000000000FE", "+00000000000000000000000000000fe"] {
        assert_eq!(OwnerId::parse(text), None, "{text}");
    }
    let shown = alloc::format!("{:?} {:?}", owner, crate::terms::Mode::Reentrant { owner });
    assert!(!shown.contains("fe}") && !shown.contains("254"), "{shown}");
}
