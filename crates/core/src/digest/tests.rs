use super::*;

const SIGNATURE: LeaseId = LeaseId::from_bits(0xa);

#[test]
fn a_digest_is_the_start_of_the_hash_of_the_stored_signature() {
    // printf 0000000000000000000000000000000a | sha1sum
    assert_eq!(Digest::of(SIGNATURE).digits(), "6fc6e02fa5b4880f");
}

#[test]
fn a_break_does_not_change_the_digest_of_a_vote() {
    let digest = Digest::of(SIGNATURE);
    assert_ne!(digest.broken_signature(), SIGNATURE);
    assert_eq!(Digest::of(digest.broken_signature()), digest);
    assert_eq!(
        (Digest::from_broken_signature(digest.broken_signature()), Digest::from_broken_signature(SIGNATURE)),
        (Some(digest), None)
    );
}

#[test]
fn parse_accepts_only_the_text_of_a_digest() {
    let digest = Digest::of(SIGNATURE);
    assert_eq!(Digest::parse(&digest.digits()), Some(digest));
    for wrong in ["", "0", "00000000000000000", "000000000000000G", "000000000000000A"] {
        assert_eq!(Digest::parse(wrong), None, "{wrong}");
    }
}
