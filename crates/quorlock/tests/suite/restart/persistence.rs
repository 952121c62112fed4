//! Nodes that restart with old data: the votes and fences in it must not count.

use std::time::Duration;

use quorlock::{Client, Fence};
use quorlock_testkit::{Aof, Clock, Proxy, RedisServer, eventually_async};

use crate::common::builder;
use crate::common::observe::{wait_until_node_votes, stored_state, raise_stored_fence, wait_until_quarantined, stored_fence, wall_micros};

const NAME: &str = "kept";
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

async fn connect(urls: &[String]) -> Client {
    builder().nodes(urls).connect_lazy().await.expect("no node is unfit")
}

async fn take_turn(client: &Client) -> u64 {
    let lease = client.lock(NAME).acquire().await.expect("acquire has no time limit");
    let fence = lease.fence().map(Fence::get).expect("the lease is held");
    lease.release().await.expect("a majority answers");
    fence
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_its_append_only_file_is_noticed() {
    let servers = RedisServer::builder().aof(Aof::Always).start_many(3);
    let client = connect(&urls(&servers)).await;
    client.init_cluster().await.expect("a new cluster can be initialized");
    let lease = client.lock(NAME).acquire().await.expect("all nodes vote");
    let last = lease.fence().map(Fence::get).expect("the lease is held");
    let before = stored_state(&servers[2], NAME).expect("the node belongs to a cluster");
    assert!(before.floor.is_some());

    servers[2].restart();
    wait_until_quarantined(&client, 2).await;
    let after = stored_state(&servers[2], NAME).expect("the node belongs to the cluster again");
    assert_ne!(after.epoch, before.epoch, "the restart went unnoticed");
    assert_eq!(after.cluster, before.cluster);
    assert_eq!(stored_fence(&servers[2], NAME), Some(last), "the file was read");
    lease.release().await.expect("the other two nodes answer");

    wait_until_node_votes(&client, 2).await;
    servers[0].kill();
    assert!(take_turn(&client).await > last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_of_an_old_snapshot_is_not_reused() {
    forgets_a_fence(&RedisServer::builder().rdb().start_many(3), || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_when_the_nodes_clocks_step_back_at_a_restart() {
    let clock = Clock::new();
    let servers = RedisServer::builder().rdb().clock(&clock).start_many(3);
    forgets_a_fence(&servers, || clock.set_offset_micros(-900_000)).await;
}

/// A lease on A and C has a fence ahead of the clocks. C restarts from a snapshot without that fence, and B never had
/// it; then B and C decide.
async fn forgets_a_fence(servers: &[RedisServer], meanwhile: impl FnOnce()) {
    let [a, b, c] = servers else { panic!("three of them") };
    let everyone = connect(&urls(servers)).await;
    everyone.init_cluster().await.expect("a new cluster can be initialized");
    let early = take_turn(&everyone).await;
    c.save();
    let before = stored_state(c, NAME).expect("the node belongs to a cluster");

    let wall = Proxy::start(b.addr());
    wall.refuse(true);
    let without_b = connect(&[a.url(), wall.url(), c.url()]).await;
    let ahead = wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 * 8 / 10;
    raise_stored_fence(a, NAME, ahead);
    raise_stored_fence(c, NAME, ahead);
    let last = take_turn(&without_b).await;
    assert!(last > ahead && stored_fence(b, NAME) < Some(last), "B does not know {last}");

    c.kill();
    meanwhile();
    c.restart();
    assert_eq!(stored_fence(c, NAME), Some(early), "the snapshot is old");
    wait_until_quarantined(&everyone, 2).await;
    let after = stored_state(c, NAME).expect("the node belongs to the cluster again");
    assert!(after.epoch != before.epoch && after.floor.is_none(), "the restart went unnoticed");

    wait_until_node_votes(&everyone, 2).await;
    let floor = stored_state(c, NAME).and_then(|state| state.floor).expect("the node may vote");
    assert!(floor > last, "it may give out fences from {floor} on, but {last} was given");
    a.kill();
    let next = take_turn(&everyone).await;
    assert!(next > last, "{next} after {last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_votes_at_once_from_an_old_snapshot_and_its_fences_grow() {
    survives_with_one_node(&RedisServer::builder().rdb().start(), || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_nodes_fences_grow_when_its_clock_steps_back_at_a_restart() {
    let clock = Clock::new();
    let server = RedisServer::builder().rdb().clock(&clock).start();
    survives_with_one_node(&server, || clock.set_offset_micros(-900_000)).await;
}

async fn survives_with_one_node(server: &RedisServer, meanwhile: impl FnOnce()) {
    let client = connect(&[server.url()]).await;
    let mut fences = vec![take_turn(&client).await];
    server.save();
    let before = stored_state(server, NAME).expect("the node belongs to a cluster");
    let floor = before.floor.expect("the node may vote");
    eventually_async("the clock to pass the floor", async || wall_micros() > floor).await;
    // As far ahead of its clock as a fence may be, so that the clock alone would give a lower fence.
    raise_stored_fence(server, NAME, wall_micros() + MAX_CLOCK_SKEW.as_micros() as u64 * 9 / 10);
    for _ in 0..50 {
        fences.push(take_turn(&client).await);
    }

    server.kill();
    meanwhile();
    server.restart();
    assert_eq!(stored_fence(server, NAME), Some(fences[0]), "the snapshot is old");
    // An old client, and a new one.
    fences.push(take_turn(&client).await);
    let after = stored_state(server, NAME).expect("the node belongs to the cluster again");
    assert_ne!(after.epoch, before.epoch, "the restart went unnoticed");
    assert_eq!(after.quarantine_elapsed, Duration::ZERO, "it voted without a quarantine");
    fences.push(take_turn(&connect(&[server.url()]).await).await);
    // Once more, from the same snapshot.
    server.restart();
    fences.push(take_turn(&client).await);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
}
