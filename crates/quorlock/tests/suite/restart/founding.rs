//! New clusters: clients make a cluster of blank nodes (servers without data of quorlock), or an operator initializes
//! the nodes.

use std::collections::BTreeSet;

use quorlock::{Client, ConnectError, ReconfigureError, Retry};
use quorlock_testkit::{RedisServer, Reply};

use crate::common::long_timeouts::wait_until_all_vote;
use crate::common::observe::stored_state;
use crate::common::{Cluster, builder};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_connect_to_blank_nodes_at_the_same_time_create_one_cluster() {
    let cluster = Cluster { servers: RedisServer::start_many(5) };
    let connecting: Vec<_> = (0..6).map(|_| tokio::spawn(cluster.builder().connect_lazy())).collect();
    let mut clients: Vec<Client> = Vec::new();
    for connected in connecting {
        let connected: Result<_, ConnectError> = connected.await.expect("connect does not panic");
        clients.push(connected.expect("every client can connect"));
    }
    // The nodes of a new cluster start in quarantine, because a blank node may have lost its memory just before.
    for client in &clients {
        wait_until_all_vote(client).await;
    }
    let states = cluster.servers.iter().map(|server| stored_state(server, "").expect("the node belongs to a cluster"));
    let names: BTreeSet<String> = states.map(|state| state.cluster).collect();
    assert_eq!(names.len(), 1, "the nodes belong to different clusters: {names:?}");

    let lease = clients[0].lock("first").acquire().await.expect("all nodes vote");
    for other_client in &clients[1..] {
        assert!(other_client.lock("first").try_acquire().await.expect("all nodes vote").is_none());
    }
    drop(lease);
}

#[tokio::test]
async fn init_needs_every_node_and_changes_nothing_otherwise() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client().await;
    cluster.servers[2].kill();
    let (data_before, blank_servers) = (node_data(&cluster.servers[..2]), RedisServer::start_many(3));
    blank_servers[2].kill();
    let new_client = builder()
        .nodes(blank_servers.iter().map(RedisServer::url))
        .connect_lazy()
        .await
        .expect("connect_lazy accepts unreachable nodes");

    for (client, dead_server) in [(&client, &cluster.servers[2]), (&new_client, &blank_servers[2])] {
        let Err(ReconfigureError::Failed { nodes: failed_nodes }) = client.init_cluster().await else {
            panic!("init_cluster succeeded without a node")
        };
        let names: Vec<&str> = failed_nodes.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(names, [dead_server.url()]);
    }
    assert_eq!(node_data(&cluster.servers[..2]), data_before);
    for server in &blank_servers[..2] {
        assert_eq!(server.keys("*"), Vec::<String>::new());
    }
}

/// All data that the servers store about themselves as nodes.
fn node_data(servers: &[RedisServer]) -> Vec<[Reply; 2]> {
    let read = |server: &RedisServer| {
        [server.command(&["GET", "quorlock~epoch"]), server.command(&["HGETALL", "quorlock~meta"])]
    };
    servers.iter().map(read).collect()
}

#[tokio::test]
async fn all_nodes_vote_when_init_returns() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client().await;
    let lock = client.lock("at once").retry(Retry::ONCE);
    for _ in 0..20 {
        client.init_cluster().await.expect("all nodes can be reached");
        let lease = lock.acquire().await.expect("all nodes vote");
        lease.release().await.expect("all nodes answer");
    }
}
