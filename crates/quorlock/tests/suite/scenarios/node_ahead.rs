//! Three nodes, one of which has a higher fence than the others, from a round that reached only this node.

use quorlock::Fence;

use super::{MAX_CLOCK_SKEW, NAME, Recipe, Stage};
use crate::common::observe::{lift_fence, wall_micros};

/// Runs the scenario. Returns the fence of a lease on A and B, and of the next one, on B and C.
pub async fn fences(recipe: Recipe<'_>) -> [Fence; 2] {
    let stage = Stage::new(3, recipe).await;
    let (one, two) = (stage.player(&[2]).await, stage.player(&[0]).await);
    // Within the allowed skew of the other nodes' clocks.
    let ahead = wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 / 2;
    lift_fence(&stage.servers[0], NAME, ahead);

    let mut fences = Vec::new();
    for player in [&one, &two] {
        let lease = player.client.lock(NAME).acquire().await.expect("two of three are a majority");
        fences.push(lease.fence().expect("it holds"));
        lease.release().await.expect("both answer");
    }
    assert!(fences[0].get() > ahead, "the first lease had A's vote");
    [fences[0], fences[1]]
}
