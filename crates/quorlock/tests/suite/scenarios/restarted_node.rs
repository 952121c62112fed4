//! Five nodes, A to E. A, B and C grant a lease to client 1. C restarts without its memory. Then client 2 tries to
//! acquire the same lock.

use std::time::Duration;

use quorlock::{AcquireError, Lease, Silence};
use quorlock_testkit::eventually_async;

use super::{NAME, NewBuilder, PartialClient, ScenarioCluster};
use crate::common::lock_keys;
use crate::common::observe::silence_of;

/// The node that restarts.
pub const C: usize = 2;

/// The outcome of the scenario. It contains the clients and servers, because they must live as long as the leases.
pub struct Outcome<'a> {
    pub first_lease: Lease,
    pub second_attempt: Result<Lease, AcquireError>,
    pub cluster: ScenarioCluster<'a>,
    _clients: [PartialClient; 2],
}

impl Outcome<'_> {
    pub fn has_two_holders(&self) -> bool {
        self.second_attempt.is_ok() && self.first_lease.ensure(Duration::ZERO).is_ok()
    }
}

/// Runs the scenario. Client 2 reaches all nodes except `unreachable`.
pub async fn run<'a>(new_builder: NewBuilder<'a>, unreachable: &[usize]) -> Outcome<'a> {
    let cluster = ScenarioCluster::start(5, new_builder).await;
    let first_client = cluster.client_without(&[3, 4]).await;
    let first_lease = first_client.client.lock(NAME).acquire().await.expect("A, B and C are a majority");
    let have_votes: Vec<bool> = cluster.servers.iter().map(|server| !lock_keys(server).is_empty()).collect();
    assert_eq!(have_votes, [true, true, true, false, false]);

    cluster.servers[C].restart_empty();
    let second_client = cluster.client_without(unreachable).await;
    let is_connected = async || matches!(silence_of(&second_client.client, C), None | Some(Silence::Quarantined(_)));
    eventually_async("client 2 to connect to C", is_connected).await;
    let second_attempt = second_client.client.lock(NAME).acquire_within(Duration::ZERO).await;
    Outcome { first_lease, second_attempt, cluster, _clients: [first_client, second_client] }
}
