use super::*;

impl Node {
    /// How much longer an attempt's vote stands here, or why it does not. A look changes nothing.
    fn check(&mut self, millis: u64, attempt: LeaseId, slot: Option<u32>) -> Result<u64, Refusal> {
        self.record.lapse(NodeTime::wall(millis * 1_000));
        let before = self.record.clone();
        let answer = self.answer(millis, &Request::Check { attempt, slot });
        assert_eq!((&self.record, answer.hint), (&before, None));
        match answer.vote {
            Vote::Standing { remaining: Some(remaining) } => Ok(remaining.as_millis() as u64),
            Vote::Refusal(refusal) => Err(refusal),
            other => panic!("no check: {other:?}"),
        }
    }
}

#[test]
fn a_vote_stands_for_its_own_attempt_until_it_lapses() {
    let mut node = Node::voted();
    assert_eq!(node.check(T + 300, A, None), Ok(700));
    assert_eq!(node.check(T + 300, B, None), Err(Refusal::Absent));
    assert_eq!(node.check(T + 300, A, Some(0)), Err(Refusal::Absent), "it is not in a slot");
    assert_eq!(node.check(T + 1_000, A, None), Ok(0));
    assert_eq!(node.check(T + 1_001, A, None), Err(Refusal::Absent));
}

#[test]
fn an_entry_stands_by_its_own_end() {
    for mode in [enters(OWNER), reads(OWNER)] {
        let mut node = Node::new();
        node.grants(T, &acquire_as(mode, A, CLOCK, None));
        node.grants(T + 400, &acquire_as(mode, B, CLOCK, None));
        assert_eq!((node.check(T + 400, A, None), node.check(T + 400, B, None)), (Ok(600), Ok(1_000)));
        assert_eq!(node.check(T + 1_001, A, None), Err(Refusal::Absent), "the vote stands, but not for this one");
        assert_eq!(node.check(T + 1_001, B, None), Ok(399));
    }
}

#[test]
fn a_slot_stands_only_for_whoever_is_in_it() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(slot(3, 1), A, CLOCK, None));
    assert_eq!(node.check(T, A, Some(1)), Ok(1_000));
    assert_eq!(node.check(T, A, Some(2)), Err(Refusal::Absent));
    assert_eq!(node.check(T, A, None), Err(Refusal::Absent));
}

#[test]
fn a_plain_vote_can_be_checked() {
    let mut node = Node::new();
    node.ask(T, &Request::PlainAcquire { attempt: A, ttl: ttl(1_000) });
    assert_eq!(node.check(T + 1, A, None), Ok(999));
}

#[test]
fn what_is_tombstoned_stands_no_more() {
    let mut node = Node::voted();
    node.record.tombstones.insert(A, T + 500);
    assert_eq!(node.check(T + 500, A, None), Err(Refusal::Tombstoned));
}

#[test]
fn another_life_has_nothing_to_say_of_a_vote() {
    for life in [Incarnation { epoch: Some(Epoch(2)), ..voting(0) }, Incarnation { floor: None, ..voting(0) }] {
        let mut node = Node { life, ..Node::voted() };
        assert_eq!(node.check(T, A, None), Err(Refusal::WrongEpoch));
    }
}
