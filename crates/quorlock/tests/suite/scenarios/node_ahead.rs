//! Three nodes, A to C. A has stored a higher fence than B and C, from a round that reached only A.

use quorlock::Fence;

use super::{MAX_CLOCK_SKEW, NAME, NewBuilder, ScenarioCluster};
use crate::common::observe::{raise_stored_fence, wall_micros};

/// Runs the scenario. Returns the fence of a lease that A and B grant, and the fence of the next lease, which B and C
/// grant.
pub async fn run(new_builder: NewBuilder<'_>) -> [Fence; 2] {
    let cluster = ScenarioCluster::start(3, new_builder).await;
    let (first_client, second_client) = (cluster.client_without(&[2]).await, cluster.client_without(&[0]).await);
    // This fence is above the clocks of B and C, but within the allowed clock skew.
    let high_fence = wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 / 2;
    raise_stored_fence(&cluster.servers[0], NAME, high_fence);

    let mut fences = Vec::new();
    for client in [&first_client, &second_client] {
        let lease = client.client.lock(NAME).acquire().await.expect("two of three nodes are a majority");
        fences.push(lease.fence().expect("the lease is held"));
        lease.release().await.expect("two nodes answer");
    }
    assert!(fences[0].get() > high_fence, "A granted the first lease");
    [fences[0], fences[1]]
}
