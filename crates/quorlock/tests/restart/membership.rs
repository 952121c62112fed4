//! Who belongs to a cluster: the same constants, one name, every server once.

use std::time::Duration;

use quorlock::{ClientBuilder, ConnectError};
use quorlock_testkit::eventually_async;

use crate::common::observe::life;
use crate::common::{Cluster, MAX_TTL, builder};

/// How a client is refused: by which node, and why.
///
/// A connect that gave up on a slow node before it was heard is no refusal: then the next one is.
async fn refusal(builder: ClientBuilder) -> (String, String) {
    let mut refused = None;
    eventually_async("the client to be refused", async || {
        if let Err(ConnectError::Unfit { title, why }) = builder.clone().connect_lazy().await {
            refused = Some((title, why));
        }
        refused.is_some()
    })
    .await;
    refused.expect("waited for")
}

#[tokio::test]
async fn other_constants_are_refused_with_both_values() {
    let cluster = Cluster::ready(5).await;
    let sigma = Duration::from_micros(1_000_250);
    for (other, ours, theirs) in [
        (cluster.builder().nodes(&cluster.urls()[..3]), "nodes of 3", "with 5"),
        (cluster.builder().max_ttl(MAX_TTL * 2), "max_ttl of 6s", "with 3s"),
        (cluster.builder().max_ttl(MAX_TTL * 2).sigma(sigma), "max_ttl of 6s", "with 3s"),
        (cluster.builder().sigma(sigma).backstep(Duration::ZERO), "sigma of 1.00025s", "with 1s"),
    ] {
        let (title, why) = refusal(other).await;
        assert!(title.starts_with("redis://127.0.0.1:"), "{title}");
        assert!(why.contains(ours) && why.contains(theirs), "{why:?} does not say {ours:?} and {theirs:?}");
    }
    // Nothing of it has rubbed off.
    drop(cluster.client().await.lock("fine").acquire().await.expect("the cluster is as it was"));
}

#[tokio::test]
async fn nodes_of_two_clusters_are_refused_with_both_names() {
    let (ours, theirs) = (Cluster::ready(3).await, Cluster::ready(3).await);
    let stranger = &theirs.servers[0];
    let mixed = [ours.servers[0].url(), ours.servers[1].url(), stranger.url()];
    let (title, why) = refusal(builder().nodes(mixed)).await;
    assert_eq!(title, stranger.url());
    let name = |cluster: &Cluster| life(&cluster.servers[0], "").expect("it was declared").cluster;
    let says = format!("it belongs to the cluster {}, the majority of the nodes to {}", name(&theirs), name(&ours));
    assert_eq!(why, says);
}

#[tokio::test]
async fn one_server_does_not_vote_twice() {
    let cluster = Cluster::ready(3).await;
    let [a, b, _] = cluster.urls().try_into().expect("three of them");
    // Another database of one server is not another node.
    let also_a = format!("{a}/1");
    let (title, why) = refusal(builder().nodes([&a, &b, &also_a])).await;
    assert_eq!(title, a);
    assert!(why.contains(&format!("the same server as {a}")), "{why}");
}

#[tokio::test]
async fn blank_nodes_need_init_where_no_majority_knows_the_cluster() {
    let cluster = Cluster::ready(5).await;
    for server in &cluster.servers[2..] {
        server.restart_empty();
    }
    let (_, why) = refusal(cluster.builder()).await;
    assert!(why.contains("no majority") && why.contains("`quorlock nodes init`"), "{why}");
    for server in &cluster.servers[2..] {
        assert_eq!(server.keys("*"), Vec::<String>::new(), "a node was taken in without a majority");
    }
}
