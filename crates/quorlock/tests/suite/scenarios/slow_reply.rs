//! Three nodes, and a slow network between the nodes and client 1. When the reply of a node arrives at client 1, the
//! vote is old.

use std::time::Duration;

use quorlock::{Drift, Lease};
use quorlock_testkit::{Proxy, eventually_async};

use super::{NAME, NewBuilder, ScenarioCluster};
use crate::common::long_timeouts::connect_to_all;

const TTL: Duration = Duration::from_secs(6);
/// The delay in each direction. It is also the age of a vote when the reply arrives.
const DELAY: Duration = Duration::from_millis(1_300);

/// Runs the scenario. Returns whether the lease of client 1 was still valid when client 2 acquired the lock.
pub async fn has_two_holders(new_builder: NewBuilder<'_>) -> bool {
    let cluster = ScenarioCluster::start(3, new_builder).await;
    let builder = || {
        let builder = cluster.builder().ttl(TTL).node_deadline(TTL / 2).min_validity(Duration::from_millis(100));
        builder.drift(Drift::REDLOCK)
    };
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let first_client = connect_to_all(builder().nodes(proxies.iter().map(Proxy::url))).await;
    let second_client = connect_to_all(builder().nodes(cluster.urls())).await;
    for proxy in &proxies {
        proxy.delay(DELAY);
    }

    let first_lease = first_client.lock(NAME).acquire().await.expect("acquire has no time limit");
    let mut second_lease: Option<Lease> = None;
    eventually_async("the votes of the first lease to expire", async || {
        second_lease = second_client.lock(NAME).try_acquire().await.unwrap_or_default();
        second_lease.is_some()
    })
    .await;
    first_lease.ensure(Duration::ZERO).is_ok()
}
