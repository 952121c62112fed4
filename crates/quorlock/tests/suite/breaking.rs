//! Breaks leases on real servers: without hints, with dead nodes, and locks of other programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_timeouts::{LONG, ProxiedCluster, connect_to_all, expect_soon, wait_for_silence};
use quorlock::{Break, BreakError, Client, LostError, Renewals, Silence, Target};
use quorlock_testkit::RedisServer;

const KEY: &str = "quorlock:job";
const FENCE_KEY: &str = "quorlock~fence:quorlock:job";
/// Renewals that are so frequent that a test can wait for them.
const FREQUENT_RENEWALS: Renewals = Renewals::Watchdog { every: Some(Duration::from_millis(200)), lifetime: LONG };

/// Inspects the lock, and returns the target for a break of its lease.
async fn break_target(client: &Client) -> Target {
    client.inspect("job").await.unwrap().target().expect("the lease is held")
}

/// The string value of a key.
fn value_of(server: &RedisServer, key: &str) -> String {
    server.command(&["GET", key]).as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hints_the_holder_learns_of_a_break_with_its_next_renewal() {
    let cluster = ProxiedCluster::start(3).await;
    for proxy in &cluster.proxies {
        proxy.drop_pushes(true);
    }
    let our_client = connect_to_all(cluster.proxied_builder().renewals(FREQUENT_RENEWALS)).await;
    let their_client = connect_to_all(cluster.direct_builder()).await;
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    their_client.break_lock("job", Break::new(break_target(&their_client).await, "a test").now()).await.unwrap();
    assert_eq!(expect_soon(lease.lost()).await, LostError::Broken);
    assert_eq!(our_client.stats().hints, 0);
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_broken_without_channel_permissions() {
    let cluster = ProxiedCluster::start(3).await;
    for server in &cluster.servers {
        let limited = ["ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels"];
        assert_eq!(server.command(&limited).as_str(), Some("OK"));
    }
    let urls = || cluster.servers.iter().map(|server| format!("redis://limited:secret@{}", server.addr()));
    let our_client = connect_to_all(cluster.direct_builder().nodes(urls()).renewals(FREQUENT_RENEWALS)).await;
    let their_client = connect_to_all(cluster.direct_builder().nodes(urls())).await;
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    their_client.break_lock("job", Break::new(break_target(&their_client).await, "a test")).await.unwrap();
    assert_eq!(expect_soon(lease.lost()).await, LostError::Broken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_needs_a_majority_of_the_nodes() {
    let cluster = ProxiedCluster::start(3).await;
    let (our_client, their_client) =
        (connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await);
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    let target = break_target(&their_client).await;
    for node in [0, 1] {
        cluster.servers[node].kill();
        wait_for_silence(&their_client, node, |silence| !matches!(silence, Silence::Quarantined(_))).await;
    }
    let result = expect_soon(their_client.break_lock("job", Break::new(target, "a test"))).await;
    let Err(BreakError::NoQuorum { tally, .. }) = result else { panic!("{result:?}") };
    assert_eq!((tally.granted(), tally.silent()), (1, 2));
    lease.ensure(Duration::ZERO).unwrap();

    let cluster = ProxiedCluster::start(3).await;
    let (our_client, their_client) =
        (connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await);
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    let target = break_target(&their_client).await;
    cluster.servers[0].kill();
    wait_for_silence(&their_client, 0, |_| true).await;
    let broken = expect_soon(their_client.break_lock("job", Break::new(target, "a test"))).await.unwrap();
    assert_eq!(broken.nodes, 2);
    assert_eq!(expect_soon(lease.lost()).await, LostError::Broken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_another_fence_for_the_lease_breaks_it_as_well() {
    let cluster = ProxiedCluster::start(3).await;
    let (our_client, their_client) =
        (connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await);
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    let fence = lease.fence().unwrap();
    let (record, higher_fence) = (value_of(&cluster.servers[2], FENCE_KEY), (fence.get() + 5).to_string());
    let rest = record.split_once(' ').unwrap().1;
    cluster.servers[2].command(&["SET", FENCE_KEY, &format!("{higher_fence} {rest}"), "PX", "100000"]);
    cluster.servers[0].kill();
    wait_for_silence(&their_client, 0, |_| true).await;
    let broken = expect_soon(their_client.break_lock("job", Break::new(Target::Fence(fence), "a test"))).await.unwrap();
    assert_eq!(broken.nodes, 2);
    assert_eq!(expect_soon(lease.lost()).await, LostError::Broken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_another_program_is_broken_by_its_digest() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    // Another program locks the nodes like a Redlock client, but without an expiry on one node.
    for (node, server) in cluster.servers.iter().enumerate() {
        let expiry: &[&str] = if node == 0 { &[] } else { &["PX", "100000"] };
        server.command(&[&["SET", KEY, "a stranger's", "NX"], expiry].concat());
    }
    let target = break_target(&client).await;
    // The digest is from: printf "a stranger's" | sha1sum
    assert_eq!(target.to_string(), "digest 765842bf8d727e5f");
    client.break_lock("job", Break::new(target, "a test")).await.unwrap();
    for server in &cluster.servers {
        assert_ne!(
            value_of(server, KEY),
            "a stranger's",
            "the key still has the value with which the other program can extend and release it"
        );
        assert!(server.command(&["PTTL", KEY]).as_int().unwrap() > 0, "the key of a broken lock has no expiry");
    }
    assert!(client.lock("job").try_acquire().await.unwrap().is_none());
    client.break_lock("job", Break::new(target, "a test").now()).await.unwrap();
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_lease_is_not_repaired() {
    let cluster = ProxiedCluster::start(3).await;
    let their_client = connect_to_all(cluster.direct_builder()).await;
    let our_client = connect_to_all(cluster.proxied_builder()).await;
    let lease = our_client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    // The holder gets no message, and its renewal is in flight when the lease is broken.
    for proxy in &cluster.proxies {
        proxy.hold(true);
    }
    let renewal = tokio::spawn(async move { lease.extend().await });
    their_client.break_lock("job", Break::new(break_target(&their_client).await, "a test").now()).await.unwrap();
    cluster.wait_until_deleted(KEY).await;
    for proxy in &cluster.proxies {
        proxy.hold(false);
    }
    expect_soon(renewal).await.unwrap().unwrap_err();
    cluster.wait_until_deleted(KEY).await;
}
