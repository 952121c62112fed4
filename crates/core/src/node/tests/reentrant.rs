use super::*;

fn acquire_entry(attempt: LeaseId) -> Request {
    acquire_as(reentrant(OWNER), attempt, CLOCK + 5, None)
}

/// Returns a node with two entries of `OWNER` and the fence `CLOCK`: `A` entered at `T`, and `B` half a second later.
fn node_with_two_entries() -> Node {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reentrant(OWNER), A, CLOCK, None));
    node.grant(T + 500, &acquire_entry(B));
    node
}

#[test]
fn an_owner_re_enters_with_the_same_fence() {
    let mut node = node_with_two_entries();
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_500)]);
    assert_eq!((node.vote(), node.fence()), (Some((A, T + 1_500)), Some(CLOCK)));
    assert_eq!(node.ask(T + 500, &acquire_entry(C)), granted(CLOCK));
    assert_eq!(node.record.fence.unwrap().since_micros, CLOCK, "the lock is held since the first entry");
}

#[test]
fn another_owner_is_refused_until_the_last_entry_ends() {
    let mut node = node_with_two_entries();
    for mode in [reentrant(OTHER_OWNER), Mode::EXCLUSIVE, reader(OWNER), slot(2, 0)] {
        let refused = node.ask(T + 1_500, &acquire_as(mode, C, CLOCK, None));
        assert_eq!(refused, held_by(Some(holder(B)), 0, CLOCK), "{mode:?}");
    }
    let fence = node.grant(T + 1_501, &acquire_as(reentrant(OTHER_OWNER), C, 1, None));
    assert_eq!(fence, CLOCK + 1, "another owner gets another fence");
    assert_eq!(node.entries(), [(C, T + 2_501)]);
}

#[test]
fn repeated_acquires_and_releases_do_not_change_the_number_of_entries() {
    let mut node = node_with_two_entries();
    node.grant(T + 500, &acquire_entry(B));
    node.grant(T + 500, &acquire_as(reentrant(OWNER), A, CLOCK, None));
    assert_eq!(node.entries().len(), 2);
    assert_eq!(node.ask(T + 500, &release(B)), granted(0));
    assert_eq!(node.ask(T + 500, &release(B)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.entries(), [(A, T + 1_500)]);
    assert_eq!(node.ask(T + 500, &release(A)), granted(0));
    assert_eq!((node.vote(), node.entries()), (None, [].into()), "the vote ends with the last entry");
    assert_eq!(node.ask(T + 500, &release(A)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn the_release_of_the_first_entry_keeps_the_other_entries() {
    let mut node = node_with_two_entries();
    node.ask(T + 500, &release(A));
    assert_eq!(node.vote(), Some((A, T + 1_500)), "the vote keeps the signature of the first entry");
    assert_eq!(node.ask(T + 600, &renew_as(reentrant(OWNER), B, CLOCK, false)), granted(CLOCK));
    assert_eq!(node.ask(T + 600, &renew_as(reentrant(OWNER), A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), Some((A, T + 1_600)));
}

#[test]
fn a_vote_expires_with_its_last_entry_after_a_release() {
    let mut node = node_with_two_entries();
    node.ask(T + 600, &release(B));
    assert_eq!(node.vote(), Some((A, T + 1_000)));
}

#[test]
fn each_entry_expires_at_its_own_time() {
    let mut node = node_with_two_entries();
    node.ask(T + 1_001, &Request::Inspect);
    assert_eq!(node.entries(), [(B, T + 1_500)]);
    assert_eq!(node.ask(T + 1_001, &release(A)), Vote::Refusal(Refusal::Absent));
    node.ask(T + 1_501, &Request::Inspect);
    assert_eq!((node.vote(), node.entries()), (None, [].into()));
}

#[test]
fn an_owner_that_returns_after_another_owner_gets_a_new_fence() {
    let mut node = node_with_two_entries();
    node.grant(T + 2_000, &acquire_as(reentrant(OTHER_OWNER), C, 1, None));
    node.ask(T + 2_000, &release(C));
    assert_eq!(node.grant(T + 2_000, &acquire_as(reentrant(OWNER), D, 1, None)), CLOCK + 2);
    assert_eq!(node.vote(), Some((D, T + 3_000)), "the expired entries do not return");
}

#[test]
fn a_repair_joins_only_entries_of_the_same_owner() {
    let mut node = node_with_two_entries();
    assert_eq!(node.ask(T + 500, &renew_as(reentrant(OWNER), C, CLOCK, true)), granted(CLOCK));
    assert_eq!(node.entries().len(), 3);
    for repair in [true, false] {
        let refused = node.ask(T + 500, &renew_as(reentrant(OTHER_OWNER), D, CLOCK, repair));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{refused:?}");
    }
    assert_eq!(node.ask(T + 500, &renew_as(reentrant(OWNER), D, CLOCK, false)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn a_repair_never_reuses_the_fence_of_an_owner_that_held_the_lock_meanwhile() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reentrant(OWNER), A, CLOCK, None));
    // The clock of A has stopped, so A does not know that its lease has ended and that B has held the lock since.
    let fence_of_b = node.grant(T + 2_000, &acquire_as(reentrant(OTHER_OWNER), B, 1, None));
    node.ask(T + 2_000, &release(B));
    assert_eq!(node.ask(T + 2_000, &renew_as(reentrant(OWNER), A, CLOCK, true)), granted(fence_of_b + 1));
    assert_eq!(node.ask(T + 2_000, &acquire_entry(C)), granted(fence_of_b + 1));
}

#[test]
fn a_repair_keeps_its_fence_if_no_other_owner_held_the_lock_meanwhile() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reentrant(OWNER), A, CLOCK, None));
    assert_eq!(node.ask(T + 2_000, &renew_as(reentrant(OWNER), A, CLOCK, true)), granted(CLOCK));
}

#[test]
fn a_seal_raises_the_fence_of_the_first_entry() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &acquire_as(reentrant(OWNER), A, CLOCK, None)), granted(CLOCK));
    assert_eq!(node.ask(T, &acquire_as(reentrant(OWNER), A, CLOCK + 9, None)), granted(CLOCK + 9));
    assert_eq!(
        node.ask(T, &acquire_as(reentrant(OWNER), A, CLOCK, None)),
        granted(CLOCK + 9),
        "an acquire that is repeated after a lost reply gets the same fence"
    );
}

