//! Clients notice a memory loss, and do not take other events for a memory loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock::{Client, Silence};
use quorlock_testkit::{RedisServer, eventually};

use crate::common::long_timeouts::{ProxiedCluster, connect_to_all, hold_once, wait_for_silence};
use crate::common::observe::stored_state;

const NAME: &str = "held";

fn epochs(cluster: &ProxiedCluster) -> Vec<String> {
    cluster
        .servers
        .iter()
        .map(|server| stored_state(server, NAME).expect("the node belongs to a cluster").epoch)
        .collect()
}

/// Makes `replica` a replica of `master`, and waits until the replica has the data of the master.
fn make_replica(replica: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).as_str(), Some("OK"));
    eventually("the replica to have its master's data", || {
        let info = replica.command(&["INFO", "replication"]);
        info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
    });
}

/// Makes a replica a master again. The server keeps its data.
fn make_master(replica: &RedisServer) {
    assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]).as_str(), Some("OK"));
}

/// A cluster of three nodes, and copies of the first two nodes, made while nobody held [`NAME`].
struct CopiedCluster {
    cluster: ProxiedCluster,
    copies: Vec<RedisServer>,
}

impl CopiedCluster {
    async fn start() -> Self {
        let server_builder = RedisServer::builder().config("repl-diskless-sync-delay", "0");
        let cluster = ProxiedCluster::with_servers(server_builder.start_many(3)).await;
        let copies = server_builder.start_many(2);
        for (copy, server) in copies.iter().zip(&cluster.servers) {
            make_replica(copy, server);
            make_master(copy);
        }
        Self { cluster, copies }
    }

    /// Replaces the data of a node with its copy. The connections of clients stay open.
    fn roll_back(&self, node: usize) {
        make_replica(&self.cluster.servers[node], &self.copies[node]);
        make_master(&self.cluster.servers[node]);
    }

    /// Forbids `CLIENT TRACKING`, with which a server tells clients that the node's epoch has changed. Clients can then
    /// notice a rollback only by their periodic check. Forbids the whole CLIENT command, because Redis 6.2 cannot
    /// forbid a subcommand.
    fn forbid_tracking(&self) {
        for server in &self.cluster.servers {
            assert_eq!(server.cli(&["ACL", "SETUSER", "default", "-client"]), "OK");
        }
    }
}

/// Waits until the client reports the quarantine of the node.
async fn wait_until_quarantined(client: &Client, node: usize) {
    wait_for_silence(client, node, |silence| matches!(silence, Silence::Quarantined(_))).await;
}

