//! Membership: the nodes of a cluster have the same constants and the same name, and each server counts once.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, ConnectError, Silence};
use quorlock_testkit::eventually_async;

use crate::common::long_leases::wait_for_silence;
use crate::common::observe::stored_state;
use crate::common::{Cluster, MAX_TTL, builder};

/// The nodes for which a client is refused, each with the reason.
///
/// Retries if a slow node did not reply in time, because that is no refusal.
async fn refusal(builder: ClientBuilder) -> Vec<(String, String)> {
    let mut refused = Vec::new();
    eventually_async("the client to be refused", async || {
        if let Err(ConnectError::Unfit { nodes }) = builder.clone().connect_lazy().await {
            refused = nodes;
        }
        !refused.is_empty()
    })
    .await;
    refused
}

/// A client that works without one node, and the reason that it reports.
async fn without(builder: ClientBuilder, node: usize) -> (Client, String) {
    let client = builder.connect_lazy().await.expect("the other nodes are a majority");
    let why = wait_for_silence(&client, node, |why| matches!(why, Silence::Unfit(_))).await.to_string();
    client.lock("a").acquire().await.expect("a majority votes").release().await.expect("a majority answers");
    (client, why)
}

#[tokio::test]
async fn other_constants_are_refused_with_both_values() {
    let cluster = Cluster::start(5).await;
    let max_clock_skew = Duration::from_micros(1_000_250);
    for (other, ours, theirs) in [
        (cluster.builder().nodes(&cluster.urls()[..3]), "lists 3 nodes", "has 5"),
        (cluster.builder().max_ttl(MAX_TTL * 2), "max_ttl of 6s", "has 3s"),
        (cluster.builder().max_ttl(MAX_TTL * 2).max_clock_skew(max_clock_skew), "max_ttl of 6s", "has 3s"),
        (
            cluster.builder().max_clock_skew(max_clock_skew).max_clock_step_back(Duration::ZERO),
            "max_clock_skew of 1.00025s",
            "has 1s",
        ),
    ] {
        for (title, why) in refusal(other).await {
            assert!(title.starts_with("redis://127.0.0.1:"), "{title}");
            assert!(why.contains(ours) && why.contains(theirs), "{why:?} does not say {ours:?} and {theirs:?}");
        }
    }
    // The refused client has changed nothing.
    drop(cluster.client().await.lock("fine").acquire().await.expect("the cluster is unchanged"));
}

#[tokio::test]
async fn a_node_of_another_cluster_does_not_vote() {
    let clusters = [Cluster::start(3).await, Cluster::start(3).await, Cluster::start(3).await];
    let [ours, theirs, _] = &clusters;
    let stranger = &theirs.servers[0];
    let mixed = [ours.servers[0].url(), ours.servers[1].url(), stranger.url()];
    let (_client, why) = without(builder().nodes(mixed), 2).await;
    let name = |cluster: &Cluster| stored_state(&cluster.servers[0], "").expect("the node belongs to a cluster").cluster;
    let says =
        format!("it belongs to the cluster {}, but the majority of the nodes belongs to {}", name(theirs), name(ours));
    assert_eq!(why, format!("unfit: {says}"));
    assert_eq!(stranger.keys("quorlock~fence:*"), Vec::<String>::new());

    let refused = refusal(builder().nodes(clusters.iter().map(|cluster| cluster.servers[0].url()))).await;
    assert_eq!(refused.len(), 3, "no two of them belong together: {refused:?}");
}

#[tokio::test]
async fn one_server_does_not_vote_twice() {
    let cluster = Cluster::start(3).await;
    let [a, b, _] = cluster.urls().try_into().expect("there are three nodes");
    let alias = a.replace("127.0.0.1", "localhost");
    let client = builder().nodes([&a, &b, &alias]).connect_lazy().await.expect("two servers are a majority");
    eventually_async("one of them to be refused", async || {
        let nodes = client.nodes();
        let twins = [&nodes[0].1, &nodes[2].1].into_iter().flatten();
        twins.filter(|why| why.to_string().contains("one server must not vote twice")).count() == 1
    })
    .await;
    client.lock("a").acquire().await.expect("a majority votes").release().await.expect("a majority answers");
    // Another database of one server is not another node.
    let refused = refusal(builder().nodes([&a, &format!("{a}/1"), &format!("{a}/2")])).await;
    assert!(refused.iter().all(|(_, why)| why.contains(&format!("the same server as {a}"))), "{refused:?}");
}

#[tokio::test]
async fn blank_nodes_need_init_where_no_majority_knows_the_cluster() {
    let cluster = Cluster::start(5).await;
    for server in &cluster.servers[2..] {
        server.restart_empty();
    }
    let why = refusal(cluster.builder()).await.remove(0).1;
    assert!(why.contains("no majority") && why.contains("`quorlock nodes init`"), "{why}");
    for server in &cluster.servers[2..] {
        assert_eq!(server.keys("*"), Vec::<String>::new(), "a node was taken in without a majority");
    }
}
