use super::*;

/// Every attempt by a party of its own, none of which is `OWNER`.
fn read(attempt: LeaseId, proposal: u64) -> Request {
    let party = OwnerId::parse(&attempt.reveal().replace('0', "f")).unwrap();
    acquire_as(reads(party), attempt, proposal, None)
}

/// `A` reads since `T`, with the clock as its fence, and `B` since half a second later, with the next one.
fn read_by_two() -> Node {
    let mut node = Node::new();
    node.grants(T, &acquire_as(reads(OWNER), A, CLOCK, None));
    node.grants(T + 500, &read(B, CLOCK));
    node
}

#[test]
fn a_reader_joins_readers_with_a_fence_of_its_own() {
    let mut node = read_by_two();
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_500)]);
    assert_eq!((node.vote(), node.fence()), (Some((A, T + 1_500)), Some(CLOCK + 1)));
    assert_eq!(node.ask(T + 500, &read(C, CLOCK + 9)), granted(CLOCK + 9));
}

#[test]
fn a_writer_waits_for_the_last_reader() {
    let mut node = read_by_two();
    let write = acquire_as(Mode::EXCLUSIVE, C, CLOCK, None);
    assert_eq!(node.ask(T + 500, &write), held_by(Some(holder(B)), 1_000, CLOCK + 1));
    node.ask(T + 500, &release(A));
    assert_eq!(node.ask(T + 500, &write), held_by(Some(holder(B)), 1_000, CLOCK + 1));
    assert_eq!(node.ask(T + 1_501, &write), granted(CLOCK + 2), "a reader that died is gone at its own expiry");
    assert_eq!(node.record.vote.as_ref().unwrap().period, Period::Exclusive);
}

#[test]
fn readers_wait_for_a_writer() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T, &read(B, CLOCK)), held_by(Some(holder(A)), 1_000, CLOCK));
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &read(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn the_others_are_kept_out_while_somebody_reads() {
    for mode in [enters(OwnerId::from_bits(0xabc)), slot(2, 0)] {
        let refused = read_by_two().ask(T + 500, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{mode:?}: {refused:?}");
    }
    let taken = read_by_two().ask(T + 500, &Request::PlainAcquire { attempt: C, ttl: ttl(1_000) });
    assert!(matches!(taken, Vote::Refusal(Refusal::Held { .. })));
}

#[test]
fn plain_requests_do_not_touch_a_vote_that_is_shared() {
    let mut node = read_by_two();
    let before = node.record.clone();
    for request in [Request::PlainExtend { attempt: A, ttl: ttl(9_000) }, Request::PlainRelease { attempt: A }] {
        assert_eq!(node.ask(T + 500, &request), Vote::Refusal(Refusal::Absent));
    }
    assert_eq!(node.record, before);
}

#[test]
fn a_reader_cannot_write() {
    for alone in [writes(OWNER), enters(OWNER)] {
        let mut node = read_by_two();
        assert_eq!(node.ask(T, &acquire_as(alone, C, CLOCK, None)), Vote::Refusal(Refusal::Upgrade));
        node.ask(T, &release(A));
        let other = node.ask(T, &acquire_as(alone, C, CLOCK, None));
        assert!(matches!(other, Vote::Refusal(Refusal::Held { .. })), "once its own share is gone, it can wait");
    }
}

#[test]
fn a_readers_repeat_is_no_other_share() {
    let mut node = read_by_two();
    node.grants(T + 600, &read(B, CLOCK));
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_600)]);
}

#[test]
fn a_seal_does_not_give_one_reader_the_fence_of_another() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &read(A, CLOCK)), granted(CLOCK));
    assert_eq!(node.ask(T, &read(B, CLOCK + 5)), granted(CLOCK + 5));
    let sealed = node.grants(T, &read(A, CLOCK + 5));
    assert!(sealed > CLOCK + 5, "{sealed} is another reader's");
    node.ask(T, &release(A));
    let sealed_again = node.grants(T, &read(B, sealed));
    assert!(sealed_again > sealed, "{sealed_again} was another reader's, who has left");
}

