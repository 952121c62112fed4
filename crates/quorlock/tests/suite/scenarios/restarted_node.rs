//! Five nodes, A to E. Client 1 has the votes of A, B and C; C restarts empty; client 2 acquires.

use std::time::Duration;

use quorlock::{AcquireError, Lease, Silence};
use quorlock_testkit::eventually_async;

use super::{NAME, Player, Recipe, Stage};
use crate::common::lock_keys;
use crate::common::observe::trouble;

/// The node that restarts.
pub const C: usize = 2;

/// The outcome of the scenario. Owns the clients and servers.
pub struct Ending<'a> {
    pub first: Lease,
    pub second: Result<Lease, AcquireError>,
    pub stage: Stage<'a>,
    _players: [Player; 2],
}

impl Ending<'_> {
    pub fn has_two_holders(&self) -> bool {
        self.second.is_ok() && self.first.ensure(Duration::ZERO).is_ok()
    }
}

/// Runs the scenario. Client 2 reaches all nodes except those `out_of_reach`.
pub async fn tell<'a>(recipe: Recipe<'a>, out_of_reach: &[usize]) -> Ending<'a> {
    let stage = Stage::new(5, recipe).await;
    let one = stage.player(&[3, 4]).await;
    let first = one.client.lock(NAME).acquire().await.expect("A, B and C are a majority");
    let votes: Vec<bool> = stage.servers.iter().map(|server| !lock_keys(server).is_empty()).collect();
    assert_eq!(votes, [true, true, true, false, false]);

    stage.servers[C].restart_empty();
    let two = stage.player(out_of_reach).await;
    let is_back = async || matches!(trouble(&two.client, C), None | Some(Silence::Quarantined(_)));
    eventually_async("C to be back", is_back).await;
    let second = two.client.lock(NAME).acquire_within(Duration::ZERO).await;
    Ending { first, second, stage, _players: [one, two] }
}
