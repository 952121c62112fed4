//! How a quarantine ends: each client claims the time that it has counted on its own clock, and the highest claim
//! counts.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, ClientBuilder, Retry};
use quorlock_testkit::{Aof, Proxy, RedisServer, eventually_async};

use crate::common::long_leases::{connect_to_all, wait_until_all_vote};
use crate::common::observe::{wait_until_node_votes, stored_state, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_clients_end_a_quarantine_together() {
    let cluster = Cluster::start(3).await;
    let server = &cluster.servers[2];
    let restarted = Instant::now();
    server.restart_empty();

    let share = MAX_TTL / 3;
    let (mut elapsed, mut shares) = (Duration::ZERO, Vec::new());
    loop {
        // Each client counts a part, the next one continues, and none of them counts the whole.
        let client = cluster.client().await;
        let mut now = None;
        eventually_async("time to pass", async || {
            now = stored_state(server, "").filter(|state| state.floor.is_some() || state.quarantine_elapsed >= elapsed + share);
            now.is_some()
        })
        .await;
        drop(client);
        let now = now.expect("the wait has set this value");
        assert!(now.quarantine_elapsed >= elapsed, "no claim is forgotten");
        shares.push(now.quarantine_elapsed.saturating_sub(elapsed));
        elapsed = now.quarantine_elapsed;
        if now.floor.is_some() {
            break;
        }
    }
    assert!(shares.len() > 1, "one client alone saw it all: {shares:?}");
    assert!(elapsed >= MAX_TTL && restarted.elapsed() >= MAX_TTL, "it may vote after {elapsed:?}");

    let client = cluster.client().await;
    wait_until_all_vote(&client).await;
    cluster.servers[0].kill();
    drop(client.lock("after").acquire().await.expect("the node votes again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_many_clients_about_the_same_time_count_once() {
    let cluster = Cluster::start(3).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(cluster.client().await);
    }
    cluster.servers[2].kill();
    let restarted = Instant::now();
    cluster.servers[2].restart_empty();
    for client in &clients {
        // An acquire makes the client notice at once.
        drop(client.lock("meanwhile").try_acquire().await);
    }
    for client in &clients {
        wait_until_quarantined(client, 2).await;
    }
    for client in &clients {
        wait_until_node_votes(client, 2).await;
    }
    let (elapsed, passed) = (stored_state(&cluster.servers[2], "").expect("the node belongs to a cluster").elapsed, restarted.elapsed());
    assert!(elapsed <= passed, "{elapsed:?} in {passed:?}");

    cluster.servers[0].kill();
    for client in &clients {
        let lease = client.lock("after").acquire().await.expect("the node votes for all clients");
        lease.release().await.expect("the nodes accept the release");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_all_memory_recovers_by_itself() {
    let cluster = Cluster::start(3).await;
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let client = connect_to_all(cluster.builder().nodes(proxies.iter().map(Proxy::url))).await;
    let lock = client.lock("all").retry(Retry::ONCE);
    let lease = lock.acquire().await.expect("all nodes vote");
    let fence = lease.fence().expect("the lease is held");
    lease.release().await.expect("all nodes answer");
    let names = || cluster.servers.iter().map(|server| stored_state(server, "").expect("the node belongs to a cluster").cluster);
    let before: Vec<String> = names().collect();

    // Slow enough for all nodes to be seen as blank before the first is initialized again.
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

/// Connects for one attempt, like a command that cron starts.
async fn short_run(builder: ClientBuilder) -> (Result<(), AcquireError>, Vec<Option<Duration>>) {
    let client = builder.connect_lazy().await.expect("no node is unfit");
    let left = client.nodes().into_iter().map(|(_, silence)| silence?.quarantine_left()).collect();
    let won = match client.lock("cron").retry(Retry::ONCE).acquire().await {
        Ok(lease) => lease.release().await.map_err(|error| panic!("{error}")),
        Err(error) => Err(error),
    };
    client.close(Duration::from_secs(5)).await.expect("all releases can be delivered");
    (won, left)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_runs_end_a_quarantine_with_a_state_folder() {
    let cluster = Cluster { servers: RedisServer::builder().aof(Aof::Always).start_many(3) };
    cluster.client().await.init_cluster().await.expect("a new cluster can be initialized");
    let state = tempfile::tempdir().expect("a temporary folder can be created");
    let restarted = Instant::now();
    cluster.servers[1..].iter().for_each(RedisServer::restart);
    let (mut least, mut losses) = (Duration::MAX, 0);
    eventually_async("a short run to win", async || {
        let (won, left) = short_run(cluster.builder().state_folder(state.path())).await;
        if let Some(left) = left[1] {
            assert!(left <= least, "the time left only shrinks: {left:?} after {least:?}");
            least = left;
        }
        losses += u32::from(won.is_err());
        won.is_ok()
    })
    .await;
    assert!(restarted.elapsed() >= MAX_TTL, "won {:?} after the restart", restarted.elapsed());
    assert!(losses > 1 && least < MAX_TTL, "{losses} runs reported {least:?} and more");
    // A run may end before a slow node has replied, and leave its record to the next run.
    eventually_async("a run to win, and no record to be left", async || {
        let (won, _) = short_run(cluster.builder().state_folder(state.path())).await;
        won.is_ok() && state.path().join("quarantine").read_dir().expect("the client has created the folder").count() == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_an_earlier_incarnation_does_not_count() {
    let cluster = Cluster::start(3).await;
    let state = tempfile::tempdir().expect("a temporary folder can be created");
    let server = &cluster.servers[2];
    let builder = || cluster.builder().state_folder(state.path());
    server.restart_empty();
    eventually_async("half of the quarantine to pass", async || {
        drop(short_run(builder()).await);
        stored_state(server, "").is_some_and(|state| state.quarantine_elapsed >= MAX_TTL / 2)
    })
    .await;
    let restarted = Instant::now();
    server.restart_empty();
    eventually_async("the node to vote again", async || {
        drop(short_run(builder()).await);
        let Some(state) = stored_state(server, "") else { return false };
        assert!(state.quarantine_elapsed <= restarted.elapsed(), "{state:?} after {:?}", restarted.elapsed());
        state.floor.is_some()
    })
    .await;
    assert!(restarted.elapsed() >= MAX_TTL, "it may vote {:?} after its restart", restarted.elapsed());
}
