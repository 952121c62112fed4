//! A master behind sentinels as a single node: tests what happens to leases and fences at a failover.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use quorlock::{Client, ConnectError, LeaseError, LostError};
use quorlock_testkit::{Proxy, RedisServer, Sentinels, eventually, eventually_async};

use crate::common::long_timeouts::{self, LONG};

/// The time after which a sentinel considers a master dead, for tests in which a master dies.
const DEAD_AFTER: Duration = Duration::from_millis(300);

/// A maximum clock skew that puts fences so far ahead of the clocks that they do not grow with time during a test.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

async fn connect(sentinels: &Sentinels) -> Client {
    long_timeouts::builder().max_clock_skew(MAX_CLOCK_SKEW).nodes([sentinels.url()]).connect().await.unwrap()
}

/// Waits until the node of the client can vote.
async fn wait_until_voting(client: &Client) {
    eventually_async("the node to vote", async || client.nodes()[0].1.is_none()).await;
}

#[tokio::test]
async fn fences_grow_across_a_failover_and_a_replicated_lease_survives() {
    let sentinels = Sentinels::builder().replicas(1).down_after(DEAD_AFTER).start();
    let client = connect(&sentinels).await;
    let lease = client.lock("kept").acquire().await.unwrap();
    let first_lease = client.lock("next").acquire().await.unwrap();
    let fence = first_lease.fence().unwrap();
    first_lease.release().await.unwrap();
    sentinels.servers[1].catch_up_with(&sentinels.servers[0]);

    sentinels.servers[0].kill();
    let next_lease = client.lock("next").acquire().await.unwrap();
    assert!(next_lease.fence().unwrap() > fence, "the fence did not grow across the failover");
    assert_eq!(sentinels.master().port(), sentinels.servers[1].port());
    lease.extend().await.unwrap();
    let rival = connect(&sentinels).await;
    assert!(
        rival.lock("kept").try_acquire().await.unwrap().is_none(),
        "the new master does not have the replicated lease"
    );
}

#[tokio::test]
async fn a_lease_that_was_not_replicated_is_lost_and_the_next_lease_has_a_higher_fence() {
    let sentinels = Sentinels::builder().replicas(1).down_after(DEAD_AFTER).start();
    let client = connect(&sentinels).await;
    let lease = client.lock("missed").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    sentinels.servers[1].catch_up_with(&sentinels.servers[0]);
    sentinels.servers[0].kill();
    let replica = &sentinels.servers[1];
    eventually_async("the replica to be the master", async || sentinels.master().port() == replica.port()).await;
    // Delete the keys, as if they had not been replicated.
    assert_eq!(replica.command(&["DEL", "quorlock:missed", "quorlock~fence:quorlock:missed"]).as_int(), Some(2));
    let rival = connect(&sentinels).await;
    let rival_lease = rival.lock("missed").acquire().await.unwrap();
    assert!(rival_lease.fence().unwrap() > fence);
    eventually_async("the first client to lose its lease", async || {
        matches!(lease.extend().await, Err(LeaseError::Lost(LostError::Removed)))
    })
    .await;
    rival_lease.extend().await.unwrap();
}