/// Runs `operation` on two of three nodes. Checks that clients keep and acquire leases, which a memory loss would
/// prevent.
async fn assert_no_memory_loss(operation: impl Fn(&RedisServer)) {
    let server_builder = RedisServer::builder().config("repl-diskless-sync-delay", "0");
    let cluster = ProxiedCluster::with_servers(server_builder.start_many(3)).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock(NAME).acquire().await.expect("all nodes vote");
    let epochs_before = epochs(&cluster);
    for server in &cluster.servers[..2] {
        operation(server);
    }
    // A new connection compares the identity of the server with the stored identity.
    let new_client = connect_to_all(cluster.direct_builder()).await;
    assert!(new_client.lock(NAME).try_acquire().await.expect("all nodes vote").is_none());
    hold_once(&new_client, "other").await;
    lease.extend().await.expect("no node forgot the lease");
    hold_once(&client, "other").await;
    assert_eq!(epochs(&cluster), epochs_before, "a client believes that a node has restarted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_two_of_three_nodes_stops_no_client() {
    assert_no_memory_loss(|server| {
        let file = server.dir().join("backup.rdb");
        server.cli(&["--rdb", file.to_str().expect("the path is UTF-8")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_attaches_and_detaches_stops_no_client() {
    assert_no_memory_loss(|server| {
        let replica = RedisServer::builder().start();
        make_replica(&replica, server);
        make_master(&replica);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_under_an_idle_connection_gives_no_second_holder() {
    let copied = CopiedCluster::start().await;
    let (holder, rival) =
        (connect_to_all(copied.cluster.direct_builder()).await, connect_to_all(copied.cluster.direct_builder()).await);
    let lease = holder.lock(NAME).acquire().await.expect("all nodes vote");
    copied.roll_back(0);
    copied.roll_back(1);
    let second_attempt = rival.lock(NAME).try_acquire().await;
    assert!(!matches!(second_attempt, Ok(Some(_))), "a second client got the lock while this lease is held: {lease:?}");
    wait_until_quarantined(&rival, 0).await;
    wait_until_quarantined(&rival, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tracking_an_idle_connection_notices_a_rollback() {
    let copied = CopiedCluster::start().await;
    copied.forbid_tracking();
    let client = connect_to_all(copied.cluster.direct_builder()).await;
    copied.roll_back(0);
    wait_until_quarantined(&client, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tracking_a_busy_connection_notices_a_rollback() {
    let copied = CopiedCluster::start().await;
    copied.forbid_tracking();
    let client = connect_to_all(copied.cluster.direct_builder()).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let work = tokio::spawn({
        let (client, is_done) = (client.clone(), Arc::clone(&is_done));
        async move {
            while !is_done.load(Ordering::Relaxed) {
                hold_once(&client, "busy").await;
            }
        }
    });
    copied.roll_back(0);
    wait_until_quarantined(&client, 0).await;
    is_done.store(true, Ordering::Relaxed);
    work.await.expect("two nodes are a majority throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_a_replica_before_init_lost_no_memory() {
    let server_builder = RedisServer::builder().config("repl-diskless-sync-delay", "0");
    let (servers, other_master) = (server_builder.start_many(3), server_builder.start());
    make_replica(&servers[0], &other_master);
    make_master(&servers[0]);
    let cluster = ProxiedCluster::with_servers(servers).await;
    let epochs_before = epochs(&cluster);
    hold_once(&connect_to_all(cluster.direct_builder()).await, NAME).await;
    // When a server gets its first replica, it sets the fields about its own earlier master to zeros.
    let replica = server_builder.start();
    make_replica(&replica, &cluster.servers[0]);
    hold_once(&connect_to_all(cluster.direct_builder()).await, NAME).await;
    assert_eq!(epochs(&cluster), epochs_before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_notices_that_a_node_was_emptied() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    assert_eq!(cluster.servers[0].cli(&["FLUSHALL"]), "OK");
    wait_until_quarantined(&client, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_notices_a_restart_that_keeps_all_data() {
    let servers = RedisServer::builder().rdb().start_many(3);
    let cluster = ProxiedCluster::with_servers(servers).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    cluster.servers[0].shutdown_save();
    cluster.servers[0].restart();
    wait_until_quarantined(&client, 0).await;
}

/// The ids of the connections that are subscribed to hints.
fn subscribed_connections(server: &RedisServer) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    let subscribed = list.lines().filter(|line| line.contains(" sub=2 "));
    subscribed.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

/// How often clients have read the state of the node.
fn state_read_count(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hmget:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("the number of calls is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_unchanged_memory_keeps_the_connection() {
    let cluster = ProxiedCluster::start(3).await;
    let _idle_client = connect_to_all(cluster.direct_builder()).await;
    let busy_client = connect_to_all(cluster.direct_builder()).await;
    let (connections_before, reads_before) =
        (subscribed_connections(&cluster.servers[0]), state_read_count(&cluster.servers[0]));
    assert_eq!(connections_before.len(), 2);
    // The scripts of a handshake read the state, too, but there is no handshake here.
    while state_read_count(&cluster.servers[0]) < reads_before + 4 {
        hold_once(&busy_client, NAME).await;
    }
    assert_eq!(subscribed_connections(&cluster.servers[0]), connections_before);
}

/// A policy that evicts only keys with a time to live evicts votes, but keeps the epoch of the node.
#[tokio::test]
async fn a_server_that_evicted_a_vote_is_quarantined() {
    let cluster = ProxiedCluster::with_servers(RedisServer::start_many(3)).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock(NAME).acquire().await.expect("all nodes vote");
    let server = &cluster.servers[0];
    let vote_exists = || stored_state(server, NAME).is_some_and(|state| state.has_vote);
    eventually("the node to store the vote", vote_exists);
    let set = |name: &str, value: &str| {
        assert_eq!(server.command(&["CONFIG", "SET", name, value]).as_str(), Some("OK"));
    };
    set("maxmemory-policy", "volatile-ttl");
    set("maxmemory", "1");
    // Each write evicts keys first. The write itself fails, because the other keys still use too much memory.
    eventually("the server to evict the vote", || {
        let _ = server.try_command(&["SET", "filler", "x"]);
        !vote_exists()
    });
    set("maxmemory", "0");
    wait_for_silence(&client, 0, |silence| matches!(silence, Silence::Unfit(_))).await;
    set("maxmemory-policy", "noeviction");
    wait_until_quarantined(&client, 0).await;
    lease.release().await.expect("the other two nodes answer");
}
