use super::*;

fn enter(attempt: LeaseId) -> Request {
    acquire_as(enters(OWNER), attempt, CLOCK + 5, None)
}

/// `A` has entered at `T`, with the clock as its fence, and `B` half a second later.
fn entered_twice() -> Node {
    let mut node = Node::new();
    node.grants(T, &acquire_as(enters(OWNER), A, CLOCK, None));
    node.grants(T + 500, &enter(B));
    node
}

#[test]
fn an_owner_enters_again_under_the_same_fence() {
    let mut node = entered_twice();
    assert_eq!(node.entries(), [(A, T + 1_000), (B, T + 1_500)]);
    assert_eq!((node.vote(), node.fence()), (Some((A, T + 1_500)), Some(CLOCK)));
    assert_eq!(node.ask(T + 500, &enter(C)), granted(CLOCK));
    assert_eq!(node.record.fence.unwrap().since_micros, CLOCK, "held since the first entry");
}

#[test]
fn another_owner_is_refused_while_any_entry_stands() {
    let mut node = entered_twice();
    for mode in [enters(STRANGER), Mode::EXCLUSIVE, reads(OWNER), slot(2, 0)] {
        let refused = node.ask(T + 1_500, &acquire_as(mode, C, CLOCK, None));
        assert_eq!(refused, held_by(Some(holder(B)), 0, CLOCK), "{mode:?}");
    }
    let fence = node.grants(T + 1_501, &acquire_as(enters(STRANGER), C, 1, None));
    assert_eq!(fence, CLOCK + 1, "another owner's lease, another fence");
    assert_eq!(node.entries(), [(C, T + 2_501)]);
}

