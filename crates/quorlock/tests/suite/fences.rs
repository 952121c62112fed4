//! Fences grow with every lease of a name, even if one node has a higher fence than the others, or clocks are wrong.

mod clocks;

use crate::common::builder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_granted_only_when_a_majority_has_its_fence() {
    let [first_fence, second_fence] = crate::scenarios::node_ahead::run(&builder).await;
    assert!(second_fence > first_fence, "fence {second_fence} after fence {first_fence}");
}