#[tokio::test]
async fn a_manual_failover_is_noticed_before_the_old_master_steps_down() {
    let sentinels = Sentinels::builder().replicas(1).start();
    let client = connect(&sentinels).await;
    let first_lease = client.lock("a").acquire().await.unwrap();
    let fence = first_lease.fence().unwrap();
    first_lease.release().await.unwrap();
    let old_master = &sentinels.servers[0];
    assert_eq!(old_master.cli(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"]), "OK");
    sentinels.fail_over();
    // The old master never steps down, but its votes no longer count.
    assert_eq!(old_master.cli(&["SET", "quorlock:a", "another program"]), "OK");
    let second_lease = client.lock("a").acquire_within(LONG).await.unwrap();
    assert!(second_lease.fence().unwrap() > fence);
    assert_ne!(sentinels.servers[1].cli(&["GET", "quorlock:a"]), "another program");
    assert_eq!(old_master.cli(&["GET", "quorlock:a"]), "another program");
}

/// Checks that the client uses the new master after a failover. The old master ignores its demotion, and another
/// program holds the lock on the old master only, so the client can acquire the lock only from the new master.
async fn assert_uses_new_master(sentinels: &Sentinels, client: &Client, fail_over: impl FnOnce()) {
    let first_lease = client.lock("a").acquire().await.unwrap();
    let fence = first_lease.fence().unwrap();
    first_lease.release().await.unwrap();
    let old_master = &sentinels.servers[0];
    assert_eq!(old_master.cli(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"]), "OK");
    fail_over();
    assert_eq!(old_master.cli(&["SET", "quorlock:a", "another program"]), "OK");
    let second_lease = client.lock("a").acquire_within(LONG).await.unwrap();
    assert!(second_lease.fence().unwrap() > fence);
    assert_ne!(sentinels.servers[1].cli(&["GET", "quorlock:a"]), "another program");
}

#[tokio::test]
async fn a_client_notices_a_failover_after_the_sentinel_has_restarted() {
    let sentinels = Sentinels::builder().replicas(1).start();
    let client = connect(&sentinels).await;
    wait_until_voting(&client).await;
    sentinels.restart_sentinel();
    assert_uses_new_master(&sentinels, &client, || sentinels.fail_over()).await;
}

#[tokio::test]
async fn a_client_notices_a_failover_while_one_sentinel_is_frozen() {
    let sentinels = Sentinels::builder().replicas(1).start();
    let second_sentinel = sentinels.start_another();
    let url = sentinels.url_after(&[&second_sentinel.addr().to_string()]);
    // At first, the client can subscribe only to the sentinel that is not frozen.
    second_sentinel.freeze();
    let client = long_timeouts::builder().max_clock_skew(MAX_CLOCK_SKEW).nodes([url]).connect().await.unwrap();
    wait_until_voting(&client).await;
    second_sentinel.thaw();
    sentinels.sentinel.freeze();
    assert_uses_new_master(&sentinels, &client, || sentinels.fail_over_through(&second_sentinel)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_notices_a_failover_although_its_sentinel_answers_late() {
    let sentinels = Sentinels::builder().replicas(1).start();
    let slow_proxy = Proxy::start(sentinels.sentinel.addr());
    let url = sentinels.url().replace(&sentinels.sentinel.addr().to_string(), &slow_proxy.addr().to_string());
    let client = long_timeouts::builder().max_clock_skew(MAX_CLOCK_SKEW).nodes([url]).connect().await.unwrap();
    wait_until_voting(&client).await;
    let connections_before = slow_proxy.connections();
    slow_proxy.delay(Duration::from_millis(600));
    eventually_async("the client to reconnect to the sentinel", async || slow_proxy.connections() > connections_before)
        .await;
    let fail_over = || {
        sentinels.fail_over();
        eventually("the client to stop using its master", || client.nodes()[0].1.is_some());
        slow_proxy.delay(Duration::ZERO);
    };
    assert_uses_new_master(&sentinels, &client, fail_over).await;
}

#[tokio::test]
async fn a_client_keeps_its_master_while_no_sentinel_answers() {
    let sentinels = Sentinels::builder().start();
    let client = connect(&sentinels).await;
    let lease = client.lock("a").acquire().await.unwrap();
    sentinels.sentinel.kill();
    lease.extend().await.unwrap();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    sentinels.sentinel.restart();
    lease.extend().await.unwrap();
}

#[tokio::test]
async fn a_client_stops_using_a_demoted_master() {
    let sentinels = Sentinels::builder().start();
    let client = connect(&sentinels).await;
    let other_server = RedisServer::start();
    let port = other_server.port().to_string();
    wait_until_voting(&client).await;
    assert_eq!(sentinels.servers[0].command(&["REPLICAOF", "127.0.0.1", &port]).as_str(), Some("OK"));
    assert!(client.lock("a").try_acquire().await.is_err(), "a replica granted a vote");
    eventually_async("the client to report why the node does not vote", async || {
        let silence = client.nodes().remove(0).1;
        silence.is_some_and(|silence| silence.to_string().contains("not the master"))
    })
    .await;
    assert_eq!(sentinels.servers[0].command(&["REPLICAOF", "NO", "ONE"]).as_str(), Some("OK"));
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn one_sentinel_of_several_is_enough_and_passwords_are_used() {
    let sentinels = Sentinels::builder().password("hunter2").sentinel_password("hunter3").start();
    // One sentinel is down, and one does not answer. The sentinel of `other_master` watches another master.
    let (dead_sentinel, frozen_sentinel) = (RedisServer::start(), RedisServer::start());
    let other_master = Sentinels::builder().start();
    dead_sentinel.kill();
    frozen_sentinel.freeze();
    let unusable_addrs = [&dead_sentinel, &frozen_sentinel].map(|server| server.addr().to_string());
    let other_sentinel_addr = other_master.sentinel.addr().to_string();
    let url = sentinels.url_after(&[&unusable_addrs[0], &unusable_addrs[1]]);
    let client = long_timeouts::builder().nodes([&url]).connect().await.unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let (title, _) = &client.nodes()[0];
    assert!(title.contains("/testkit") && !title.contains("hunter"), "{title}");

    let wrong_password_url = url
        .replace("hunter3", "hunter4")
        .replace(&unusable_addrs[0], &other_sentinel_addr)
        .replace(&unusable_addrs[1], &other_sentinel_addr);
    let error =
        long_timeouts::builder().nodes([wrong_password_url.replace("testkit", "other")]).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Denied { .. } if !error.to_string().contains("hunter")), "{error}");
    let unknown_master_url = sentinels.url().replace("/testkit", "/other");
    let error = long_timeouts::builder().nodes([unknown_master_url]).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Unfit { .. } if error.to_string().contains("\"other\"")), "{error}");
}
