//! How a quarantine ends: clients count it down together, on their own clocks.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Ballot, Retry, Silence};
use quorlock_testkit::eventually_async;

use crate::common::long::voting;
use crate::common::observe::{healthy, life, quarantined};
use crate::common::{Cluster, MAX_TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_clients_ripen_a_node_together() {
    let cluster = Cluster::ready(3).await;
    let server = &cluster.servers[2];
    let restarted = Instant::now();
    server.restart_empty();

    let share = MAX_TTL / 3;
    let (mut witnessed, mut witnesses) = (Duration::ZERO, Vec::new());
    loop {
        // Each lives until it has added its share, the next one takes over, and nobody sees the whole.
        let client = cluster.client().await;
        let mut now = None;
        eventually_async("the node to be witnessed", async || {
            now = life(server, "").filter(|life| life.floor.is_some() || life.witnessed >= witnessed + share);
            now.is_some()
        })
        .await;
        drop(client);
        let now = now.expect("waited for");
        assert!(now.witnessed >= witnessed, "nothing that was witnessed is forgotten");
        witnesses.push(now.witnessed.saturating_sub(witnessed));
        witnessed = now.witnessed;
        if now.floor.is_some() {
            break;
        }
    }
    assert!(witnesses.len() > 1, "one client alone saw it all: {witnesses:?}");
    assert!(witnessed >= MAX_TTL && restarted.elapsed() >= MAX_TTL, "ripe after {witnessed:?}");

    let client = cluster.client().await;
    voting(&client).await;
    cluster.servers[0].kill();
    drop(client.lock("after").acquire().await.expect("the node votes again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_clients_witness_ripens_the_node_for_all() {
    let cluster = Cluster::ready(3).await;
    let clients = [cluster.client().await, cluster.client().await];
    let restarted = Instant::now();
    cluster.servers[2].restart_empty();
    for client in &clients {
        quarantined(client, 2).await;
    }
    for client in &clients {
        healthy(client, 2).await;
    }
    let witnessed = life(&cluster.servers[2], "").expect("it is alive").witnessed;
    assert!(witnessed <= restarted.elapsed(), "what two of them saw at the same time counts once: {witnessed:?}");

    cluster.servers[0].kill();
    for client in &clients {
        let lease = client.lock("after").acquire().await.expect("the node votes for both");
        lease.release().await.expect("and takes its vote back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_all_memory_resumes_by_itself() {
    let cluster = Cluster::ready(3).await;
    let client = cluster.client().await;
    let lock = client.lock("all").retry(Retry::ONCE);
    let lease = lock.acquire().await.expect("all nodes vote");
    let fence = lease.fence().expect("it holds");
    lease.release().await.expect("all nodes answer");
    let names = || cluster.servers.iter().map(|server| life(server, "").expect("it is alive").cluster);
    let before: Vec<String> = names().collect();

    let restarted = Instant::now();
    std::thread::scope(|scope| {
        for server in &cluster.servers {
            scope.spawn(|| server.restart_empty());
        }
    });
    for node in 0..3 {
        quarantined(&client, node).await;
    }
    match lock.acquire().await {
        Err(AcquireError::NoQuorum { tally, .. }) => {
            let is_quarantined = |ballot: &Ballot| matches!(ballot, Ballot::Silent(Silence::Quarantined(_)));
            assert!(tally.ballots.iter().any(is_quarantined), "{tally}");
        }
        other => assert!(restarted.elapsed() >= MAX_TTL, "nobody may vote yet: {other:?}"),
    }
    voting(&client).await;
    assert!(restarted.elapsed() >= MAX_TTL, "they vote {:?} after the restart", restarted.elapsed());
    assert!(names().eq(before), "they are the cluster that they were");
    let next = lock.acquire().await.expect("all nodes vote again").fence().expect("it holds");
    assert!(next > fence, "{next} after {fence}");
}