#[test]
fn repeated_enters_and_exits_do_not_change_the_count() {
    let mut node = entered_twice();
    node.grants(T + 500, &enter(B));
    node.grants(T + 500, &acquire_as(enters(OWNER), A, CLOCK, None));
    assert_eq!(node.entries().len(), 2);
    assert_eq!(node.ask(T + 500, &release(B)), granted(0));
    assert_eq!(node.ask(T + 500, &release(B)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.entries(), [(A, T + 1_500)]);
    assert_eq!(node.ask(T + 500, &release(A)), granted(0));
    assert_eq!((node.vote(), node.entries()), (None, [].into()), "free with the last exit");
    assert_eq!(node.ask(T + 500, &release(A)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn the_exit_of_the_first_leaves_the_others_in() {
    let mut node = entered_twice();
    node.ask(T + 500, &release(A));
    assert_eq!(node.vote(), Some((A, T + 1_500)), "the period keeps the signature that it began with");
    assert_eq!(node.ask(T + 600, &renew_as(enters(OWNER), B, CLOCK, false)), granted(CLOCK));
    assert_eq!(node.ask(T + 600, &renew_as(enters(OWNER), A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), Some((A, T + 1_600)));
}

#[test]
fn an_exit_brings_the_end_forward_to_that_of_the_entries_left() {
    let mut node = entered_twice();
    node.ask(T + 600, &release(B));
    assert_eq!(node.vote(), Some((A, T + 1_000)));
}

#[test]
fn an_entry_ends_by_itself() {
    let mut node = entered_twice();
    node.ask(T + 1_001, &Request::Inspect);
    assert_eq!(node.entries(), [(B, T + 1_500)]);
    assert_eq!(node.ask(T + 1_001, &release(A)), Vote::Refusal(Refusal::Absent));
    node.ask(T + 1_501, &Request::Inspect);
    assert_eq!((node.vote(), node.entries()), (None, [].into()));
}

#[test]
fn one_who_comes_back_after_the_end_has_another_lease() {
    let mut node = entered_twice();
    node.grants(T + 2_000, &acquire_as(enters(STRANGER), C, 1, None));
    node.ask(T + 2_000, &release(C));
    assert_eq!(node.grants(T + 2_000, &acquire_as(enters(OWNER), D, 1, None)), CLOCK + 2);
    assert_eq!(node.vote(), Some((D, T + 3_000)), "none of the old entries came back");
}

#[test]
fn a_repair_joins_the_owners_entries_and_nobody_elses() {
    let mut node = entered_twice();
    assert_eq!(node.ask(T + 500, &renew_as(enters(OWNER), C, CLOCK, true)), granted(CLOCK));
    assert_eq!(node.entries().len(), 3);
    for repair in [true, false] {
        let refused = node.ask(T + 500, &renew_as(enters(STRANGER), D, CLOCK, repair));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{refused:?}");
    }
    assert_eq!(node.ask(T + 500, &renew_as(enters(OWNER), D, CLOCK, false)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn nobody_enters_again_with_the_fence_of_an_owner_who_came_between() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(enters(OWNER), A, CLOCK, None));
    // Its clock stands still: it does not know that its time is over, and that somebody else has come and gone.
    let theirs = node.grants(T + 2_000, &acquire_as(enters(STRANGER), B, 1, None));
    node.ask(T + 2_000, &release(B));
    assert_eq!(node.ask(T + 2_000, &renew_as(enters(OWNER), A, CLOCK, true)), granted(theirs + 1));
    assert_eq!(node.ask(T + 2_000, &enter(C)), granted(theirs + 1));
}

#[test]
fn a_repair_where_nobody_came_between_spends_no_fence() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(enters(OWNER), A, CLOCK, None));
    assert_eq!(node.ask(T + 2_000, &renew_as(enters(OWNER), A, CLOCK, true)), granted(CLOCK));
}

#[test]
fn the_first_entry_is_sealed_like_any_lease() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &acquire_as(enters(OWNER), A, CLOCK, None)), granted(CLOCK));
    assert_eq!(node.ask(T, &acquire_as(enters(OWNER), A, CLOCK + 9, None)), granted(CLOCK + 9));
    assert_eq!(node.ask(T, &acquire_as(enters(OWNER), A, CLOCK, None)), granted(CLOCK + 9), "lost replies spend none");
}

#[test]
fn a_tombstone_keeps_one_entry_out() {
    let mut node = entered_twice();
    node.ask(T + 500, &bury(B, 500));
    assert_eq!(node.ask(T + 500, &enter(B)), Vote::Refusal(Refusal::Tombstoned));
    assert_eq!(node.ask(T + 500, &enter(C)), granted(CLOCK));
}

fn retire(owner: OwnerId) -> Request {
    Request::Retire { owner, tombstone: 700 }
}

#[test]
fn one_who_is_retired_has_no_entry_left_and_is_not_let_in() {
    let mut node = entered_twice();
    assert_eq!(node.ask(T + 500, &retire(STRANGER)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T + 500, &retire(OWNER)), granted(0));
    assert_eq!((node.vote(), node.entries()), (None, [].into()));
    assert_eq!(node.ask(T + 500, &retire(OWNER)), Vote::Refusal(Refusal::Absent), "said twice, done once");

    for request in [enter(C), renew_as(enters(OWNER), A, CLOCK, true), renew_as(enters(OWNER), A, CLOCK, false)] {
        assert_eq!(node.ask(T + 1_200, &request), Vote::Refusal(Refusal::Retired));
    }
    assert_eq!(node.grants(T + 600, &acquire_as(enters(OwnerId::from_bits(3)), D, 1, None)), CLOCK + 1);
}

#[test]
fn the_end_of_a_retirement_is_the_end_of_its_tombstone() {
    let mut node = entered_twice();
    node.ask(T + 500, &retire(OWNER));
    assert_eq!(node.grants(T + 1_201, &enter(C)), CLOCK + 5);
}

#[test]
fn other_readers_stay_when_one_is_retired() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(reads(OWNER), A, CLOCK, None));
    node.grants(T, &acquire_as(reads(STRANGER), B, CLOCK, None));
    assert_eq!(node.ask(T, &retire(OWNER)), granted(0));
    assert_eq!(node.entries(), [(B, T + 1_000)]);
}
