use super::*;

const SIGNED: LeaseId = LeaseId::from_bits(0xa);

#[test]
fn it_begins_like_the_hash_of_what_is_stored() {
    // printf 0000000000000000000000000000000a | sha1sum
    assert_eq!(Digest::of(SIGNED).digits(), "6fc6e02fa5b4880f");
}

#[test]
fn a_broken_vote_has_the_digest_that_it_had() {
    let digest = Digest::of(SIGNED);
    assert_ne!(digest.signature(), SIGNED);
    assert_eq!(Digest::of(digest.signature()), digest);
    assert_eq!((Digest::of_broken(digest.signature()), Digest::of_broken(SIGNED)), (Some(digest), None));
}

#[test]
fn it_is_read_as_it_is_written() {
    let digest = Digest::of(SIGNED);
    assert_eq!(Digest::parse(&digest.digits()), Some(digest));
    for wrong in ["", "0", "00000000000000000", "000000000000000G", "000000000000000A"] {
        assert_eq!(Digest::parse(wrong), None, "{wrong}");
    }
}