#[test]
fn a_reader_that_reads_again_keeps_its_fence_and_passes_a_waiting_writer() {
    let mut node = read_by_two();
    node.ask(T + 500, &waits(Mode::EXCLUSIVE, D, 10));
    let again = |attempt| acquire_as(reads(OWNER), attempt, CLOCK + 20, None);
    assert_eq!(node.ask(T + 500, &again(C)), granted(CLOCK), "not the higher one of the other reader");
    assert_eq!(node.entries().len(), 3);
    assert_eq!(node.fence(), Some(CLOCK + 1), "the highest fence stays");
    node.ask(T + 500, &release(A));
    assert_eq!(node.ask(T + 500, &again(A)), granted(CLOCK), "one of its entries is left");
    for attempt in [A, C] {
        node.ask(T + 500, &release(attempt));
    }
    let behind = node.ask(T + 500, &again(C));
    assert!(matches!(behind, Vote::Refusal(Refusal::Behind { .. })), "{behind:?}");
}

#[test]
fn a_reader_without_reentry_waits_behind_a_writer_also_while_it_reads() {
    let mut node = read_by_two();
    let plain = Mode::Shared { owner: OWNER, reenters: false };
    assert_eq!(node.ask(T + 500, &acquire_as(plain, C, CLOCK, None)), granted(CLOCK + 2), "a fence of its own");
    node.ask(T + 500, &waits(Mode::EXCLUSIVE, D, 10));
    let behind = node.ask(T + 500, &acquire_as(plain, LeaseId::from_bits(9), CLOCK, None));
    assert!(matches!(behind, Vote::Refusal(Refusal::Behind { .. })), "{behind:?}");
}

#[test]
fn a_share_that_is_repaired_has_the_fence_of_its_lease() {
    let mut node = read_by_two();
    node.grants(T + 500, &renew_as(reads(OWNER), A, CLOCK + 1, false));
    let again = |attempt| acquire_as(reads(OWNER), attempt, CLOCK, None);
    assert_eq!(node.ask(T + 500, &again(C)), granted(CLOCK), "a renewal changes no fence");
    node.grants(T + 500, &renew_as(reads(OWNER), D, CLOCK + 1, true));
    node.ask(T + 500, &release(C));
    assert_eq!(node.ask(T + 500, &again(C)), granted(CLOCK + 1), "the highest of its entries");
}

#[test]
fn a_renewal_concerns_one_reader_and_spends_no_fence() {
    let mut node = read_by_two();
    assert_eq!(node.ask(T + 600, &renew_as(reads(OWNER), A, CLOCK, false)), granted(CLOCK + 1));
    assert_eq!(node.entries(), [(B, T + 1_500), (A, T + 1_600)]);
    assert_eq!(node.vote(), Some((A, T + 1_600)));
    assert_eq!(node.ask(T + 600, &renew_as(reads(OWNER), C, CLOCK, false)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn a_repair_joins_readers_whoever_waits_but_no_writer() {
    let mut node = read_by_two();
    node.ask(T + 500, &waits(Mode::EXCLUSIVE, D, 10));
    node.grants(T + 500, &renew_as(reads(OWNER), C, CLOCK, true));
    assert_eq!(node.entries().len(), 3);
    assert!(matches!(node.ask(T + 500, &renew(D, CLOCK, true)), Vote::Refusal(Refusal::Held { .. })));
    let refused = Node::voted().ask(T, &renew_as(reads(OWNER), B, CLOCK, true));
    assert_eq!(refused, held_by(Some(holder(A)), 1_000, CLOCK));
}

#[test]
fn without_a_vote_all_entries_are_void() {
    let mut node = read_by_two();
    node.record.vote = None;
    assert_eq!(node.ask(T + 500, &renew_as(reads(OWNER), A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    node.grants(T + 500, &renew_as(reads(OWNER), A, CLOCK, true));
    assert_eq!(node.entries(), [(A, T + 1_500)], "other holders must renew their own entries");
}
