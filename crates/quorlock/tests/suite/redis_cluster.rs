//! A Redis Cluster as a single node: tests which master has the keys of a name, and what happens to leases and fences
//! when masters or hash slots change.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use quorlock::{Client, ConnectError, Filter, LeaseError, LostError};
use quorlock_testkit::{RedisCluster, RedisServer, eventually_async};

use crate::common::long_timeouts;

/// A maximum clock skew that puts fences so far ahead of the clocks that they do not grow with time during a test.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

async fn connect(cluster: &RedisCluster) -> Client {
    long_timeouts::builder().max_clock_skew(MAX_CLOCK_SKEW).nodes([cluster.url()]).connect().await.unwrap()
}

#[tokio::test]
async fn all_keys_of_a_name_share_a_hash_slot_even_if_the_name_has_braces() {
    let cluster = RedisCluster::start(3);
    for template in ["quorlock:{name}", "{name}", "lock:{{name}}"] {
        let client = long_timeouts::builder().nodes([cluster.url()]).key_template(template).connect().await.unwrap();
        for name in ["a", "b", "{c}d", "{}e", "f}g", "h{i", "}{", "{{j}}", "{}}k{l}", "ü"] {
            let key = template.replace("{name}", name);
            let master = cluster.master_of(&key);
            // The reader and the waiter create all kinds of keys: the vote, a fence, entries, a queue and a tombstone.
            let reader = client.rw(name).read().acquire().await.unwrap();
            assert!(client.lock(name).acquire_within(Duration::from_millis(50)).await.is_err());
            assert_eq!(master.command(&["EXISTS", &key]).as_int(), Some(1), "{key}");
            reader.release().await.unwrap();
            let lease = client.lock(name).plain().acquire().await.unwrap();
            assert_eq!(master.command(&["EXISTS", &key]).as_int(), Some(1), "{key}");
            lease.release().await.unwrap();
        }
    }
    // Every master has keys, and only keys in its own hash slots.
    for master in &cluster.masters {
        let keys = master.keys("quorlock~fence:*");
        assert!(!keys.is_empty());
        for key in keys {
            assert_eq!(cluster.master_of(&key).port(), master.port(), "{key}");
        }
    }
}

