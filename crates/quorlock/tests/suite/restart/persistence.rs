//! Nodes that restart with old data. The votes in old data must not count, and fences must still grow.

use std::time::Duration;

use quorlock::{Client, Fence};
use quorlock_testkit::{Aof, Clock, Proxy, RedisServer, eventually_async};

use crate::common::builder;
use crate::common::observe::{
    raise_stored_fence, stored_fence, stored_state, wait_until_node_votes, wait_until_quarantined, wall_micros,
};

const NAME: &str = "kept";
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

async fn connect(urls: &[String]) -> Client {
    builder().nodes(urls).connect_lazy().await.expect("no node is unfit")
}

/// Acquires and releases the lock, and returns the fence.
async fn next_fence(client: &Client) -> u64 {
    let lease = client.lock(NAME).acquire().await.expect("acquire has no time limit");
    let fence = lease.fence().map(Fence::get).expect("the lease is held");
    lease.release().await.expect("a majority answers");
    fence
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_from_an_append_only_file_is_noticed() {
    let servers = RedisServer::builder().aof(Aof::Always).start_many(3);
    let client = connect(&urls(&servers)).await;
    client.init_cluster().await.expect("a new cluster can be initialized");
    let lease = client.lock(NAME).acquire().await.expect("all nodes vote");
    let fence = lease.fence().map(Fence::get).expect("the lease is held");
    let state_before = stored_state(&servers[2], NAME).expect("the node belongs to a cluster");
    assert!(state_before.floor.is_some());

    servers[2].restart();
    wait_until_quarantined(&client, 2).await;
    let state_after = stored_state(&servers[2], NAME).expect("the node belongs to the cluster again");
    assert_ne!(state_after.epoch, state_before.epoch, "the client did not notice the restart");
    assert_eq!(state_after.cluster, state_before.cluster);
    assert_eq!(stored_fence(&servers[2], NAME), Some(fence), "the node did not read its file");
    lease.release().await.expect("the other two nodes answer");

    wait_until_node_votes(&client, 2).await;
    servers[0].kill();
    assert!(next_fence(&client).await > fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_of_an_old_snapshot_is_not_reused() {
    check_fences_after_an_old_snapshot(&RedisServer::builder().rdb().start_many(3), || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_when_the_nodes_clocks_step_back_at_a_restart() {
    let clock = Clock::new();
    let servers = RedisServer::builder().rdb().clock(&clock).start_many(3);
    check_fences_after_an_old_snapshot(&servers, || clock.set_offset_micros(-900_000)).await;
}

/// Three nodes, A to C. A and C grant a lease with a fence above their clocks. B never gets this fence. C restarts from
/// a snapshot without this fence. A dies, so B and C grant the next lease, whose fence must be higher.
async fn check_fences_after_an_old_snapshot(servers: &[RedisServer], before_restart: impl FnOnce()) {
    let [a, b, c] = servers else { panic!("there are not three servers") };
    let client = connect(&urls(servers)).await;
    client.init_cluster().await.expect("a new cluster can be initialized");
    let early_fence = next_fence(&client).await;
    c.save();
    let state_before = stored_state(c, NAME).expect("the node belongs to a cluster");

    let proxy_of_b = Proxy::start(b.addr());
    proxy_of_b.refuse(true);
    let client_without_b = connect(&[a.url(), proxy_of_b.url(), c.url()]).await;
    let high_fence = wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 * 8 / 10;
    raise_stored_fence(a, NAME, high_fence);
    raise_stored_fence(c, NAME, high_fence);
    let last_fence = next_fence(&client_without_b).await;
    assert!(last_fence > high_fence, "fence {last_fence} is not above {high_fence}");
    assert!(stored_fence(b, NAME) < Some(last_fence), "B has stored fence {last_fence}, although it was cut off");

    c.kill();
    before_restart();
    c.restart();
    assert_eq!(stored_fence(c, NAME), Some(early_fence), "the snapshot is not old");
    wait_until_quarantined(&client, 2).await;
    let state_after = stored_state(c, NAME).expect("the node belongs to the cluster again");
    assert_ne!(state_after.epoch, state_before.epoch, "the client did not notice the restart");
    assert_eq!(state_after.floor, None, "a node in quarantine has no floor");

    wait_until_node_votes(&client, 2).await;
    let floor = stored_state(c, NAME).and_then(|state| state.floor).expect("the node may vote");
    assert!(floor > last_fence, "the floor {floor} is not above the granted fence {last_fence}");
    a.kill();
    let fence = next_fence(&client).await;
    assert!(fence > last_fence, "fence {fence} after fence {last_fence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_votes_at_once_from_an_old_snapshot_and_its_fences_grow() {
    restart_single_node(&RedisServer::builder().rdb().start(), || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_nodes_fences_grow_when_its_clock_steps_back_at_a_restart() {
    let clock = Clock::new();
    let server = RedisServer::builder().rdb().clock(&clock).start();
    restart_single_node(&server, || clock.set_offset_micros(-900_000)).await;
}

/// Restarts a single node twice from a snapshot without its latest fences. The fences of later leases must still be
/// higher.
async fn restart_single_node(server: &RedisServer, before_restart: impl FnOnce()) {
    let client = connect(&[server.url()]).await;
    let mut fences = vec![next_fence(&client).await];
    server.save();
    let state_before = stored_state(server, NAME).expect("the node belongs to a cluster");
    let floor = state_before.floor.expect("the node may vote");
    eventually_async("the clock to pass the floor", async || wall_micros() > floor).await;
    // Make the next fences higher than the clock of the node. A fence from the clock alone would be too low after the
    // restart.
    raise_stored_fence(server, NAME, wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 * 9 / 10);
    for _ in 0..50 {
        fences.push(next_fence(&client).await);
    }

    server.kill();
    before_restart();
    server.restart();
    assert_eq!(stored_fence(server, NAME), Some(fences[0]), "the snapshot is not old");
    // Acquire first with the old client, and then with a new client.
    fences.push(next_fence(&client).await);
    let state_after = stored_state(server, NAME).expect("the node belongs to the cluster again");
    assert_ne!(state_after.epoch, state_before.epoch, "the client did not notice the restart");
    assert_eq!(
        state_after.quarantine_elapsed,
        Duration::ZERO,
        "a single node needs no quarantine, but one was counted"
    );
    fences.push(next_fence(&connect(&[server.url()]).await).await);
    // Restart a second time from the same snapshot.
    server.restart();
    fences.push(next_fence(&client).await);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
}
