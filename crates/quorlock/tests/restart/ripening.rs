//! How a quarantine ends: clients count it down together, on their own clocks.

use std::time::{Duration, Instant};

use quorlock::Retry;
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use crate::common::long::{connected, voting};
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
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(cluster.client().await);
    }
    cluster.servers[2].kill();
    let restarted = Instant::now();
    cluster.servers[2].restart_empty();
    for client in &clients {
        // Whoever asks notices at once.
        drop(client.lock("meanwhile").try_acquire().await);
    }
    for client in &clients {
        quarantined(client, 2).await;
    }
    for client in &clients {
        healthy(client, 2).await;
    }
    let (witnessed, passed) = (life(&cluster.servers[2], "").expect("it is alive").witnessed, restarted.elapsed());
    assert!(witnessed <= passed, "what all of them saw at the same time counts once: {witnessed:?} in {passed:?}");

    cluster.servers[0].kill();
    for client in &clients {
        let lease = client.lock("after").acquire().await.expect("the node votes for all");
        lease.release().await.expect("and takes its vote back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_all_memory_resumes_by_itself() {
    let cluster = Cluster::ready(3).await;
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let client = connected(cluster.builder().nodes(proxies.iter().map(Proxy::url))).await;
    let lock = client.lock("all").retry(Retry::ONCE);
    let lease = lock.acquire().await.expect("all nodes vote");
    let fence = lease.fence().expect("it holds");
    lease.release().await.expect("all nodes answer");
    let names = || cluster.servers.iter().map(|server| life(server, "").expect("it is alive").cluster);
    let before: Vec<String> = names().collect();

    // Slow enough that all of them are seen to be blank before the first is taken in again.
    let slow_down = |delay| proxies.iter().for_each(|proxy| proxy.delay(delay));
    slow_down(Duration::from_millis(100));
    cluster.servers.iter().for_each(RedisServer::kill);
    let restarted = Instant::now();
    std::thread::scope(|scope| {
        for server in &cluster.servers {
            scope.spawn(|| server.restart_empty());
        }
    });
    let (mut next, mut were_quarantined) = (None, false);
    eventually_async("the lock to be won again", async || {
        match lock.acquire().await {
            Ok(lease) => next = lease.fence().ok(),
            Err(error) if error.to_string().contains("3 quarantined") => {
                were_quarantined = true;
                slow_down(Duration::ZERO);
            }
            Err(_) => {}
        }
        next.is_some()
    })
    .await;
    assert!(were_quarantined, "the errors say why");
    assert!(restarted.elapsed() >= MAX_TTL, "they vote {:?} after the restart", restarted.elapsed());
    assert!(names().eq(before), "they are the cluster that they were");
    assert!(next > Some(fence), "{next:?} after {fence}");
}
