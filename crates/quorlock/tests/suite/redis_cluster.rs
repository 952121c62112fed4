//! A Redis Cluster as a single trusted node: where keys are, and what happens to leases and fences when it changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use quorlock::{Client, ConnectError, Filter, LeaseError, LostError};
use quorlock_testkit::{RedisCluster, RedisServer, eventually_async};

use crate::common::long_leases;

/// So far ahead of the clocks that fences do not grow with time during a test.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

async fn client(cluster: &RedisCluster) -> Client {
    long_leases::builder().max_clock_skew(MAX_CLOCK_SKEW).nodes([cluster.url()]).connect().await.unwrap()
}

#[tokio::test]
async fn all_keys_of_a_name_share_a_slot_with_any_braces() {
    let cluster = RedisCluster::start(3);
    for template in ["quorlock:{name}", "{name}", "lock:{{name}}"] {
        let client = long_leases::builder().nodes([cluster.url()]).key_template(template).connect().await.unwrap();
        for name in ["a", "b", "{c}d", "{}e", "f}g", "h{i", "}{", "{{j}}", "{}}k{l}", "ü"] {
            let key = template.replace("{name}", name);
            let master = cluster.master_of(&key);
            // All kinds of companion keys: a fence, entries, a queue and a tombstone.
            let reader = client.rw(name).read().acquire().await.unwrap();
            assert!(client.lock(name).acquire_within(Duration::from_millis(50)).await.is_err());
            assert_eq!(master.command(&["EXISTS", &key]).as_int(), Some(1), "{key}");
            reader.release().await.unwrap();
            let lease = client.lock(name).plain().acquire().await.unwrap();
            assert_eq!(master.command(&["EXISTS", &key]).as_int(), Some(1), "{key}");
            lease.release().await.unwrap();
        }
    }
    // Each server has some of the names, and only in its own slots.
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
        let client = long_leases::builder().nodes([cluster.url()]).key_template(template).connect().await.unwrap();
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
async fn a_moved_slot_is_followed() {
    let cluster = RedisCluster::start(3);
    let client = client(&cluster).await;
    let (held, moved) = ("held", "moved");
    let lease = client.lock(held).acquire().await.unwrap();
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    let old = cluster.master_of("quorlock:moved");
    let new = cluster.masters.iter().find(|master| master.port() != old.port()).unwrap();
    cluster.move_slot("quorlock:moved", new);
    let found = client.lock(moved).acquire().await.unwrap();
    assert_eq!(new.command(&["EXISTS", "quorlock:moved"]).as_int(), Some(1));
    found.release().await.unwrap();
    lease.extend().await.unwrap();
}

#[tokio::test]
async fn a_redirected_request_is_sent_again() {
    let cluster = RedisCluster::start(3);
    let client = client(&cluster).await;
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    let old = cluster.master_of("quorlock:moved");
    let new = cluster.masters.iter().find(|master| master.port() != old.port()).unwrap();
    cluster.move_slot("quorlock:moved", new);
    // One attempt, whose first reply is a redirection.
    let lease = client.lock("moved").try_acquire().await.unwrap().expect("the lock is free");
    assert_eq!(new.command(&["EXISTS", "quorlock:moved"]).as_int(), Some(1));
    lease.release().await.unwrap();
}

#[tokio::test]
async fn an_idle_client_notices_a_graceful_failover() {
    let cluster = RedisCluster::start_with_replicas(1);
    let client = client(&cluster).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let restarts = async || client.node_stats().remove(0).restarts;
    assert_eq!(restarts().await, 0);
    let replica = &cluster.replicas[0];
    replica.catch_up_with(&cluster.masters[0]);
    assert_eq!(replica.command(&["CLUSTER", "FAILOVER"]).as_str(), Some("OK"));
    eventually_async("a new life under the new master", async || restarts().await == 1).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn fences_grow_across_a_failover_and_a_replicated_lease_survives() {
    let cluster = RedisCluster::start_with_replicas(1);
    let client = client(&cluster).await;
    let lease = client.lock("kept").acquire().await.unwrap();
    let first = client.lock("next").acquire().await.unwrap();
    let fence = first.fence().unwrap();
    first.release().await.unwrap();
    cluster.replicas[0].catch_up_with(&cluster.masters[0]);
    cluster.masters[0].kill();
    cluster.take_over(&cluster.replicas[0]);
    let next = client.lock("next").acquire().await.unwrap();
    assert!(next.fence().unwrap() > fence);
    eventually_async("the lease to go on", async || lease.extend().await.is_ok()).await;
    let rival = self::client(&cluster).await;
    assert!(rival.lock("kept").try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn a_lease_that_a_master_forgot_is_lost_to_a_higher_fence() {
    let cluster = RedisCluster::start(2);
    let client = client(&cluster).await;
    for master in &cluster.masters {
        let is_there = |name: &&str| cluster.master_of(&format!("quorlock:{name}")).port() == master.port();
        let name = ["a", "b", "c", "d"].into_iter().find(is_there).unwrap();
        let lease = client.lock(name).acquire().await.unwrap();
        let fence = lease.fence().unwrap();
        // It restarts empty, with the slots that it had.
        master.restart();
        let rival = eventually_client(&cluster).await;
        let theirs = rival.lock(name).acquire().await.unwrap();
        assert!(theirs.fence().unwrap() > fence, "{name}");
        eventually_async("the first to learn that its lease is lost", async || {
            matches!(lease.extend().await, Err(LeaseError::Lost(LostError::Taken)))
        })
        .await;
        theirs.release().await.unwrap();
    }
}

/// Connects as soon as the cluster is available.
async fn eventually_client(cluster: &RedisCluster) -> Client {
    let client = client(cluster).await;
    eventually_async("the cluster to serve", async || client.nodes()[0].1.is_none()).await;
    client
}

#[tokio::test]
async fn hints_are_heard_from_every_master() {
    let cluster = RedisCluster::start(3);
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for name in ["a", "b", "c", "d", "e", "f"] {
        let before = waiter.stats().hints;
        let lease = holder.lock(name).acquire().await.unwrap();
        let lock = waiter.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually_async("it to wait", async || {
            let found = holder.inspect(name).await.unwrap();
            found.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|report| report.waiting == 1))
        })
        .await;
        lease.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(waiter.stats().hints > before, "{name}");
    }
}

#[tokio::test]
async fn plain_servers_as_a_cluster_and_cluster_servers_alone_are_refused() {
    let server = RedisServer::start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = long_leases::builder().nodes([url]).connect().await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Unfit { .. } if error.to_string().contains("not part of a Redis Cluster")),
        "{error}"
    );
    let cluster = RedisCluster::start(1);
    let error = long_leases::builder().nodes([cluster.masters[0].url()]).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Unfit { .. } if error.to_string().contains("redis+cluster://")), "{error}");
}
