//! Membership: all nodes of a cluster have the same constants and the same cluster name, and each server has one vote.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, ConnectError, Silence};
use quorlock_testkit::eventually_async;

use crate::common::long_timeouts::wait_for_silence;
use crate::common::observe::stored_state;
use crate::common::{Cluster, MAX_TTL, builder};

/// Tries to connect, which must fail. Returns the unfit nodes, each with the reason.
///
/// Tries again if a slow node has not replied in time, because `connect_lazy` then succeeds.
async fn unfit_nodes(builder: ClientBuilder) -> Vec<(String, String)> {
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

/// Connects to a cluster with an unfit node, and acquires a lock without it. Returns the client and the reason.
async fn connect_with_unfit_node(builder: ClientBuilder, node: usize) -> (Client, String) {
    let client = builder.connect_lazy().await.expect("the other nodes are a majority");
    let reason = wait_for_silence(&client, node, |silence| matches!(silence, Silence::Unfit(_))).await.to_string();
    client.lock("a").acquire().await.expect("a majority votes").release().await.expect("a majority answers");
    (client, reason)
}

#[tokio::test]
async fn other_constants_are_refused_with_both_values() {
    let cluster = Cluster::start(5).await;
    let max_clock_skew = Duration::from_micros(1_000_250);
    for (other_builder, own_value, node_value) in [
        (cluster.builder().nodes(&cluster.urls()[..3]), "lists 3 nodes", "has 5"),
        (cluster.builder().max_ttl(MAX_TTL * 2), "max_ttl of 6s", "has 3s"),
        (cluster.builder().max_ttl(MAX_TTL * 2).max_clock_skew(max_clock_skew), "max_ttl of 6s", "has 3s"),
        (
            cluster.builder().max_clock_skew(max_clock_skew).max_clock_step_back(Duration::ZERO),
            "max_clock_skew of 1.00025s",
            "has 1s",
        ),
    ] {
        for (title, reason) in unfit_nodes(other_builder).await {
            assert!(title.starts_with("redis://127.0.0.1:"), "{title}");
            assert!(
                reason.contains(own_value) && reason.contains(node_value),
                "{reason:?} does not contain {own_value:?} and {node_value:?}"
            );
        }
    }
    // The refused clients have not changed the cluster.
    drop(cluster.client().await.lock("job").acquire().await.expect("the cluster is unchanged"));
}

#[tokio::test]
async fn a_node_of_another_cluster_does_not_vote() {
    let clusters = [Cluster::start(3).await, Cluster::start(3).await, Cluster::start(3).await];
    let [our_cluster, their_cluster, _] = &clusters;
    let foreign_node = &their_cluster.servers[0];
    let mixed_urls = [our_cluster.servers[0].url(), our_cluster.servers[1].url(), foreign_node.url()];
    let (_client, reason) = connect_with_unfit_node(builder().nodes(mixed_urls), 2).await;
    let cluster_name =
        |cluster: &Cluster| stored_state(&cluster.servers[0], "").expect("the node belongs to a cluster").cluster;
    let expected = format!(
        "it belongs to the cluster {}, but the majority of the nodes belongs to {}",
        cluster_name(their_cluster),
        cluster_name(our_cluster)
    );
    assert_eq!(reason, format!("unfit: {expected}"));
    assert_eq!(foreign_node.keys("quorlock~fence:*"), Vec::<String>::new());

    let refused_nodes = unfit_nodes(builder().nodes(clusters.iter().map(|cluster| cluster.servers[0].url()))).await;
    assert_eq!(refused_nodes.len(), 3, "not all nodes of three different clusters are unfit: {refused_nodes:?}");
}

#[tokio::test]
async fn a_server_with_two_urls_has_one_vote() {
    let cluster = Cluster::start(3).await;
    let [url_a, url_b, _] = cluster.urls().try_into().expect("there are three nodes");
    let alias = url_a.replace("127.0.0.1", "localhost");
    let client = builder().nodes([&url_a, &url_b, &alias]).connect_lazy().await.expect("two servers are a majority");
    eventually_async("one of the two URLs to be refused", async || {
        let nodes = client.nodes();
        let silences = [&nodes[0].1, &nodes[2].1].into_iter().flatten();
        silences.filter(|silence| silence.to_string().contains("one server must not vote twice")).count() == 1
    })
    .await;
    client.lock("a").acquire().await.expect("a majority votes").release().await.expect("a majority answers");
    // Two databases of one server are not two nodes.
    let refused_nodes = unfit_nodes(builder().nodes([&url_a, &format!("{url_a}/1"), &format!("{url_a}/2")])).await;
    assert!(
        refused_nodes.iter().all(|(_, reason)| reason.contains(&format!("the same server as {url_a}"))),
        "{refused_nodes:?}"
    );
}

#[tokio::test]
async fn blank_nodes_need_init_if_no_majority_belongs_to_the_cluster() {
    let cluster = Cluster::start(5).await;
    for server in &cluster.servers[2..] {
        server.restart_empty();
    }
    let reason = unfit_nodes(cluster.builder()).await.remove(0).1;
    assert!(reason.contains("no majority") && reason.contains("`quorlock nodes init`"), "{reason}");
    for server in &cluster.servers[2..] {
        assert_eq!(server.keys("*"), Vec::<String>::new(), "a blank node joined the cluster without a majority");
    }
}
