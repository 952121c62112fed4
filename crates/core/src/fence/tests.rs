use super::*;

fn fences(values: &[u64]) -> impl Iterator<Item = Fence> + '_ {
    values.iter().map(|&v| Fence::new(v))
}

#[test]
fn equal_fences_of_a_majority_are_sealed() {
    assert_eq!(sealed(fences(&[7, 9, 7]), 2), Some(Fence::new(7)));
    assert_eq!(sealed(fences(&[7, 9, 8]), 2), None);
    assert_eq!(sealed(fences(&[7]), 2), None);
    assert_eq!(sealed(fences(&[7]), 1), Some(Fence::new(7)));
}

#[test]
fn a_seal_ignores_a_node_whose_fence_is_far_ahead() {
    assert_eq!(seal_at(fences(&[5, 900, 7]), 2), Some(Fence::new(7)));
    assert_eq!(seal_at(fences(&[5]), 2), None);
}

#[test]
fn a_proposal_is_the_nodes_time_or_the_fence_after_the_last_one_seen() {
    assert_eq!(propose(Some(100), Fence::default()), Fence::new(100));
    assert_eq!(propose(Some(100), Fence::new(100)), Fence::new(101));
    assert_eq!(propose(None, Fence::new(3)), Fence::new(4));
    assert_eq!(propose(Some(-5), Fence::default()), Fence::new(0));
    assert_eq!(propose(Some(1), Fence::MAX), Fence::MAX);
}

#[test]
fn the_median_of_an_even_number_of_clocks_is_the_lower_middle_one() {
    assert_eq!(median([3, 1, 2]), Some(2));
    assert_eq!(median([4, 1, 2, 3]), Some(2));
    assert_eq!(median([]), None);
}
