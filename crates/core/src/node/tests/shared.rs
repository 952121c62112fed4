use super::*;

/// Returns an acquire of a reader. Each attempt has its own owner id, and none of them is `OWNER`.
fn acquire_shared(attempt: LeaseId, proposal: u64) -> Request {
    let owner = OwnerId::parse(&attempt.reveal().replace('0', "f")).unwrap();
    acquire_as(reader(owner), attempt, proposal, None)
}

/// Returns a node with two readers. `A` entered at `T` with the fence `CLOCK`, and `B` half a second later with the
/// next fence.
fn node_with_two_readers() -> Node {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reader(OWNER), A, CLOCK, None));
    node.grant(T + 500, &acquire_shared(B, CLOCK));
    node
}

#[test]
fn each_reader_gets_its_own_fence() {
    let mut node = node_with_two_readers();
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_500)]);
    assert_eq!((node.vote(), node.fence()), (Some((A, T + 1_500)), Some(CLOCK + 1)));
    assert_eq!(node.ask(T + 500, &acquire_shared(C, CLOCK + 9)), granted(CLOCK + 9));
}

#[test]
fn a_writer_waits_for_the_last_reader() {
    let mut node = node_with_two_readers();
    let acquire_exclusive = acquire_as(Mode::EXCLUSIVE, C, CLOCK, None);
    assert_eq!(node.ask(T + 500, &acquire_exclusive), held_by(Some(holder(B)), 1_000, CLOCK + 1));
    node.ask(T + 500, &release(A));
    assert_eq!(node.ask(T + 500, &acquire_exclusive), held_by(Some(holder(B)), 1_000, CLOCK + 1));
    assert_eq!(node.ask(T + 1_501, &acquire_exclusive), granted(CLOCK + 2), "the entry of B has expired");
    assert_eq!(node.record.vote.as_ref().unwrap().held_mode, HeldMode::Exclusive);
}

#[test]
fn a_reader_waits_for_a_writer() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T, &acquire_shared(B, CLOCK)), held_by(Some(holder(A)), 1_000, CLOCK));
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &acquire_shared(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn other_modes_are_refused_while_readers_hold_the_lock() {
    for mode in [reentrant(OwnerId::from_bits(0xabc)), slot(2, 0)] {
        let refused = node_with_two_readers().ask(T + 500, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{mode:?}: {refused:?}");
    }
    let plain = node_with_two_readers().ask(T + 500, &Request::PlainAcquire { attempt: C, ttl: ttl(1_000) });
    assert!(matches!(plain, Vote::Refusal(Refusal::Held { .. })));
}

#[test]
fn plain_requests_do_not_change_a_shared_vote() {
    let mut node = node_with_two_readers();
    let before = node.record.clone();
    for request in [Request::PlainExtend { attempt: A, ttl: ttl(9_000) }, Request::PlainRelease { attempt: A }] {
        assert_eq!(node.ask(T + 500, &request), Vote::Refusal(Refusal::Absent));
    }
    assert_eq!(node.record, before);
}

#[test]
fn a_reader_is_refused_as_a_writer_while_it_reads() {
    for mode in [writer(OWNER), reentrant(OWNER)] {
        let mut node = node_with_two_readers();
        assert_eq!(node.ask(T, &acquire_as(mode, C, CLOCK, None)), Vote::Refusal(Refusal::Upgrade));
        node.ask(T, &release(A));
        let refused = node.ask(T, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "A has left, so its owner may wait for B");
    }
}

#[test]
fn a_repeated_acquire_of_a_reader_adds_no_entry() {
    let mut node = node_with_two_readers();
    node.grant(T + 600, &acquire_shared(B, CLOCK));
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_600)]);
}

#[test]
fn a_seal_does_not_give_one_reader_the_fence_of_another() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &acquire_shared(A, CLOCK)), granted(CLOCK));
    assert_eq!(node.ask(T, &acquire_shared(B, CLOCK + 5)), granted(CLOCK + 5));
    let sealed = node.grant(T, &acquire_shared(A, CLOCK + 5));
    assert!(sealed > CLOCK + 5, "B has the fence {sealed}");
    node.ask(T, &release(A));
    let sealed_again = node.grant(T, &acquire_shared(B, sealed));
    assert!(sealed_again > sealed, "A had the fence {sealed_again}");
}

