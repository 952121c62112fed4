//! New constants for a cluster in use: no lease with the new constants before the last one with the old constants has
//! ended.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, ConnectError, MemoryNodes, ReconfigureError};
use quorlock_testkit::{RedisServer, eventually_async};

use crate::common::long_leases::wait_until_all_vote;
use crate::common::observe::{stored_state, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL, TTL, builder};

const LONGER: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_constants_take_effect_after_the_longer_quarantine() {
    let cluster = Cluster::start(3).await;
    let before = cluster.client().await;
    let lease = before.lock("job").ttl(TTL).acquire().await.expect("all nodes vote");
    let fence = lease.fence().expect("the lease is held");

    let told = Instant::now();
    let client = cluster.builder().max_ttl(LONGER).reconfigure().await.expect("all nodes can be reached");
    for node in 0..3 {
        wait_until_quarantined(&client, node).await;
    }
    let refused = client.lock("job").try_acquire().await.expect_err("no node may vote");
    assert!(matches!(refused, AcquireError::NoQuorum { .. }), "{refused}");
    lease.lost().await;
    eventually_async("those with the old constants to be refused", async || {
        let refused = cluster.builder().connect_lazy().await;
        matches!(refused, Err(error @ ConnectError::Unfit { .. }) if error.to_string().contains("max_ttl of 3s"))
    })
    .await;

    wait_until_all_vote(&client).await;
    assert!(told.elapsed() >= LONGER, "they vote {:?} later", told.elapsed());
    let next = client.lock("job").ttl(LONGER).acquire().await.expect("all nodes vote");
    assert!(next.fence().expect("the lease is held") > fence);
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
async fn reconfigure_needs_every_node_and_a_majority_of_the_old_ones() {
    let cluster = Cluster::start(5).await;
    let blank = RedisServer::start_many(3);
    let urls = |servers: &[RedisServer]| servers.iter().map(RedisServer::url).collect::<Vec<_>>();
    let lives = || cluster.servers.iter().map(|server| stored_state(server, "")).collect::<Vec<_>>();
    let before = lives();
    let try_with = async |urls: Vec<String>| builder().nodes(urls).reconfigure().await.expect_err("the reconfiguration is refused");

    assert_eq!(try_with(urls(&blank)).await, ReconfigureError::Blank);
    let few = [urls(&cluster.servers[..2]), urls(&blank[..1])].concat();
    assert_eq!(try_with(few).await, ReconfigureError::Minority { present: 2, cluster_nodes: 5 });
    let others = Cluster::start(1).await;
    let mixed = [urls(&cluster.servers[..4]), others.urls()].concat();
    assert_eq!(try_with(mixed).await, ReconfigureError::Mixed);
    blank[0].kill();
    let dead = try_with([urls(&cluster.servers), urls(&blank[..1])].concat()).await;
    assert!(matches!(&dead, ReconfigureError::Failed { nodes } if nodes[0].0 == blank[0].url()), "{dead}");
    assert_eq!(lives(), before, "nothing was changed");
}

#[tokio::test]
async fn an_interrupted_reconfiguration_must_be_repeated() {
    let cluster = Cluster::start(3).await;
    for server in &cluster.servers {
        // The state after the first of the two commands: quarantined, and waiting for the second.
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
    let why = refused.expect("the wait has set this value").to_string();
    assert!(why.contains("`quorlock nodes reconfigure` once more"), "{why}");
    let client = cluster.builder().reconfigure().await.expect("all nodes can be reached");
    wait_until_all_vote(&client).await;
}

#[tokio::test]
async fn a_single_node_has_lost_nothing_and_votes_at_once() {
    let nodes = MemoryNodes::new(1);
    let of = |max_ttl| builder().memory(&nodes).max_ttl(max_ttl);
    let before = of(MAX_TTL).connect_lazy().await.expect("the node is blank");
    let held = before.lock("held").ttl(MAX_TTL).acquire().await.expect("the lock is free");
    let fence = held.fence().expect("the lease is held");
    let client = of(LONGER).reconfigure().await.expect("the node can be reached");
    wait_until_all_vote(&client).await;
    assert!(client.lock("held").try_acquire().await.expect("the node votes").is_none(), "its vote is kept");
    let free = client.lock("free").acquire().await.expect("the node votes");
    assert!(free.fence().expect("the lease is held") > fence);
}
