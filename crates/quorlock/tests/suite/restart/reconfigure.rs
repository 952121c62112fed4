//! New constants for a cluster in use. No lease with the new constants is granted before all leases with the old
//! constants have ended.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, ConnectError, MemoryNodes, ReconfigureError};
use quorlock_testkit::{RedisServer, eventually_async};

use crate::common::long_timeouts::wait_until_all_vote;
use crate::common::observe::{stored_state, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL, TTL, builder};

/// A new maximum ttl, which is longer than the old one.
const LONGER_MAX_TTL: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_constants_take_effect_after_the_longer_quarantine() {
    let cluster = Cluster::start(3).await;
    let old_client = cluster.client().await;
    let lease = old_client.lock("job").ttl(TTL).acquire().await.expect("all nodes vote");
    let fence = lease.fence().expect("the lease is held");

    let reconfigured_at = Instant::now();
    let client = cluster.builder().max_ttl(LONGER_MAX_TTL).reconfigure().await.expect("all nodes can be reached");
    for node in 0..3 {
        wait_until_quarantined(&client, node).await;
    }
    let refused = client.lock("job").try_acquire().await.expect_err("no node may vote");
    assert!(matches!(refused, AcquireError::NoQuorum { .. }), "{refused}");
    lease.lost().await;
    eventually_async("clients with the old constants to be refused", async || {
        let refused = cluster.builder().connect_lazy().await;
        matches!(refused, Err(error @ ConnectError::Unfit { .. }) if error.to_string().contains("max_ttl of 3s"))
    })
    .await;

    wait_until_all_vote(&client).await;
    assert!(reconfigured_at.elapsed() >= LONGER_MAX_TTL, "the nodes vote {:?} later", reconfigured_at.elapsed());
    let next_lease = client.lock("job").ttl(LONGER_MAX_TTL).acquire().await.expect("all nodes vote");
    assert!(next_lease.fence().expect("the lease is held") > fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_gains_blank_nodes_and_keeps_its_name() {
    let mut cluster = Cluster::start(3).await;
    let name = stored_state(&cluster.servers[0], "").expect("the node belongs to a cluster").cluster;
    cluster.servers.extend(RedisServer::start_many(2));
    let client = cluster.builder().reconfigure().await.expect("all nodes can be reached");
    for server in &cluster.servers {
        let state = stored_state(server, "").expect("the node belongs to the cluster");
        assert_eq!((state.cluster, state.floor), (name.clone(), None));
    }
    wait_until_all_vote(&client).await;
    drop(client.lock("job").acquire().await.expect("five nodes vote"));
}

#[tokio::test]
async fn reconfigure_needs_every_node_and_a_majority_of_the_old_nodes() {
    let cluster = Cluster::start(5).await;
    let blank_servers = RedisServer::start_many(3);
    let urls = |servers: &[RedisServer]| servers.iter().map(RedisServer::url).collect::<Vec<_>>();
    let states = || cluster.servers.iter().map(|server| stored_state(server, "")).collect::<Vec<_>>();
    let states_before = states();
    let reconfigure_error = async |urls: Vec<String>| {
        builder().nodes(urls).reconfigure().await.expect_err("the reconfiguration is refused")
    };

    assert_eq!(reconfigure_error(urls(&blank_servers)).await, ReconfigureError::Blank);
    let minority_urls = [urls(&cluster.servers[..2]), urls(&blank_servers[..1])].concat();
    assert_eq!(reconfigure_error(minority_urls).await, ReconfigureError::Minority { present: 2, cluster_nodes: 5 });
    let other_cluster = Cluster::start(1).await;
    let mixed_urls = [urls(&cluster.servers[..4]), other_cluster.urls()].concat();
    assert_eq!(reconfigure_error(mixed_urls).await, ReconfigureError::Mixed);
    blank_servers[0].kill();
    let error = reconfigure_error([urls(&cluster.servers), urls(&blank_servers[..1])].concat()).await;
    assert!(matches!(&error, ReconfigureError::Failed { nodes } if nodes[0].0 == blank_servers[0].url()), "{error}");
    assert_eq!(states(), states_before, "a refused reconfiguration changed a node");
}

#[tokio::test]
async fn an_interrupted_reconfiguration_must_be_repeated() {
    let cluster = Cluster::start(3).await;
    for server in &cluster.servers {
        // The state after the first of the two commands of a reconfiguration: the node must not vote before the second
        // command.
        let epoch = stored_state(server, "").expect("the node belongs to a cluster").epoch;
        server.command(&["SET", "quorlock~epoch", &epoch]);
        server.command(&["HSET", "quorlock~meta", "suspended", "1"]);
    }
    let mut refused = None;
    eventually_async("the client to be refused", async || {
        refused = cluster.builder().connect_lazy().await.err();
        refused.is_some()
    })
    .await;
    let text = refused.expect("the wait has set this value").to_string();
    assert!(text.contains("`quorlock nodes reconfigure` again"), "{text}");
    let client = cluster.builder().reconfigure().await.expect("all nodes can be reached");
    wait_until_all_vote(&client).await;
}

#[tokio::test]
async fn a_reconfigured_single_node_keeps_its_votes_and_votes_at_once() {
    let nodes = MemoryNodes::new(1);
    let builder_with = |max_ttl| builder().memory(&nodes).max_ttl(max_ttl);
    let old_client = builder_with(MAX_TTL).connect_lazy().await.expect("the node is blank");
    let lease = old_client.lock("held").ttl(MAX_TTL).acquire().await.expect("the lock is free");
    let fence = lease.fence().expect("the lease is held");
    let client = builder_with(LONGER_MAX_TTL).reconfigure().await.expect("the node can be reached");
    wait_until_all_vote(&client).await;
    assert!(client.lock("held").try_acquire().await.expect("the node votes").is_none(), "the node lost its vote");
    let new_lease = client.lock("free").acquire().await.expect("the node votes");
    assert!(new_lease.fence().expect("the lease is held") > fence);
}
