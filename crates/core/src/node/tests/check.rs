use super::*;

impl Node {
    /// Returns the milliseconds until the attempt's vote expires, or why the attempt has no vote. Checks that the
    /// request changes nothing.
    fn check(&mut self, millis: u64, attempt: LeaseId, slot: Option<u32>) -> Result<u64, Refusal> {
        self.record.remove_expired(NodeTime::wall(millis * 1_000));
        let before = self.record.clone();
        let answer = self.answer(millis, &Request::Check { attempt, slot });
        assert_eq!((&self.record, answer.hint), (&before, None));
        match answer.vote {
            Vote::Standing { remaining: Some(remaining) } => Ok(remaining.as_millis() as u64),
            Vote::Refusal(refusal) => Err(refusal),
            other => panic!("not an answer to a check: {other:?}"),
        }
    }
}

#[test]
fn a_check_finds_the_vote_of_its_own_attempt_until_the_vote_expires() {
    let mut node = Node::with_vote();
    assert_eq!(node.check(T + 300, A, None), Ok(700));
    assert_eq!(node.check(T + 300, B, None), Err(Refusal::Absent));
    assert_eq!(node.check(T + 300, A, Some(0)), Err(Refusal::Absent), "the vote is not for a slot");
    assert_eq!(node.check(T + 1_000, A, None), Ok(0));
    assert_eq!(node.check(T + 1_001, A, None), Err(Refusal::Absent));
}

#[test]
fn a_check_finds_an_entry_until_that_entry_expires() {
    for mode in [reentrant(OWNER), reader(OWNER)] {
        let mut node = Node::new();
        node.grant(T, &acquire_as(mode, A, CLOCK, None));
        node.grant(T + 400, &acquire_as(mode, B, CLOCK, None));
        assert_eq!((node.check(T + 400, A, None), node.check(T + 400, B, None)), (Ok(600), Ok(1_000)));
        assert_eq!(node.check(T + 1_001, A, None), Err(Refusal::Absent), "the vote exists for B only");
        assert_eq!(node.check(T + 1_001, B, None), Ok(399));
    }
}

#[test]
fn a_check_finds_a_vote_only_for_its_own_slot() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(slot(3, 1), A, CLOCK, None));
    assert_eq!(node.check(T, A, Some(1)), Ok(1_000));
    assert_eq!(node.check(T, A, Some(2)), Err(Refusal::Absent));
    assert_eq!(node.check(T, A, None), Err(Refusal::Absent));
}

#[test]
fn a_check_finds_a_plain_vote() {
    let mut node = Node::new();
    node.ask(T, &Request::PlainAcquire { attempt: A, ttl: ttl(1_000) });
    assert_eq!(node.check(T + 1, A, None), Ok(999));
}

#[test]
fn a_check_does_not_find_the_vote_of_an_attempt_with_a_tombstone() {
    let mut node = Node::with_vote();
    node.record.tombstones.insert(A, T + 500);
    assert_eq!(node.check(T + 500, A, None), Err(Refusal::Tombstoned));
}

#[test]
fn a_check_is_refused_in_another_epoch_or_in_quarantine() {
    for life in [Incarnation { epoch: Some(Epoch(2)), ..voting(0) }, Incarnation { floor: None, ..voting(0) }] {
        let mut node = Node { life, ..Node::with_vote() };
        assert_eq!(node.check(T, A, None), Err(Refusal::WrongEpoch));
    }
}
