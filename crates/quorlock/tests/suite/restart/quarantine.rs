//! A node that lost its memory does not vote until all leases that it may have forgotten have ended.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Lock, NodeVote, Retry, Silence};
use quorlock_testkit::{RedisServer, eventually_async};

use crate::common::long_timeouts::connect_to_all;
use crate::common::observe::{stored_state, wait_until_node_votes, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL, builder, lock_keys};
use crate::scenarios::restarted_node::{self, C};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_holder_is_refused_while_a_forgotten_lease_holds() {
    let outcome = restarted_node::run(&builder, &[]).await;
    let Err(AcquireError::Held(held)) = &outcome.second_attempt else {
        panic!("the second attempt did not find the lock held: {:?}", outcome.second_attempt)
    };
    let is_held = |vote: &NodeVote| matches!(vote, NodeVote::Refused(_));
    assert!(held.tally.votes[..C].iter().all(is_held), "A and B did not refuse: {held}");
    assert!(matches!(held.tally.votes[C], NodeVote::Silent(Silence::Quarantined(_))), "{held}");
    outcome.first_lease.ensure(Duration::ZERO).expect("the first lease is valid throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_with_a_quarantined_node_does_not_count_and_the_error_names_it() {
    let outcome = restarted_node::run(&builder, &[0, 1]).await;
    let Err(error @ AcquireError::NoQuorum { .. }) = &outcome.second_attempt else {
        panic!("{:?}", outcome.second_attempt)
    };
    let text = error.to_string();
    assert!(text.contains("1 quarantined"), "{text}");
    let expected = format!("redis://{} quarantined", outcome.cluster.servers[C].addr());
    assert!(text.contains(&expected), "{text:?} does not contain {expected:?}");
    outcome.first_lease.ensure(Duration::ZERO).expect("the first lease is valid throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn danger_trust_restarts_allows_two_holders() {
    let outcome = restarted_node::run(&|| builder().danger_trust_restarts(), &[]).await;
    assert!(outcome.has_two_holders(), "the second client did not get the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarted_empty_votes_only_after_max_ttl() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client().await;
    let server = &cluster.servers[2];
    let lock = client.lock("busy");
    let state_before = stored_state(server, "busy").expect("the node belongs to a cluster");

    server.kill();
    let restarted_at = Instant::now();
    server.restart_empty();
    let mut checks = 0;
    eventually_async("the node to vote again", async || {
        // Two of the three nodes grant the lease. The restarted node gets the same requests.
        let lease = lock.acquire().await.expect("two nodes are a majority");
        let Some(state) = stored_state(server, "busy") else { return false };
        drop(lease);
        checks += 1;
        assert_ne!(state.epoch, state_before.epoch, "a new memory has a new epoch");
        assert!(
            state.quarantine_elapsed >= MAX_TTL || state.floor.is_none(),
            "the node may vote after {:?}",
            state.quarantine_elapsed
        );
        assert!(state.floor.is_some() || !state.has_vote, "the node voted after {:?}", state.quarantine_elapsed);
        state.has_vote
    })
    .await;
    assert!(checks > 1, "the node could vote at the first check");
    assert!(restarted_at.elapsed() >= MAX_TTL, "the node voted {:?} after its restart", restarted_at.elapsed());

    // The vote of the restarted node counts again: without this vote there is no majority.
    wait_until_node_votes(&client, 2).await;
    cluster.servers[0].kill();
    drop(lock.acquire().await.expect("the node and one other node are a majority"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_a_fenced_lock_notices_a_flushed_node() {
    assert_flush_is_noticed(|lock| lock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_a_plain_lock_notices_a_flushed_node() {
    assert_flush_is_noticed(Lock::plain).await;
}

/// Deletes the data of a node. Checks that the next acquire notices this, and that the node does not vote before its
/// quarantine ends.
async fn assert_flush_is_noticed(with_kind: impl Fn(Lock) -> Lock) {
    let cluster = Cluster::start(3).await;
    let builder = cluster.builder().ttl(MAX_TTL).node_deadline(MAX_TTL / 2).retry(Retry::ONCE);
    let client = connect_to_all(builder).await;
    let lock = with_kind(client.lock("shared"));
    // Another program holds the key on one node, so that the vote of the flushed node would be needed for a majority.
    set_key(&cluster.servers[0], "quorlock:shared");
    drop(lock.acquire().await.expect("the other two nodes are a majority"));
    let is_free = async || cluster.servers[1..].iter().all(|server| lock_keys(server).is_empty());
    eventually_async("the lock to be free", is_free).await;

    let flushed_at = Instant::now();
    cluster.servers[2].command(&["FLUSHALL"]);
    let error = lock.acquire().await.expect_err("the flushed node's vote does not count");
    let AcquireError::Held(held) = &error else { panic!("{error:?}") };
    assert!(matches!(held.tally.votes[2], NodeVote::Silent(_)), "{error}");
    eventually_async("the flushed node to release its vote", async || lock_keys(&cluster.servers[2]).is_empty()).await;

    wait_until_quarantined(&client, 2).await;
    eventually_async("the vote of the flushed node to count again", async || {
        let lease = lock.acquire().await;
        let state = stored_state(&cluster.servers[2], "shared").expect("the node belongs to the cluster again");
        assert!(lease.is_err() || state.floor.is_some(), "the lock was acquired with the vote of a node in quarantine");
        lease.is_ok()
    })
    .await;
    assert!(
        flushed_at.elapsed() >= MAX_TTL,
        "the vote of the flushed node counted {:?} after the flush",
        flushed_at.elapsed()
    );
}

/// Sets the key of a lock, like another program that holds the lock.
fn set_key(server: &RedisServer, key: &str) {
    assert_eq!(server.command(&["SET", key, "another program"]).as_str(), Some("OK"));
}