#[test]
fn a_reader_that_re_enters_keeps_its_fence_and_overtakes_a_waiting_writer() {
    let mut node = node_with_two_readers();
    node.ask(T + 500, &acquire_queued(Mode::EXCLUSIVE, D, 10));
    let re_enter = |attempt| acquire_as(reader(OWNER), attempt, CLOCK + 20, None);
    assert_eq!(node.ask(T + 500, &re_enter(C)), granted(CLOCK), "B has a higher fence");
    assert_eq!(node.entries().len(), 3);
    assert_eq!(node.fence(), Some(CLOCK + 1), "the highest fence stays stored");
    node.ask(T + 500, &release(A));
    assert_eq!(node.ask(T + 500, &re_enter(A)), granted(CLOCK), "C is still an entry of the owner");
    for attempt in [A, C] {
        node.ask(T + 500, &release(attempt));
    }
    let behind = node.ask(T + 500, &re_enter(C));
    assert!(matches!(behind, Vote::Refusal(Refusal::Behind { .. })), "{behind:?}");
}

#[test]
fn a_reader_without_re_entry_waits_for_an_earlier_writer_even_while_it_reads() {
    let mut node = node_with_two_readers();
    let mode = Mode::Shared { owner: OWNER, reenters: false };
    assert_eq!(
        node.ask(T + 500, &acquire_as(mode, C, CLOCK, None)),
        granted(CLOCK + 2),
        "each entry gets its own fence"
    );
    node.ask(T + 500, &acquire_queued(Mode::EXCLUSIVE, D, 10));
    let behind = node.ask(T + 500, &acquire_as(mode, LeaseId::from_bits(9), CLOCK, None));
    assert!(matches!(behind, Vote::Refusal(Refusal::Behind { .. })), "{behind:?}");
}

#[test]
fn a_repaired_entry_of_a_reader_has_the_fence_of_its_lease() {
    let mut node = node_with_two_readers();
    node.grant(T + 500, &renew_as(reader(OWNER), A, CLOCK + 1, false));
    let re_enter = |attempt| acquire_as(reader(OWNER), attempt, CLOCK, None);
    assert_eq!(node.ask(T + 500, &re_enter(C)), granted(CLOCK), "the renewal of A changes no fence");
    node.grant(T + 500, &renew_as(reader(OWNER), D, CLOCK + 1, true));
    node.ask(T + 500, &release(C));
    assert_eq!(node.ask(T + 500, &re_enter(C)), granted(CLOCK + 1), "the repaired entry has the highest fence");
}

#[test]
fn a_renewal_extends_one_reader_and_keeps_the_fences() {
    let mut node = node_with_two_readers();
    assert_eq!(node.ask(T + 600, &renew_as(reader(OWNER), A, CLOCK, false)), granted(CLOCK + 1));
    assert_eq!(node.entries(), [(B, T + 1_500), (A, T + 1_600)]);
    assert_eq!(node.vote(), Some((A, T + 1_600)));
    assert_eq!(node.ask(T + 600, &renew_as(reader(OWNER), C, CLOCK, false)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn a_repair_joins_readers_despite_waiters_but_never_joins_a_writer() {
    let mut node = node_with_two_readers();
    node.ask(T + 500, &acquire_queued(Mode::EXCLUSIVE, D, 10));
    node.grant(T + 500, &renew_as(reader(OWNER), C, CLOCK, true));
    assert_eq!(node.entries().len(), 3);
    assert!(matches!(node.ask(T + 500, &renew(D, CLOCK, true)), Vote::Refusal(Refusal::Held { .. })));
    let refused = Node::with_vote().ask(T, &renew_as(reader(OWNER), B, CLOCK, true));
    assert_eq!(refused, held_by(Some(holder(A)), 1_000, CLOCK));
}

#[test]
fn without_a_vote_all_entries_are_void() {
    let mut node = node_with_two_readers();
    node.record.vote = None;
    assert_eq!(node.ask(T + 500, &renew_as(reader(OWNER), A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    node.grant(T + 500, &renew_as(reader(OWNER), A, CLOCK, true));
    assert_eq!(node.entries(), [(A, T + 1_500)], "B must repair its own entry");
}
