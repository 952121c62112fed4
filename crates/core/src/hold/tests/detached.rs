//! Detached leases: a hold whose lease another process renews.

use super::*;

/// Returns the nodes that a repair asks.
fn repaired_nodes(run: &Run, now_ms: u64) -> Vec<usize> {
    match run.hold.repair(at(now_ms)) {
        Some(Step::Ask { nodes, .. }) => nodes.iter().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_valid_detached_lease_is_repaired_on_the_nodes_without_its_vote() {
    let mut run = Run::new(terms(5), [Some(0), Some(0), Some(0), None, None]);
    assert!(run.hold.detach(at(10)));
    assert_eq!(repaired_nodes(&run, 10), [3, 4]);
    let Some(Step::Ask { request, .. }) = run.hold.repair(at(10)) else { panic!("nothing to repair") };
    let Request::Renew { attempt, fence, repair: true, .. } = request else { panic!("{request:?}") };
    assert_eq!((attempt, fence), (ATTEMPT, Fence::new(70)));
    assert_eq!(run.tick(3_000), [], "another process renews the lease");
    assert_eq!(run.take(3_000, 0, 3, grant(70, 2_900)), []);
    assert_eq!(repaired_nodes(&run, 3_000), [4]);
    assert_eq!(run.take(3_000, 0, 4, refuse(Refusal::Tombstoned)), []);
    assert_eq!(repaired_nodes(&run, 3_000), [4], "the refusal does not end the repairs");
    assert!(run.hold.repair(at(VALIDITY_MS - 1)).is_some());
    assert_eq!(run.hold.repair(at(VALIDITY_MS)), None, "the lease may be lost");
}

#[test]
fn there_is_no_repair_if_all_nodes_granted_or_the_lock_is_plain() {
    let mut granted_by_all = Run::held();
    assert!(granted_by_all.hold.detach(at(0)));
    assert_eq!(granted_by_all.hold.repair(at(1)), None);
    assert_eq!(Run::plain([Some(0), Some(0), None]).hold.repair(at(1)), None);
    let mut released = Run::held();
    released.hold.release();
    assert!(!released.hold.detach(at(1)), "the lease was released");
}
