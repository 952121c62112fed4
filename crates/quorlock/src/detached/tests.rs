use proptest::prelude::*;
use quorlock_core::name::OwnerId;
use quorlock_core::time::TTL_MAX;

use super::*;

fn lease(name: &str, mode: Mode, fence: Option<u64>) -> DetachedLease {
    DetachedLease {
        name: Name::new(name).unwrap(),
        id: LeaseId::from_bits(0x1234),
        fence: fence.map(Fence::new),
        ttl: Ttl::new(Duration::from_secs(30), TTL_MAX).unwrap(),
        mode,
        holder: Holder::new("db-3", 4121, "backup.sh \"x\" | y").encode().into(),
    }
}

fn leases() -> Vec<DetachedLease> {
    let owner = OwnerId::from_bits(0x5ec);
    let modes = [
        Mode::EXCLUSIVE,
        Mode::Exclusive { writer: Some(owner) },
        Mode::Reentrant { owner },
        Mode::Shared { owner, reenters: false },
        Mode::Slot { permits: 3, slot: 2 },
    ];
    let fenced = modes.into_iter().map(|mode| lease("invoices/42", mode, Some(1_700_000_000_123_456)));
    fenced.chain([lease("invoices/42", Mode::EXCLUSIVE, None)]).collect()
}

#[test]
fn a_lease_of_any_mode_is_read_as_it_was_written() {
    for lease in leases() {
        let text = lease.reveal();
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_/:%".contains(&b)), "{text}");
        assert_eq!(text.parse(), Ok(lease.clone()));
        assert_eq!(format!(" {text}\n").parse(), Ok(lease), "blanks around the text are ignored");
    }
}

#[test]
fn the_longest_text_of_a_lease_is_not_longer_than_text_bytes_max() {
    let mode = Mode::Shared { owner: OwnerId::from_bits(u128::MAX), reenters: false };
    let mut longest = lease(&"\u{1}".repeat(512), mode, Some(u64::MAX));
    longest.holder = Holder::new(&"\u{1}".repeat(1_000), u32::MAX, &"\u{1}".repeat(1_000)).encode().into();
    let text = longest.reveal();
    assert!(text.len() <= DetachedLease::TEXT_BYTES_MAX, "{}", text.len());
    assert_eq!(text.parse(), Ok(longest));
}

#[test]
fn people_can_read_the_name_in_the_text_of_a_lease() {
    assert!(leases()[0].reveal().starts_with("q1.invoices/42."));
}

#[test]
fn display_and_debug_do_not_show_the_secrets_of_a_lease() {
    for lease in leases() {
        let shown = format!("{lease} {lease:?}");
        assert!(shown.contains("invoices/42"), "{shown}");
        assert!(!shown.contains(&lease.id.reveal()) && !shown.contains("5ec"), "{shown}");
    }
}

#[test]
fn the_errors_distinguish_foreign_texts_from_truncated_leases() {
    let text = leases()[0].reveal();
    let error_of = |text: &str| text.parse::<DetachedLease>().unwrap_err();
    assert_eq!(error_of(""), LeaseTextError::Empty);
    assert_eq!(error_of(" \n"), LeaseTextError::Empty);
    for foreign in ["deploy", "q", "q.x", "qx.1", "Q1.deploy", "\u{9501}", &text[1..], "-"] {
        assert_eq!(error_of(foreign), LeaseTextError::Foreign, "{foreign}");
    }
    assert_eq!(error_of(&text.replacen("q1", "q2", 1)), LeaseTextError::Version);
    for end in 3..text.len() {
        assert_eq!(error_of(&text[..end]), LeaseTextError::Garbled, "{end}");
    }
    assert_eq!(error_of(&format!("{text}{text}")), LeaseTextError::Garbled);
    assert_eq!(error_of(&format!("{text}0")), LeaseTextError::Garbled);
    assert_eq!(error_of(&format!("q1.{}", "a".repeat(1_000_000))), LeaseTextError::Garbled);
}

#[test]
fn a_text_with_a_correct_checksum_and_invalid_parts_is_garbled() {
    let text = leases()[0].reveal();
    let (body, _) = text.rsplit_once('.').unwrap();
    for (old, new) in [
        (".invoices/42.", ".."),
        (".invoices/42.", ".%zz."),
        (".invoices/42.", ".%ff."),
        (".30000.", ".99."),
        (".30000.", ".+30000."),
        (".30000.", ".99999999999999999999."),
        (".x.", ".y."),
        (".x.", ".k:3/3."),
        (".x.", ".k:0/1025."),
        (".x.", ".r:5ec."),
        (".1700000000123456.30000.x.", ".-.30000.k:0/1."),
        (".4121%20db-3", ".db-3"),
    ] {
        let changed = body.replacen(old, new, 1);
        assert_ne!(changed, body, "{old}");
        let with_checksum = format!("{changed}.{}", text::checksum(&changed));
        assert_eq!(with_checksum.parse::<DetachedLease>(), Err(LeaseTextError::Garbled), "{old} -> {new}");
    }
}

proptest! {
    #[test]
    fn a_lease_with_any_name_and_label_is_read_as_it_was_written(
        name in "\\PC{1,100}|[\\x00-\\x7f]{1,100}",
        label in "\\PC{0,40}",
    ) {
        let lease = DetachedLease {
            holder: Holder::new("h\u{e4}st", 1, &label).encode().into(),
            ..lease(&name, Mode::EXCLUSIVE, Some(1))
        };
        prop_assert_eq!(lease.reveal().parse(), Ok(lease));
    }

    #[test]
    fn a_single_wrong_character_is_detected(at in any::<prop::sample::Index>(), letter in "[0-9a-z.%:/-]") {
        let text = leases()[2].reveal();
        let at = at.index(text.len());
        let changed = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
        prop_assume!(changed != text);
        prop_assert!(changed.parse::<DetachedLease>().is_err());
    }
}
