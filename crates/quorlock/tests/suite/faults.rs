//! Nodes that die, freeze, are demoted or run out of memory. The other nodes continue, and errors name the failed nodes
//! and the reasons.

use std::time::Duration;

use crate::common::long_timeouts::{
    ProxiedCluster, connect_to_all, expect_soon, hold_once, missing_nodes, wait_for_silence, wait_until_all_vote,
};
use crate::common::observe::{silence_of, stored_state, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL, lock_keys};
use quorlock::{AcquireError, Client, Fence, LeaseError, NodeVote, Silence, Tally};
use quorlock_testkit::{Aof, RedisServer, eventually, eventually_async};

/// All pairs of these servers.
fn pairs(servers: &[RedisServer]) -> impl Iterator<Item = [&RedisServer; 2]> {
    let pairs_with = move |first: usize| servers[first + 1..].iter().map(move |second| [&servers[first], second]);
    (0..servers.len()).flat_map(pairs_with)
}

/// Tries to acquire. The attempt must fail without a quorum. Returns the tally.
async fn tally_without_quorum(client: &Client) -> Tally {
    match client.lock("job").try_acquire().await {
        Err(AcquireError::NoQuorum { tally, .. }) => tally,
        other => panic!("the attempt found a quorum: {other:?}"),
    }
}

/// Checks that the tallies of failed attempts name these nodes. Repeats the attempt until its tally names no other
/// node, because a slow node may miss the deadline.
async fn assert_names_exactly(client: &Client, servers: &[RedisServer]) {
    eventually_async("all other nodes to answer in time", async || {
        let tally = tally_without_quorum(client).await;
        let missing_urls = missing_nodes(&tally);
        assert!(urls(servers).iter().all(|url| missing_urls.contains(&url.as_str())), "{tally:?}");
        missing_urls == urls(servers)
    })
    .await;
}

/// Checks that the node may vote, and that its quarantine was complete.
fn assert_quarantine_is_over(server: &RedisServer) {
    let state = stored_state(server, "job").expect("the node belongs to a cluster");
    assert!(state.floor.is_some() && state.quarantine_elapsed >= MAX_TTL, "{state:?}");
}

