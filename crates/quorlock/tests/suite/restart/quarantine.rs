//! A node that lost its memory does not vote until every lease that it may have forgotten is over.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Lock, NodeVote, Retry, Silence};
use quorlock_testkit::{RedisServer, eventually_async};

use crate::common::long_leases::connect_to_all;
use crate::common::observe::{wait_until_node_votes, stored_state, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL, builder, lock_keys};
use crate::scenarios::restarted_node::{self, C};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_holder_is_refused_while_a_forgotten_lease_holds() {
    let outcome = restarted_node::run(&builder, &[]).await;
    let Err(AcquireError::Held(held)) = &outcome.second else { panic!("not held: {:?}", outcome.second) };
    let is_held = |vote: &NodeVote| matches!(vote, NodeVote::Refused(_));
    assert!(held.tally.votes[..C].iter().all(is_held), "A and B know better: {held}");
    assert!(matches!(held.tally.votes[C], NodeVote::Silent(Silence::Quarantined(_))), "{held}");
    outcome.first.ensure(Duration::ZERO).expect("the first lease is valid throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_with_a_quarantined_node_does_not_count_and_the_error_names_it() {
    let outcome = restarted_node::run(&builder, &[0, 1]).await;
    let Err(error @ AcquireError::NoQuorum { .. }) = &outcome.second else { panic!("{:?}", outcome.second) };
    let said = error.to_string();
    assert!(said.contains("1 quarantined"), "{said}");
    let c = format!("redis://{} quarantined", outcome.cluster.servers[C].addr());
    assert!(said.contains(&c), "{said:?} does not name {c:?}");
    outcome.first.ensure(Duration::ZERO).expect("the first lease is valid throughout the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trusting_restarts_gives_a_lock_to_two_holders() {
    let outcome = restarted_node::run(&|| builder().danger_trust_restarts(), &[]).await;
    assert!(outcome.has_two_holders(), "the danger that its name spells");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarted_empty_votes_only_after_max_ttl() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client().await;
    let server = &cluster.servers[2];
    let lock = client.lock("busy");
    let before = stored_state(server, "busy").expect("the node belongs to a cluster");

    server.kill();
    let restarted = Instant::now();
    server.restart_empty();
    let mut looks = 0;
    eventually_async("the node to vote again", async || {
        // Two of three nodes decide, and the third gets every request.
        let lease = lock.acquire().await.expect("two nodes are a majority");
        let Some(state) = stored_state(server, "busy") else { return false };
        drop(lease);
        looks += 1;
        assert_ne!(state.epoch, before.epoch, "a new memory has a new epoch");
        assert!(state.quarantine_elapsed >= MAX_TTL || state.floor.is_none(), "it may vote after {:?}", state.quarantine_elapsed);
        assert!(state.floor.is_some() || !state.voted, "it voted after {:?}", state.quarantine_elapsed);
        state.voted
    })
    .await;
    assert!(looks > 1, "it was looked at before it could vote");
    assert!(restarted.elapsed() >= MAX_TTL, "it voted {:?} after its restart", restarted.elapsed());

    // Its vote counts again: without it there would be no majority.
    wait_until_node_votes(&client, 2).await;
    cluster.servers[0].kill();
    drop(lock.acquire().await.expect("the node and one other node are a majority"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_locks_notice_flushall() {
    notices_flushall(|lock| lock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_locks_notice_flushall() {
    notices_flushall(Lock::plain).await;
}

async fn notices_flushall(kind: impl Fn(Lock) -> Lock) {
    let cluster = Cluster::start(3).await;
    let patient = cluster.builder().ttl(MAX_TTL).node_deadline(MAX_TTL / 2).retry(Retry::ONCE);
    let client = connect_to_all(patient).await;
    let lock = kind(client.lock("shared"));
    // Another program occupies one node, so that the flushed one would decide.
    occupy(&cluster.servers[0], "quorlock:shared");
    drop(lock.acquire().await.expect("the other two nodes are a majority"));
    let is_free = async || cluster.servers[1..].iter().all(|server| lock_keys(server).is_empty());
    eventually_async("the lock to be free", is_free).await;

    let flushed = Instant::now();
    cluster.servers[2].command(&["FLUSHALL"]);
    let refused = lock.acquire().await.expect_err("the flushed node's vote does not count");
    let AcquireError::Held(held) = &refused else { panic!("{refused:?}") };
    assert!(matches!(held.tally.votes[2], NodeVote::Silent(_)), "{refused}");
    eventually_async("its vote to be taken back", async || lock_keys(&cluster.servers[2]).is_empty()).await;

    wait_until_quarantined(&client, 2).await;
    eventually_async("the node's vote to count again", async || {
        let lease = lock.acquire().await;
        let state = stored_state(&cluster.servers[2], "shared").expect("the node belongs to the cluster again");
        assert!(lease.is_err() || state.floor.is_some(), "won with a node in quarantine");
        lease.is_ok()
    })
    .await;
    assert!(flushed.elapsed() >= MAX_TTL, "its vote counted {:?} after the flush", flushed.elapsed());
}

fn occupy(server: &RedisServer, key: &str) {
    assert_eq!(server.command(&["SET", key, "another program"]).as_str(), Some("OK"));
}