#[test]
fn a_tombstone_refuses_one_attempt_and_no_other_attempt_of_the_owner() {
    let mut node = node_with_two_entries();
    node.ask(T + 500, &release_with_tombstone(B, 500));
    assert_eq!(node.ask(T + 500, &acquire_entry(B)), Vote::Refusal(Refusal::Tombstoned));
    assert_eq!(node.ask(T + 500, &acquire_entry(C)), granted(CLOCK));
}

fn retire(owner: OwnerId) -> Request {
    Request::Retire { owner, tombstone: 700 }
}

#[test]
fn a_retired_owner_loses_all_entries_and_is_refused() {
    let mut node = node_with_two_entries();
    assert_eq!(node.ask(T + 500, &retire(OTHER_OWNER)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T + 500, &retire(OWNER)), granted(0));
    assert_eq!((node.vote(), node.entries()), (None, [].into()));
    assert_eq!(node.ask(T + 500, &retire(OWNER)), Vote::Refusal(Refusal::Absent));

    for request in
        [acquire_entry(C), renew_as(reentrant(OWNER), A, CLOCK, true), renew_as(reentrant(OWNER), A, CLOCK, false)]
    {
        assert_eq!(node.ask(T + 1_200, &request), Vote::Refusal(Refusal::Retired));
    }
    assert_eq!(node.grant(T + 600, &acquire_as(reentrant(OwnerId::from_bits(3)), D, 1, None)), CLOCK + 1);
}

#[test]
fn a_retired_owner_may_enter_again_after_its_tombstone_expires() {
    let mut node = node_with_two_entries();
    node.ask(T + 500, &retire(OWNER));
    assert_eq!(node.grant(T + 1_201, &acquire_entry(C)), CLOCK + 5);
}

#[test]
fn the_retirement_of_one_reader_keeps_the_other_readers() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reader(OWNER), A, CLOCK, None));
    node.grant(T, &acquire_as(reader(OTHER_OWNER), B, CLOCK, None));
    assert_eq!(node.ask(T, &retire(OWNER)), granted(0));
    assert_eq!(node.entries(), [(B, T + 1_000)]);
}
