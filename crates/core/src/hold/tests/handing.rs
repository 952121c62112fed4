//! What becomes of a hold whose lease is somebody else's to renew.

use super::*;

/// The nodes that a repair asks.
fn repaired(run: &Run, now: u64) -> Vec<usize> {
    match run.hold.repair(at(now)) {
        Some(Step::Ask { nodes, .. }) => nodes.iter().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn what_was_handed_over_is_given_to_the_rest_while_it_is_surely_held() {
    let mut run = Run::new(terms(5), won([Some(0), Some(0), Some(0), None, None]));
    assert!(run.hold.detach(at(10)));
    assert_eq!(repaired(&run, 10), [3, 4]);
    let Some(Step::Ask { request, .. }) = run.hold.repair(at(10)) else { panic!("nothing to repair") };
    let Request::Renew { attempt, fence, repair: true, .. } = request else { panic!("{request:?}") };
    assert_eq!((attempt, fence), (ATTEMPT, Fence::new(70)));
    // Nobody renews it here any more.
    assert_eq!(run.tick(3_000), []);
    assert_eq!(run.take(3_000, 0, 3, grant(70, 2_900)), []);
    assert_eq!(repaired(&run, 3_000), [4]);
    assert_eq!(run.take(3_000, 0, 4, refuse(Refusal::Tombstoned)), []);
    assert_eq!(repaired(&run, 3_000), [4], "it may be somebody else's place for a while");
    assert!(run.hold.repair(at(VALID - 1)).is_some());
    assert_eq!(run.hold.repair(at(VALID)), None, "it may be lost");
}

#[test]
fn there_is_nothing_to_give_when_all_have_it_or_none_has_a_fence() {
    let mut all = Run::held();
    assert!(all.hold.detach(at(0)));
    assert_eq!(all.hold.repair(at(1)), None);
    let plain = Won { fence: None, ..won([Some(0), Some(0), None]) };
    assert_eq!(Run::new(terms(3), plain).hold.repair(at(1)), None);
    let mut over = Run::held();
    over.hold.release();
    assert!(!over.hold.detach(at(1)));
}