#[tokio::test]
async fn a_listing_has_the_names_of_every_master() {
    let cluster = RedisCluster::start(3);
    for template in ["{name}", "quorlock:{name}"] {
        let client = long_timeouts::builder().nodes([cluster.url()]).key_template(template).connect().await.unwrap();
        let mut leases = Vec::new();
        for name in ["a", "b", "c", "{d}", "}e"] {
            leases.push(client.lock(name).acquire().await.unwrap());
        }
        for master in &cluster.masters {
            assert!(!master.keys("quorlock~fence:*").is_empty());
        }
        let listing = client.list(&Filter::default()).await.unwrap();
        let names: Vec<&str> = listing.names.iter().map(|inspection| inspection.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "{d}", "}e"], "with {template}");
        for lease in leases {
            lease.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_client_finds_a_lock_whose_hash_slot_was_moved() {
    let cluster = RedisCluster::start(3);
    let client = connect(&cluster).await;
    let lease = client.lock("held").acquire().await.unwrap();
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    let old_master = cluster.master_of("quorlock:moved");
    let new_master = cluster.masters.iter().find(|master| master.port() != old_master.port()).unwrap();
    cluster.move_slot("quorlock:moved", new_master);
    let moved_lease = client.lock("moved").acquire().await.unwrap();
    assert_eq!(new_master.command(&["EXISTS", "quorlock:moved"]).as_int(), Some(1));
    moved_lease.release().await.unwrap();
    lease.extend().await.unwrap();
}

#[tokio::test]
async fn a_redirected_request_is_sent_again() {
    let cluster = RedisCluster::start(3);
    let client = connect(&cluster).await;
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    let old_master = cluster.master_of("quorlock:moved");
    let new_master = cluster.masters.iter().find(|master| master.port() != old_master.port()).unwrap();
    cluster.move_slot("quorlock:moved", new_master);
    // There is one attempt, and the first reply is a redirection.
    let lease = client.lock("moved").try_acquire().await.unwrap().expect("the lock is free");
    assert_eq!(new_master.command(&["EXISTS", "quorlock:moved"]).as_int(), Some(1));
    lease.release().await.unwrap();
}

#[tokio::test]
async fn an_idle_client_notices_a_graceful_failover() {
    let cluster = RedisCluster::start_with_replicas(1);
    let client = connect(&cluster).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let restarts = async || client.node_stats().remove(0).restarts;
    assert_eq!(restarts().await, 0);
    let replica = &cluster.replicas[0];
    replica.catch_up_with(&cluster.masters[0]);
    assert_eq!(replica.command(&["CLUSTER", "FAILOVER"]).as_str(), Some("OK"));
    eventually_async("the client to notice the restart of its node", async || restarts().await == 1).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn fences_grow_across_a_failover_and_a_replicated_lease_survives() {
    let cluster = RedisCluster::start_with_replicas(1);
    let client = connect(&cluster).await;
    let lease = client.lock("kept").acquire().await.unwrap();
    let first_lease = client.lock("next").acquire().await.unwrap();
    let fence = first_lease.fence().unwrap();
    first_lease.release().await.unwrap();
    cluster.replicas[0].catch_up_with(&cluster.masters[0]);
    cluster.masters[0].kill();
    cluster.take_over(&cluster.replicas[0]);
    let next_lease = client.lock("next").acquire().await.unwrap();
    assert!(next_lease.fence().unwrap() > fence);
    eventually_async("an extension to succeed", async || lease.extend().await.is_ok()).await;
    let rival = connect(&cluster).await;
    assert!(rival.lock("kept").try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn a_lease_that_a_master_forgot_is_lost_and_the_next_lease_has_a_higher_fence() {
    let cluster = RedisCluster::start(2);
    let client = connect(&cluster).await;
    for master in &cluster.masters {
        let is_on_master = |name: &&str| cluster.master_of(&format!("quorlock:{name}")).port() == master.port();
        let name = ["a", "b", "c", "d"].into_iter().find(is_on_master).unwrap();
        let lease = client.lock(name).acquire().await.unwrap();
        let fence = lease.fence().unwrap();
        // The master restarts without its data, and with the same hash slots.
        master.restart();
        let rival = connect_when_available(&cluster).await;
        let rival_lease = rival.lock(name).acquire().await.unwrap();
        assert!(rival_lease.fence().unwrap() > fence, "{name}");
        eventually_async("the first client to lose its lease", async || {
            matches!(lease.extend().await, Err(LeaseError::Lost(LostError::Removed)))
        })
        .await;
        rival_lease.release().await.unwrap();
    }
}

/// Connects, and waits until the cluster is available.
async fn connect_when_available(cluster: &RedisCluster) -> Client {
    let client = connect(cluster).await;
    eventually_async("the cluster to be available", async || client.nodes()[0].1.is_none()).await;
    client
}

#[tokio::test]
async fn a_waiter_receives_hints_from_every_master() {
    let cluster = RedisCluster::start(3);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    for name in ["a", "b", "c", "d", "e", "f"] {
        let hints_before = waiter.stats().hints;
        let lease = holder.lock(name).acquire().await.unwrap();
        let lock = waiter.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually_async("the waiter to be queued", async || {
            let inspection = holder.inspect(name).await.unwrap();
            inspection.nodes.iter().all(|(_, report)| report.as_ref().is_ok_and(|report| report.waiting == 1))
        })
        .await;
        lease.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(waiter.stats().hints > hints_before, "{name}");
    }
}

#[tokio::test]
async fn a_url_of_the_wrong_kind_is_refused_for_single_servers_and_cluster_masters() {
    let server = RedisServer::start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = long_timeouts::builder().nodes([url]).connect().await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Unfit { .. } if error.to_string().contains("not part of a Redis Cluster")),
        "{error}"
    );
    let cluster = RedisCluster::start(1);
    let error = long_timeouts::builder().nodes([cluster.masters[0].url()]).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Unfit { .. } if error.to_string().contains("redis+cluster://")), "{error}");
}