/// Acquires the lock "job", and returns the fence.
async fn next_fence(client: &Client) -> Fence {
    let lease = expect_soon(client.lock("job").acquire()).await.expect("acquire retries until a majority votes");
    lease.fence().expect("the lease is held")
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_frozen_nodes_of_five_are_tolerated() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let mut last_fence = hold_once(&client, "job").await;
    for pair in pairs(&cluster.servers) {
        pair.into_iter().for_each(RedisServer::freeze);
        let fence = hold_once(&client, "job").await;
        assert!(fence > last_fence, "fence {fence} after fence {last_fence}");
        last_fence = fence;
        pair.into_iter().for_each(RedisServer::thaw);
    }
    // The thawed nodes granted too late, and then got the releases.
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_killed_nodes_of_five_are_tolerated() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    for pair in pairs(&cluster.servers) {
        pair.into_iter().for_each(RedisServer::kill);
        hold_once(&client, "job").await;
        pair.into_iter().for_each(RedisServer::restart);
        client.init_cluster().await.unwrap();
    }
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_dead_nodes_are_named_and_the_living_nodes_keep_no_votes() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock("held before").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:held before", &[0, 1, 2, 3, 4]).await;
    let (dead_servers, living_servers) = cluster.servers.split_at(3);
    dead_servers.iter().for_each(RedisServer::kill);

    for _ in 0..3 {
        let tally = expect_soon(tally_without_quorum(&client)).await;
        assert_eq!(missing_nodes(&tally), urls(dead_servers), "{tally:?}");
    }
    let error = expect_soon(client.lock("job").try_acquire()).await.unwrap_err().to_string();
    for url in urls(dead_servers) {
        let reason = error.split("; ").find(|part| part.starts_with(&url));
        let reason = reason.unwrap_or_else(|| panic!("{url} is not named: {error}"));
        assert!(reason.contains("unreachable") || reason.contains("broken"), "{url} without a reason: {error}");
    }
    let Err(LeaseError::NoQuorum { tally, .. }) = expect_soon(lease.extend()).await else {
        panic!("a minority extended the lease")
    };
    assert_eq!(missing_nodes(&tally), urls(dead_servers));
    lease.ensure(Duration::from_secs(1)).expect("a lease outlives the failure of a renewal");
    // Dropping the lease releases its votes on the living nodes.
    drop(lease);
    eventually_async("the living nodes to have no votes", async || {
        living_servers.iter().all(|node| lock_keys(node).is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_frozen_nodes_are_named_and_serve_again_when_thawed() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder().node_deadline(Duration::from_millis(500))).await;
    let lease = client.lock("held before").acquire().await.unwrap();
    let (frozen_servers, _) = cluster.servers.split_at(3);
    frozen_servers.iter().for_each(RedisServer::freeze);

    assert_names_exactly(&client, frozen_servers).await;
    let Err(LeaseError::NoQuorum { tally, .. }) = lease.release().await else {
        panic!("a minority acknowledged the release")
    };
    assert_eq!(missing_nodes(&tally)[..3], urls(frozen_servers), "{tally:?}");
    // Wait until the client has replaced its connections to the frozen nodes. Requests on the old connections may
    // arrive before or after the release.
    for node in 0..3 {
        wait_for_silence(&client, node, |_| true).await;
    }
    assert_names_exactly(&client, frozen_servers).await;

    frozen_servers.iter().for_each(RedisServer::thaw);
    next_fence(&client).await;
    wait_until_all_vote(&client).await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_vote_again_after_their_quarantine() {
    let cluster = Cluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    let fence_before = next_fence(&client).await;
    for server in &cluster.servers[2..] {
        server.kill();
    }
    assert_names_exactly(&client, &cluster.servers[2..]).await;
    for server in &cluster.servers[2..] {
        server.restart();
    }
    assert!(next_fence(&client).await > fence_before, "the fence did not grow");
    wait_until_all_vote(&client).await;
    cluster.servers[2..].iter().for_each(assert_quarantine_is_over);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_node_is_refused_until_it_is_a_master_again() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder()).await;
    let demoted_server = &cluster.servers[0];
    // A replica of a master that does not exist: it keeps its data, but must not vote.
    demoted_server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    eventually_async("the client to notice the demotion", async || {
        next_fence(&client).await;
        silence_of(&client, 0).is_some()
    })
    .await;
    let silence = wait_for_silence(&client, 0, |silence| matches!(silence, Silence::Unfit(_))).await;
    assert!(silence.to_string().contains("replica"), "{silence}");
    assert_eq!(lock_keys(demoted_server), Vec::<String>::new());
    let new_client = cluster.builder().connect().await.expect("two of three nodes are a majority");
    next_fence(&new_client).await;

    demoted_server.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until_all_vote(&client).await;
    // The data of the former replica may be out of date, so the node must have been in quarantine.
    assert_quarantine_is_over(demoted_server);
    next_fence(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_waits_for_a_node_that_loads_its_data() {
    let slow_server = RedisServer::builder()
        .rdb()
        .config("key-load-delay", "20000")
        .config("loading-process-events-interval-bytes", "1024");
    let mut servers = RedisServer::start_many(2);
    servers.push(slow_server.start());
    let fill = "for i = 1, 1000 do redis.call('SET', 'quorlock~filler' .. i, string.rep('x', 100)) end";
    servers[2].command(&["EVAL", fill, "0"]);
    servers[2].save();
    let cluster = ProxiedCluster::with_servers(servers).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| cluster.servers[2].restart());
        eventually("the client to notice that the server loads its data", || {
            let is_noticed = silence_of(&client, 2).is_some_and(|silence| silence.to_string().contains("LOADING"));
            is_noticed || restart.is_finished()
        });
        assert!(!restart.is_finished(), "the server finished loading before the client noticed it");
        cluster.servers[2].command(&["CONFIG", "SET", "key-load-delay", "0"]);
    });
    hold_once(&client, "job").await;
    wait_until_quarantined(&client, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_out_of_memory_refuse_with_the_reason_and_accept_releases() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock("held before").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:held before", &[0, 1, 2, 3, 4]).await;
    for server in &cluster.servers[2..] {
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    let tally = tally_without_quorum(&client).await;
    assert_eq!(missing_nodes(&tally), urls(&cluster.servers[2..]));
    for vote in &tally.votes[2..] {
        assert!(matches!(vote, NodeVote::Silent(Silence::Failed(reason)) if reason.contains("OOM")), "{vote}");
    }
    expect_soon(lease.release()).await.expect("a release needs no memory");
    cluster.wait_until_unlocked().await;
    for server in &cluster.servers[2..] {
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    }
    hold_once(&client, "job").await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_loaded_again_after_a_script_flush() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let flush_scripts = || cluster.servers.iter().for_each(|server| drop(server.command(&["SCRIPT", "FLUSH"])));
    let lease = client.lock("kept").acquire().await.unwrap();
    flush_scripts();
    hold_once(&client, "job").await;
    flush_scripts();
    expect_soon(lease.release()).await.expect("a release is repeated until the scripts are back");
    flush_scripts();
    let second_lease = expect_soon(client.lock("dropped").acquire()).await.unwrap();
    flush_scripts();
    drop(second_lease);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_are_replaced() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock("kept").acquire().await.unwrap();
    for turn in 0..10 {
        for server in &cluster.servers {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        hold_once(&client, &format!("job {turn}")).await;
    }
    lease.ensure(Duration::from_secs(1)).unwrap();
    expect_soon(lease.release()).await.unwrap();
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_for_a_dead_node_is_delivered_after_its_restart() {
    let durable_server = RedisServer::builder().aof(Aof::Always);
    let cluster = ProxiedCluster::with_servers(durable_server.start_many(3)).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:job", &[0, 1, 2]).await;
    cluster.proxies[2].refuse(true);
    cluster.servers[2].kill();
    lease.release().await.expect("two of three nodes acknowledge");

    cluster.servers[2].restart();
    cluster.wait_for_key_on("quorlock:job", &[2]).await;
    cluster.proxies[2].refuse(false);
    // The restarted node is in quarantine for longer than this test takes, but it accepts releases.
    cluster.wait_until_unlocked().await;
    wait_until_quarantined(&client, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_reports_releases_that_were_not_delivered() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:job", &[0, 1, 2]).await;
    cluster.servers[1].freeze();
    expect_soon(lease.release()).await.expect("two of three nodes acknowledge");
    let undelivered = client.close(Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(undelivered.owed, 1, "{undelivered}");
    cluster.servers[1].thaw();
    cluster.wait_until_unlocked().await;
}
