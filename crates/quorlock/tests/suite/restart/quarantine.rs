//! A node that lost its memory does not vote until every lease that it may have forgotten is over.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Lock, NodeVote, Retry, Silence};
use quorlock_testkit::{RedisServer, eventually_async};

use crate::common::long::connected;
use crate::common::observe::{healthy, life, quarantined};
use crate::common::{Cluster, MAX_TTL, builder, lock_keys};
use crate::scenarios::restarted_node::{self, C};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_holder_is_refused_while_a_forgotten_lease_holds() {
    let ending = restarted_node::tell(&builder, &[]).await;
    let Err(AcquireError::Held(held)) = &ending.second else { panic!("not held: {:?}", ending.second) };
    let is_held = |vote: &NodeVote| matches!(vote, NodeVote::Refused(_));
    assert!(held.tally.votes[..C].iter().all(is_held), "A and B know better: {held}");
    assert!(matches!(held.tally.votes[C], NodeVote::Silent(Silence::Quarantined(_))), "{held}");
    ending.first.ensure(Duration::ZERO).expect("the first lease holds all the while");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_with_a_quarantined_node_does_not_count_and_the_error_names_it() {
    let ending = restarted_node::tell(&builder, &[0, 1]).await;
    let Err(error @ AcquireError::NoQuorum { .. }) = &ending.second else { panic!("{:?}", ending.second) };
    let said = error.to_string();
    assert!(said.contains("1 quarantined"), "{said}");
    let c = format!("redis://{} quarantined", ending.stage.servers[C].addr());
    assert!(said.contains(&c), "{said:?} does not name {c:?}");
    ending.first.ensure(Duration::ZERO).expect("the first lease holds all the while");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trusting_restarts_gives_a_lock_to_two_holders() {
    let ending = restarted_node::tell(&|| builder().danger_trust_restarts(), &[]).await;
    assert!(ending.has_two_holders(), "the danger that its name spells");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarted_empty_votes_only_after_max_ttl() {
    let cluster = Cluster::ready(3).await;
    let client = cluster.client().await;
    let server = &cluster.servers[2];
    let lock = client.lock("busy");
    let before = life(server, "busy").expect("it was declared");

    server.kill();
    let restarted = Instant::now();
    server.restart_empty();
    let mut looks = 0;
    eventually_async("the node to vote again", async || {
        // Two of three nodes decide, and the third gets every request.
        let lease = lock.acquire().await.expect("two nodes are a majority");
        let Some(life) = life(server, "busy") else { return false };
        drop(lease);
        looks += 1;
        assert_ne!(life.epoch, before.epoch, "a new memory has a new epoch");
        assert!(life.elapsed >= MAX_TTL || life.floor.is_none(), "it may vote after {:?}", life.elapsed);
        assert!(life.floor.is_some() || !life.voted, "it voted after {:?}", life.elapsed);
        life.voted
    })
    .await;
    assert!(looks > 1, "it was looked at before it could vote");
    assert!(restarted.elapsed() >= MAX_TTL, "it voted {:?} after its restart", restarted.elapsed());

    // Its vote counts again: without it there would be no majority.
    healthy(&client, 2).await;
    cluster.servers[0].kill();
    drop(lock.acquire().await.expect("the node is one of two"));
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
    let cluster = Cluster::ready(3).await;
    let patient = cluster.builder().ttl(MAX_TTL).node_deadline(MAX_TTL / 2).retry(Retry::ONCE);
    let client = connected(patient).await;
    let lock = kind(client.lock("shared"));
    // Another program occupies one node, so that the flushed one would decide.
    occupy(&cluster.servers[0], "quorlock:shared");
    drop(lock.acquire().await.expect("the other two are a majority"));
    let is_free = async || cluster.servers[1..].iter().all(|server| lock_keys(server).is_empty());
    eventually_async("the lock to be free", is_free).await;

    let flushed = Instant::now();
    cluster.servers[2].command(&["FLUSHALL"]);
    let refused = lock.acquire().await.expect_err("the flushed node's vote does not count");
    let AcquireError::Held(held) = &refused else { panic!("{refused:?}") };
    assert!(matches!(held.tally.votes[2], NodeVote::Silent(_)), "{refused}");
    eventually_async("its vote to be taken back", async || lock_keys(&cluster.servers[2]).is_empty()).await;

    quarantined(&client, 2).await;
    eventually_async("the node's vote to count again", async || {
        let lease = lock.acquire().await;
        let life = life(&cluster.servers[2], "shared").expect("it was taken in again");
        assert!(lease.is_err() || life.floor.is_some(), "won with a node in quarantine");
        lease.is_ok()
    })
    .await;
    assert!(flushed.elapsed() >= MAX_TTL, "its vote counted {:?} after the flush", flushed.elapsed());
}

fn occupy(server: &RedisServer, key: &str) {
    assert_eq!(server.command(&["SET", key, "another program"]).as_str(), Some("OK"));
}
