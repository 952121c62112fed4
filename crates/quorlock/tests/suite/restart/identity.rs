//! Which events count as memory loss, and which only resemble it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock::{Client, Silence};
use quorlock_testkit::{RedisServer, eventually};

use crate::common::long_leases::{ProxiedCluster, connect_to_all, wait_for_silence, hold_once};
use crate::common::observe::stored_state;

const NAME: &str = "held";

fn epochs(cluster: &ProxiedCluster) -> Vec<String> {
    cluster.servers.iter().map(|server| stored_state(server, NAME).expect("the node belongs to a cluster").epoch).collect()
}

/// Makes `replica` a replica of `master`, and waits until it has the data.
fn attach(replica: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).as_str(), Some("OK"));
    eventually("the replica to have its master's data", || {
        let info = replica.command(&["INFO", "replication"]);
        info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
    });
}

fn detach(replica: &RedisServer) {
    assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]).as_str(), Some("OK"));
}

/// Copies of the first two of three nodes, made before [`NAME`] is held.
struct Copies {
    cluster: ProxiedCluster,
    copies: Vec<RedisServer>,
}

impl Copies {
    async fn make() -> Self {
        let setup = RedisServer::builder().config("repl-diskless-sync-delay", "0");
        let cluster = ProxiedCluster::of_servers(setup.start_many(3)).await;
        let copies = setup.start_many(2);
        for (copy, server) in copies.iter().zip(&cluster.servers) {
            attach(copy, server);
            detach(copy);
        }
        Self { cluster, copies }
    }

    /// Replaces the data of a node with its copy, without closing connections.
    fn roll_back(&self, node: usize) {
        attach(&self.cluster.servers[node], &self.copies[node]);
        detach(&self.cluster.servers[node]);
    }

    /// Leaves only the periodic check to notice a change. Redis 6.2 cannot forbid a single subcommand.
    fn forbid_tracking(&self) {
        for server in &self.cluster.servers {
            assert_eq!(server.cli(&["ACL", "SETUSER", "default", "-client"]), "OK");
        }
    }
}

async fn is_quarantined(client: &Client, node: usize) {
    wait_for_silence(client, node, |why| matches!(why, Silence::Quarantined(_))).await;
}

/// Runs `operation` on two of three nodes, and then everything that a memory loss would stop.
async fn survives(operation: impl Fn(&RedisServer)) {
    let setup = RedisServer::builder().config("repl-diskless-sync-delay", "0");
    let cluster = ProxiedCluster::of_servers(setup.start_many(3)).await;
    let client = connect_to_all(cluster.direct()).await;
    let lease = client.lock(NAME).acquire().await.expect("all nodes vote");
    let before = epochs(&cluster);
    for server in &cluster.servers[..2] {
        operation(server);
    }
    // A new connection is the first to compare the server's identity with the stored one.
    let other = connect_to_all(cluster.direct()).await;
    assert!(other.lock(NAME).try_acquire().await.expect("all nodes vote").is_none());
    hold_once(&other, "other").await;
    lease.extend().await.expect("no node forgot the lease");
    hold_once(&client, "other").await;
    assert_eq!(epochs(&cluster), before, "no node lost its memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_two_of_three_nodes_stops_no_client() {
    survives(|server| {
        let file = server.dir().join("backup.rdb");
        server.cli(&["--rdb", file.to_str().expect("the path is UTF-8")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_replica_that_attaches_and_detaches_stops_no_client() {
    survives(|server| {
        let replica = RedisServer::builder().start();
        attach(&replica, server);
        detach(&replica);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_under_an_idle_connection_gives_no_second_holder() {
    let stage = Copies::make().await;
    let (holder, rival) = (connect_to_all(stage.cluster.direct()).await, connect_to_all(stage.cluster.direct()).await);
    let lease = holder.lock(NAME).acquire().await.expect("all nodes vote");
    stage.roll_back(0);
    stage.roll_back(1);
    let second = rival.lock(NAME).try_acquire().await;
    assert!(!matches!(second, Ok(Some(_))), "two nodes forgot a lease that holds: {lease:?}");
    is_quarantined(&rival, 0).await;
    is_quarantined(&rival, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_noticed_without_tracking_by_an_idle_connection() {
    let stage = Copies::make().await;
    stage.forbid_tracking();
    let client = connect_to_all(stage.cluster.direct()).await;
    stage.roll_back(0);
    is_quarantined(&client, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_noticed_without_tracking_by_a_busy_connection() {
    let stage = Copies::make().await;
    stage.forbid_tracking();
    let client = connect_to_all(stage.cluster.direct()).await;
    let done = Arc::new(AtomicBool::new(false));
    let work = tokio::spawn({
        let (client, done) = (client.clone(), Arc::clone(&done));
        async move {
            while !done.load(Ordering::Relaxed) {
                hold_once(&client, "busy").await;
            }
        }
    });
    stage.roll_back(0);
    is_quarantined(&client, 0).await;
    done.store(true, Ordering::Relaxed);
    work.await.expect("two nodes are a majority throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_a_replica_before_init_lost_no_memory() {
    let setup = RedisServer::builder().config("repl-diskless-sync-delay", "0");
    let (servers, other) = (setup.start_many(3), setup.start());
    attach(&servers[0], &other);
    detach(&servers[0]);
    let cluster = ProxiedCluster::of_servers(servers).await;
    let before = epochs(&cluster);
    hold_once(&connect_to_all(cluster.direct()).await, NAME).await;
    // A first replica resets the fields to zeros.
    let replica = setup.start();
    attach(&replica, &cluster.servers[0]);
    hold_once(&connect_to_all(cluster.direct()).await, NAME).await;
    assert_eq!(epochs(&cluster), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_node_is_noticed_by_an_idle_connection() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    assert_eq!(cluster.servers[0].cli(&["FLUSHALL"]), "OK");
    is_quarantined(&client, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_noticed_with_all_data_kept() {
    let servers = RedisServer::builder().rdb().start_many(3);
    let cluster = ProxiedCluster::of_servers(servers).await;
    let client = connect_to_all(cluster.direct()).await;
    cluster.servers[0].shutdown_save();
    cluster.servers[0].restart();
    is_quarantined(&client, 0).await;
}

/// The ids of the connections that listen for hints.
fn listeners(server: &RedisServer) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    let listening = list.lines().filter(|line| line.contains(" sub=2 "));
    listening.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

/// How often clients have read the state of the node.
fn looks(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hmget:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("the number of calls is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_unchanged_memory_keeps_the_connection() {
    let cluster = ProxiedCluster::start(3).await;
    let _idle = connect_to_all(cluster.direct()).await;
    let busy = connect_to_all(cluster.direct()).await;
    let (before, seen) = (listeners(&cluster.servers[0]), looks(&cluster.servers[0]));
    assert_eq!(before.len(), 2);
    // Scripts read meta, too, but only in handshakes.
    while looks(&cluster.servers[0]) < seen + 4 {
        hold_once(&busy, NAME).await;
    }
    assert_eq!(listeners(&cluster.servers[0]), before);
}
