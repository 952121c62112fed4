use super::*;

fn fences(values: &[u64]) -> impl Iterator<Item = Fence> + '_ {
    values.iter().map(|&v| Fence::new(v))
}

#[test]
fn a_majority_of_equals_is_sealed() {
    assert_eq!(sealed(fences(&[7, 9, 7]), 2), Some(Fence::new(7)));
    assert_eq!(sealed(fences(&[7, 9, 8]), 2), None);
    assert_eq!(sealed(fences(&[7]), 2), None);
    assert_eq!(sealed(fences(&[7]), 1), Some(Fence::new(7)));
}

#[test]
fn the_seal_leaves_out_a_node_far_ahead() {
    assert_eq!(seal_at(fences(&[5, 900, 7]), 2), Some(Fence::new(7)));
    assert_eq!(seal_at(fences(&[5]), 2), None);
}

#[test]
fn proposals_follow_the_nodes_and_never_repeat_a_fence() {
    assert_eq!(propose(Some(100), Fence::default()), Fence::new(100));
    assert_eq!(propose(Some(100), Fence::new(100)), Fence::new(101));
    assert_eq!(propose(None, Fence::new(3)), Fence::new(4));
    assert_eq!(propose(Some(-5), Fence::default()), Fence::new(0));
    assert_eq!(propose(Some(1), Fence::MAX), Fence::MAX);
}

#[test]
fn the_median_is_a_reading() {
    assert_eq!(median([3, 1, 2]), Some(2));
    assert_eq!(median([4, 1, 2, 3]), Some(2));
    assert_eq!(median([]), None);
}
