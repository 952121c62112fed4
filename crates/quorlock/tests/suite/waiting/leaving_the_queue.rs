//! However a wait ends, the waiter leaves the queues of all nodes.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{AcquireError, Client, ClientBuilder, Lease};
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::waiters::{Waiter, queue_lengths, wait_for_queue_length};
use crate::common::long_timeouts::{
    self, CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, expect_soon, vote_count, wait_until_counts_grow,
};

const NODES: usize = 3;

/// Closes the client, which delivers all its releases, and checks that no queue has a waiter any more.
async fn close_and_check_queues(cluster: &ProxiedCluster, client: Client) {
    client.close(CLOSE_TIMEOUT).await.expect("all nodes are reachable and accept the releases");
    assert_eq!(queue_lengths(&cluster.servers, "job"), [0; NODES], "the client left queue positions behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_out_wait_names_the_holder_and_leaves_the_queue() {
    let cluster = ProxiedCluster::start(NODES).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let lease = holder.lock("job").label("the holder").acquire().await.expect("the lock is free");
    let client = connect_to_all(cluster.direct_builder()).await;
    let lock = client.lock("job");
    let wait = tokio::spawn(async move { lock.acquire_within(Duration::from_millis(400)).await });
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    let error = expect_soon(wait).await.expect("an acquire does not panic").expect_err("the lock is held");
    let AcquireError::WaitTimeout(held) = error else { panic!("{error}") };
    assert_eq!(held.holder.expect("every node knows the holder").label, "the holder");
    assert!(held.remaining.is_some());
    assert_eq!(held.fence, lease.fence().ok());
    close_and_check_queues(&cluster, client).await;
    lease.ensure(Duration::ZERO).expect("the holder still holds the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_out_wait_with_a_frozen_node_names_the_holder() {
    let cluster = ProxiedCluster::start(NODES).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let _lease = holder.lock("job").label("the holder").acquire().await.expect("the lock is free");
    let client = connect_to_all(cluster.direct_builder()).await;
    cluster.servers[0].freeze();
    let error =
        expect_soon(client.lock("job").acquire_within(Duration::from_millis(400))).await.expect_err("the lock is held");
    let AcquireError::WaitTimeout(held) = error else { panic!("{error}") };
    assert_eq!(held.holder.expect("the other nodes know the holder").label, "the holder");
    cluster.servers[0].thaw();
    close_and_check_queues(&cluster, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_shorter_than_a_reply_does_not_call_nodes_unreachable() {
    let cluster = ProxiedCluster::start(NODES).await;
    let client =
        connect_to_all(cluster.direct_builder().ttl(Duration::from_secs(60)).node_deadline(Duration::from_secs(20)))
            .await;
    cluster.servers[..2].iter().for_each(RedisServer::freeze);
    let error = expect_soon(client.lock("job").acquire_within(Duration::from_millis(1)))
        .await
        .expect_err("no majority can answer");
    assert!(matches!(error, AcquireError::WaitTimeout(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("too few nodes had answered for \"job\"") && text.contains("not heard"), "{text}");
    cluster.servers[..2].iter().for_each(RedisServer::thaw);
    close_and_check_queues(&cluster, client).await;
}

/// A holder, and a waiter that is queued on every node.
struct HolderAndWaiter {
    cluster: ProxiedCluster,
    holder: Client,
    lease: Lease,
    client: Client,
    waiter: Waiter,
}

impl HolderAndWaiter {
    /// Starts a holder and a waiter. `waiter_builder` decides whether the client of the waiter uses the proxies.
    async fn start(waiter_builder: fn(&ProxiedCluster) -> ClientBuilder) -> Self {
        let cluster = ProxiedCluster::start(NODES).await;
        let holder = connect_to_all(cluster.direct_builder()).await;
        let lease = holder.lock("job").acquire().await.expect("the lock is free");
        let client = connect_to_all(waiter_builder(&cluster)).await;
        let waiter = Waiter::start_and_queue(client.lock("job")).await;
        wait_for_queue_length(&cluster.servers, "job", 1).await;
        Self { cluster, holder, lease, client, waiter }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_queue() {
    let HolderAndWaiter { cluster, client, waiter, lease: _lease, holder: _holder } =
        HolderAndWaiter::start(ProxiedCluster::direct_builder).await;
    waiter.cancel().await;
    close_and_check_queues(&cluster, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_closed_during_a_wait_leaves_the_queue() {
    let HolderAndWaiter { cluster, client, waiter, lease: _lease, holder: _holder } =
        HolderAndWaiter::start(ProxiedCluster::direct_builder).await;
    close_and_check_queues(&cluster, client).await;
    assert_eq!(waiter.outcome().await.map(drop), Err(AcquireError::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_dropped_after_its_connections_broke_leaves_the_queue() {
    let HolderAndWaiter { cluster, client, waiter, lease: _lease, holder: _holder } =
        HolderAndWaiter::start(ProxiedCluster::proxied_builder).await;
    cluster.proxies.iter().for_each(Proxy::cut);
    waiter.cancel().await;
    close_and_check_queues(&cluster, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_request_that_arrives_after_the_waiter_left_is_refused() {
    let HolderAndWaiter { cluster, client, waiter, lease, holder: _holder } =
        HolderAndWaiter::start(ProxiedCluster::proxied_builder).await;
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let has_polled = |proxy: &Proxy| proxy.held_up() > 0;
    eventually_async("the waiter to poll all nodes", async || cluster.proxies.iter().all(has_polled)).await;
    // The polls stay in the network until the waiter has left.
    cluster.proxies.iter().for_each(Proxy::strand);
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    waiter.cancel().await;
    close_and_check_queues(&cluster, client).await;
    let counts_before = long_timeouts::counts(&cluster.servers, vote_count);
    cluster.proxies.iter().for_each(Proxy::deliver_stranded);
    wait_until_counts_grow(&cluster.servers, vote_count, &counts_before, 1).await;
    assert_eq!(
        queue_lengths(&cluster.servers, "job"),
        [0; NODES],
        "a request that arrived too late was put into the queue"
    );
    lease.release().await.expect("all nodes answer");
    let new_client = connect_to_all(cluster.direct_builder()).await;
    let lease = expect_soon(new_client.lock("job").try_acquire()).await.expect("all nodes can vote");
    assert!(lease.is_some(), "the lock is not free, or its queue is not empty");
}

/// A child process that runs this test binary and waits for the lock. Dropping it kills the process.
struct WaitingProcess(Child);

impl WaitingProcess {
    fn start(urls: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of the test binary is known"));
        command
            .args(crate::common::args_to_run(concat!(module_path!(), "::wait_until_killed")))
            .env(URLS_VARIABLE, urls);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the test binary can be started"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a killed child can be reaped");
    }
}

impl Drop for WaitingProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names the nodes to the child process.
const URLS_VARIABLE: &str = "QUORLOCK_TEST_URLS";

#[tokio::test]
#[ignore = "another test runs this test in a child process"]
async fn wait_until_killed() {
    let Ok(urls) = std::env::var(URLS_VARIABLE) else { return };
    let client = connect_to_all(long_timeouts::builder().nodes(urls.split(','))).await;
    let _lease = client.lock("job").acquire().await;
    panic!("the process was not killed while it waited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_waiter_leaves_the_queue_and_later_waiters_get_the_lock() {
    let cluster = ProxiedCluster::start(NODES).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let urls: Vec<String> = cluster.servers.iter().map(quorlock_testkit::RedisServer::url).collect();
    let mut process = WaitingProcess::start(&urls.join(","));
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let second_waiter = Waiter::start_and_queue(client.lock("job")).await;
    assert_eq!(second_waiter.position(), Some(2));
    let connection_count = |server: &RedisServer| server.cli(&["CLIENT", "LIST"]).lines().count();
    let counts_before: Vec<usize> = cluster.servers.iter().map(connection_count).collect();
    process.kill();
    // A server that has not noticed that the connection is closed would hand the lock to the dead waiter for one ttl.
    for (server, count_before) in cluster.servers.iter().zip(counts_before) {
        eventually_async("the server to notice that the connection is closed", async || {
            connection_count(server) < count_before
        })
        .await;
    }
    expect_soon(lease.release()).await.expect("all nodes answer");
    second_waiter.expect_lease().await.release().await.expect("all nodes answer");
    wait_for_queue_length(&cluster.servers, "job", 0).await;
}
