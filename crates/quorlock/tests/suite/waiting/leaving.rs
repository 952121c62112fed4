//! A waiter that leaves in any way takes its queue positions with it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{AcquireError, Client, ClientBuilder, Lease};
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::queue::{Queued, queued, waiting};
use crate::common::long::{self, DRAINING, Wired, connected, more, soon, votes};

const NODES: usize = 3;

/// Closes the client, which must deliver all its releases, and checks once that it has no queue position left.
async fn has_left(cluster: &Wired, client: Client) {
    client.close(DRAINING).await.expect("all nodes can be reached: everything owed can be delivered");
    assert_eq!(waiting(&cluster.servers, "job"), [0; NODES], "left behind by a client that owes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_out_wait_names_the_holder_and_leaves_the_queue() {
    let cluster = Wired::ready(NODES).await;
    let holder = connected(cluster.direct()).await;
    let lease = holder.lock("job").label("night shift").acquire().await.expect("the lock is free");
    let client = connected(cluster.direct()).await;
    let lock = client.lock("job");
    let wait = tokio::spawn(async move { lock.acquire_within(Duration::from_millis(400)).await });
    queued(&cluster.servers, "job", 1).await;
    let error = soon(wait).await.expect("an acquire does not panic").expect_err("the holder lives");
    let AcquireError::WaitTimeout(held) = error else { panic!("{error}") };
    assert_eq!(held.holder.expect("every node knows it").label, "night shift");
    assert!(held.remaining.is_some());
    assert_eq!(held.fence, lease.fence().ok());
    has_left(&cluster, client).await;
    lease.ensure(Duration::ZERO).expect("the holder still holds it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_out_wait_with_a_frozen_node_names_the_holder() {
    let cluster = Wired::ready(NODES).await;
    let holder = connected(cluster.direct()).await;
    let _lease = holder.lock("job").label("night shift").acquire().await.expect("the lock is free");
    let client = connected(cluster.direct()).await;
    cluster.servers[0].freeze();
    let error =
        soon(client.lock("job").acquire_within(Duration::from_millis(400))).await.expect_err("the holder lives");
    let AcquireError::WaitTimeout(held) = error else { panic!("{error}") };
    assert_eq!(held.holder.expect("the other nodes know the holder").label, "night shift");
    cluster.servers[0].thaw();
    has_left(&cluster, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_shorter_than_a_reply_does_not_blame_the_nodes() {
    let cluster = Wired::ready(NODES).await;
    let client = connected(cluster.direct().ttl(Duration::from_secs(60)).node_deadline(Duration::from_secs(20))).await;
    cluster.servers[..2].iter().for_each(RedisServer::freeze);
    let error =
        soon(client.lock("job").acquire_within(Duration::from_millis(1))).await.expect_err("too few can answer");
    assert!(matches!(error, AcquireError::WaitTimeout(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("too few nodes had answered for \"job\"") && text.contains("not heard"), "{text}");
    cluster.servers[..2].iter().for_each(RedisServer::thaw);
    has_left(&cluster, client).await;
}

/// A holder, and a waiter that is queued on every node.
struct Scene {
    cluster: Wired,
    holder: Client,
    lease: Lease,
    client: Client,
    waiter: Queued,
}

impl Scene {
    /// The waiter's client connects directly to the nodes, or through the proxies.
    async fn new(way: fn(&Wired) -> ClientBuilder) -> Self {
        let cluster = Wired::ready(NODES).await;
        let holder = connected(cluster.direct()).await;
        let lease = holder.lock("job").acquire().await.expect("the lock is free");
        let client = connected(way(&cluster)).await;
        let waiter = Queued::placed(client.lock("job")).await;
        queued(&cluster.servers, "job", 1).await;
        Self { cluster, holder, lease, client, waiter }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_queue() {
    let Scene { cluster, client, waiter, lease: _lease, holder: _holder } = Scene::new(Wired::direct).await;
    waiter.drop_it().await;
    has_left(&cluster, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_closed_during_a_wait_leaves_the_queue() {
    let Scene { cluster, client, waiter, lease: _lease, holder: _holder } = Scene::new(Wired::direct).await;
    has_left(&cluster, client).await;
    assert_eq!(waiter.outcome().await.map(drop), Err(AcquireError::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_dropped_after_its_connections_broke_leaves_the_queue() {
    let Scene { cluster, client, waiter, lease: _lease, holder: _holder } = Scene::new(Wired::builder).await;
    cluster.proxies.iter().for_each(Proxy::cut);
    waiter.drop_it().await;
    has_left(&cluster, client).await;
}

/// The request to queue arrives after the waiter has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_request_that_arrives_after_the_waiter_left_is_refused() {
    let Scene { cluster, client, waiter, lease, holder: _holder } = Scene::new(Wired::builder).await;
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let has_asked = |proxy: &Proxy| proxy.held_up() > 0;
    eventually_async("it to ask again", async || cluster.proxies.iter().all(has_asked)).await;
    cluster.proxies.iter().for_each(Proxy::strand);
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    waiter.drop_it().await;
    has_left(&cluster, client).await;
    let before = long::each(&cluster.servers, votes);
    cluster.proxies.iter().for_each(Proxy::deliver_stranded);
    more(&cluster.servers, votes, &before, 1).await;
    assert_eq!(waiting(&cluster.servers, "job"), [0; NODES], "put in the queue by a request that came too late");
    lease.release().await.expect("the nodes are there");
    let fresh = connected(cluster.direct()).await;
    let free = soon(fresh.lock("job").try_acquire()).await.expect("all nodes can vote");
    assert!(free.is_some(), "the lock is free and its queue is empty");
}

/// This test binary as a process that waits. It is killed on drop.
struct Process(Child);

impl Process {
    fn waits(urls: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a test has a binary"));
        command.args(crate::common::only(concat!(module_path!(), "::wait_until_killed"))).env(URLS, urls);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary can be started"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a killed child can be reaped");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const URLS: &str = "QUORLOCK_TEST_URLS";

#[tokio::test]
#[ignore = "a part of the test below, in a process of its own"]
async fn wait_until_killed() {
    let Ok(urls) = std::env::var(URLS) else { return };
    let client = connected(long::builder().nodes(urls.split(','))).await;
    let _lease = client.lock("job").acquire().await;
    panic!("it is killed while it waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_waiter_disappears_and_later_waiters_are_served() {
    let cluster = Wired::ready(NODES).await;
    let holder = connected(cluster.direct()).await;
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let urls: Vec<String> = cluster.servers.iter().map(quorlock_testkit::RedisServer::url).collect();
    let mut killed = Process::waits(&urls.join(","));
    queued(&cluster.servers, "job", 1).await;
    let client = connected(cluster.direct()).await;
    let behind = Queued::placed(client.lock("job")).await;
    assert_eq!(behind.place(), Some(2));
    let connections = |server: &RedisServer| server.cli(&["CLIENT", "LIST"]).lines().count();
    let before: Vec<usize> = cluster.servers.iter().map(connections).collect();
    killed.kill();
    // A server that has not noticed the closed connection yet hands the lock to the dead waiter, for one ttl.
    for (server, before) in cluster.servers.iter().zip(before) {
        eventually_async("a server that sees the end of a connection", async || connections(server) < before).await;
    }
    soon(lease.release()).await.expect("the nodes are there");
    behind.served().await.release().await.expect("the nodes are there");
    queued(&cluster.servers, "job", 0).await;
}
