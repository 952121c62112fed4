//! The end of a quarantine. Each client claims the time of the quarantine that it has counted on its own clock, and the
//! node keeps the highest claim.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, ClientBuilder, Retry};
use quorlock_testkit::{Aof, Proxy, RedisServer, eventually_async};

use crate::common::long_timeouts::{connect_to_all, wait_until_all_vote};
use crate::common::observe::{stored_state, wait_until_node_votes, wait_until_quarantined};
use crate::common::{Cluster, MAX_TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_clients_end_a_quarantine_together() {
    let cluster = Cluster::start(3).await;
    let server = &cluster.servers[2];
    let restarted_at = Instant::now();
    server.restart_empty();

    let third_of_quarantine = MAX_TTL / 3;
    let (mut elapsed, mut claims) = (Duration::ZERO, Vec::new());
    loop {
        // Each client counts at least a third of the quarantine and is dropped. The next client continues from its
        // claim.
        let client = cluster.client().await;
        let mut state = None;
        eventually_async("the client to claim a third of the quarantine", async || {
            state = stored_state(server, "")
                .filter(|state| state.floor.is_some() || state.quarantine_elapsed >= elapsed + third_of_quarantine);
            state.is_some()
        })
        .await;
        drop(client);
        let state = state.expect("the wait has set this value");
        assert!(state.quarantine_elapsed >= elapsed, "the node forgot a claim");
        claims.push(state.quarantine_elapsed.saturating_sub(elapsed));
        elapsed = state.quarantine_elapsed;
        if state.floor.is_some() {
            break;
        }
    }
    assert!(claims.len() > 1, "one client counted the whole quarantine: {claims:?}");
    assert!(elapsed >= MAX_TTL && restarted_at.elapsed() >= MAX_TTL, "the node may vote after {elapsed:?}");

    let client = cluster.client().await;
    wait_until_all_vote(&client).await;
    cluster.servers[0].kill();
    drop(client.lock("after").acquire().await.expect("the node votes again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_concurrent_clients_are_not_added_up() {
    let cluster = Cluster::start(3).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(cluster.client().await);
    }
    cluster.servers[2].kill();
    let restarted_at = Instant::now();
    cluster.servers[2].restart_empty();
    for client in &clients {
        // A request makes the client notice at once that the node has lost its memory.
        drop(client.lock("meanwhile").try_acquire().await);
    }
    for client in &clients {
        wait_until_quarantined(client, 2).await;
    }
    for client in &clients {
        wait_until_node_votes(client, 2).await;
    }
    let (claimed, passed) = (
        stored_state(&cluster.servers[2], "").expect("the node belongs to a cluster").quarantine_elapsed,
        restarted_at.elapsed(),
    );
    assert!(claimed <= passed, "clients claimed {claimed:?}, but only {passed:?} have passed");

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
    let cluster_names = || {
        cluster.servers.iter().map(|server| stored_state(server, "").expect("the node belongs to a cluster").cluster)
    };
    let names_before: Vec<String> = cluster_names().collect();

    // Delay the requests, so that the client finds all nodes blank (without data of quorlock) before it initializes the
    // first node again.
    let delay_requests = |delay| proxies.iter().for_each(|proxy| proxy.delay(delay));
    delay_requests(Duration::from_millis(100));
    cluster.servers.iter().for_each(RedisServer::kill);
    let restarted_at = Instant::now();
    std::thread::scope(|scope| {
        for server in &cluster.servers {
            scope.spawn(|| server.restart_empty());
        }
    });
    let (mut next_fence, mut were_quarantined) = (None, false);
    eventually_async("the client to acquire the lock again", async || {
        match lock.acquire().await {
            Ok(lease) => next_fence = lease.fence().ok(),
            Err(error) if error.to_string().contains("3 quarantined") => {
                were_quarantined = true;
                delay_requests(Duration::ZERO);
            }
            Err(_) => {}
        }
        next_fence.is_some()
    })
    .await;
    assert!(were_quarantined, "no error reported the quarantine");
    assert!(restarted_at.elapsed() >= MAX_TTL, "the nodes vote {:?} after the restart", restarted_at.elapsed());
    assert!(cluster_names().eq(names_before), "the name of the cluster changed");
    assert!(next_fence > Some(fence), "fence {next_fence:?} after fence {fence}");
}

/// Connects, tries once to acquire, and closes the client, like a command that cron starts. Returns the result of the
/// attempt, and the remaining quarantine of each node.
async fn run_once(builder: ClientBuilder) -> (Result<(), AcquireError>, Vec<Option<Duration>>) {
    let client = builder.connect_lazy().await.expect("no node is unfit");
    let remaining = client.nodes().into_iter().map(|(_, silence)| silence?.quarantine_left()).collect();
    let result = match client.lock("cron").retry(Retry::ONCE).acquire().await {
        Ok(lease) => lease.release().await.map_err(|error| panic!("{error}")),
        Err(error) => Err(error),
    };
    client.close(Duration::from_secs(5)).await.expect("all releases can be delivered");
    (result, remaining)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_runs_with_a_state_folder_end_a_quarantine_together() {
    let cluster = Cluster { servers: RedisServer::builder().aof(Aof::Always).start_many(3) };
    cluster.client().await.init_cluster().await.expect("a new cluster can be initialized");
    let state_folder = tempfile::tempdir().expect("a temporary folder can be created");
    let restarted_at = Instant::now();
    cluster.servers[1..].iter().for_each(RedisServer::restart);
    let (mut shortest_remaining, mut failures) = (Duration::MAX, 0);
    eventually_async("a run to acquire the lock", async || {
        let (result, remaining) = run_once(cluster.builder().state_folder(state_folder.path())).await;
        if let Some(remaining) = remaining[1] {
            assert!(
                remaining <= shortest_remaining,
                "the remaining quarantine grew: {remaining:?} after {shortest_remaining:?}"
            );
            shortest_remaining = remaining;
        }
        failures += u32::from(result.is_err());
        result.is_ok()
    })
    .await;
    assert!(
        restarted_at.elapsed() >= MAX_TTL,
        "a run acquired the lock {:?} after the restart",
        restarted_at.elapsed()
    );
    assert!(
        failures > 1 && shortest_remaining < MAX_TTL,
        "{failures} runs failed, and the shortest remaining quarantine was {shortest_remaining:?}"
    );
    // A run may end before a slow node has replied. It then leaves its record of the quarantine to the next run.
    eventually_async("a run to acquire the lock and to leave no record", async || {
        let (result, _) = run_once(cluster.builder().state_folder(state_folder.path())).await;
        result.is_ok()
            && state_folder.path().join("quarantine").read_dir().expect("the client has created the folder").count()
                == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_a_quarantine_does_not_count_for_a_later_incarnation() {
    let cluster = Cluster::start(3).await;
    let state_folder = tempfile::tempdir().expect("a temporary folder can be created");
    let server = &cluster.servers[2];
    let builder = || cluster.builder().state_folder(state_folder.path());
    server.restart_empty();
    eventually_async("half of the quarantine to pass", async || {
        drop(run_once(builder()).await);
        stored_state(server, "").is_some_and(|state| state.quarantine_elapsed >= MAX_TTL / 2)
    })
    .await;
    let restarted_at = Instant::now();
    server.restart_empty();
    eventually_async("the node to vote again", async || {
        drop(run_once(builder()).await);
        let Some(state) = stored_state(server, "") else { return false };
        assert!(state.quarantine_elapsed <= restarted_at.elapsed(), "{state:?} after {:?}", restarted_at.elapsed());
        state.floor.is_some()
    })
    .await;
    assert!(restarted_at.elapsed() >= MAX_TTL, "the node may vote {:?} after its restart", restarted_at.elapsed());
}
