//! Other programs that lock the same nodes with `SET NX PX` may overtake waiters, but two programs never hold the lock
//! together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::Client;
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::waiters::{Waiter, expect_all_served, wait_for_queue_length};
use crate::common::long_timeouts::{ProxiedCluster, connect_to_all, expect_soon};

const KEY: &str = "quorlock:job";

/// A client of another library.
struct ForeignClient<'a> {
    servers: &'a [RedisServer],
    id: String,
}

impl ForeignClient<'_> {
    /// Runs one round of the Redlock algorithm. Returns whether a majority granted the lock. If not, releases all
    /// votes.
    fn acquire(&self, ttl: Duration) -> bool {
        let ttl_ms = ttl.as_millis().to_string();
        let grants =
            |server: &&RedisServer| server.command(&["SET", KEY, &self.id, "NX", "PX", &ttl_ms]).as_str() == Some("OK");
        let has_majority = self.servers.iter().filter(grants).count() > self.servers.len() / 2;
        if !has_majority {
            self.release();
        }
        has_majority
    }

    fn release(&self) {
        let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        for server in self.servers {
            server.command(&["EVAL", script, "1", KEY, &self.id]);
        }
    }

    /// The number of servers that have a vote for this client.
    fn vote_count(&self) -> usize {
        let is_own = |server: &&RedisServer| server.command(&["GET", KEY]).as_str() == Some(&self.id);
        self.servers.iter().filter(is_own).count()
    }
}

/// Lets a foreign client overtake a waiter. The holder has a plain lock, so its release does not hand the lock to a
/// waiter, and the proxies hold the requests of the waiter until the foreign client has the lock.
async fn overtake_waiter(cluster: &ProxiedCluster, ttl: Duration) -> (ForeignClient<'_>, Client, Waiter) {
    let holder = connect_to_all(cluster.direct_builder()).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let foreign_client = ForeignClient { servers: &cluster.servers, id: "foreign".into() };
    let lease = holder.lock("job").plain().acquire().await.expect("the lock is free");
    let waiter = Waiter::start_and_queue(client.lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    assert!(!foreign_client.acquire(ttl), "a lease excludes foreign clients");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    lease.release().await.expect("all nodes answer");
    cluster.wait_until_deleted(KEY).await;
    assert!(foreign_client.acquire(ttl), "a foreign client ignores the queue");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    (foreign_client, client, waiter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overtaken_waiter_gets_the_lock_when_the_foreign_client_releases_it() {
    let cluster = ProxiedCluster::start(3).await;
    let (foreign_client, _client, waiter) = overtake_waiter(&cluster, Duration::from_secs(120)).await;
    // Wait until every node has answered a poll of the waiter.
    let bytes_before: Vec<u64> = cluster.proxies.iter().map(Proxy::bytes_down).collect();
    let has_replied = |(proxy, bytes_before): (&Proxy, &u64)| proxy.bytes_down() > *bytes_before;
    eventually_async("the nodes to refuse the waiter", async || {
        cluster.proxies.iter().zip(&bytes_before).all(has_replied)
    })
    .await;
    assert!(!waiter.is_over(), "a lock of a foreign client excludes the waiter");
    assert_eq!(foreign_client.vote_count(), 3);
    foreign_client.release();
    waiter.expect_lease().await.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_cannot_overtake_a_handoff() {
    let cluster = ProxiedCluster::start(3).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let foreign_client = ForeignClient { servers: &cluster.servers, id: "foreign".into() };
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let waiter = Waiter::start_and_queue(client.lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    lease.release().await.expect("all nodes answer");
    wait_for_queue_length(&cluster.servers, "job", 0).await;
    assert!(!foreign_client.acquire(Duration::from_secs(120)), "the votes were handed to the waiter");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    waiter.expect_lease().await.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overtaken_waiter_gets_the_lock_when_the_lock_of_the_foreign_client_expires() {
    let cluster = ProxiedCluster::start(3).await;
    let (foreign_client, _client, waiter) = overtake_waiter(&cluster, Duration::from_secs(2)).await;
    let lease = waiter.expect_lease().await;
    assert!(foreign_client.vote_count() < 2, "two clients hold the lock");
    lease.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_clients_and_waiters_never_hold_the_lock_at_the_same_time() {
    const CLIENTS: usize = 3;
    const LEASES_PER_CLIENT: usize = 10;
    let cluster = Arc::new(ProxiedCluster::start(3).await);
    let holders = Arc::new(AtomicUsize::new(0));
    let finished_leases = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = connect_to_all(cluster.direct_builder()).await;
        let (holders, finished_leases) = (Arc::clone(&holders), Arc::clone(&finished_leases));
        tasks.push(tokio::spawn(async move {
            for _ in 0..LEASES_PER_CLIENT {
                let lease = client.lock("job").acquire().await.expect("every waiter gets the lock");
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
                tokio::task::yield_now().await;
                assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1, "two clients hold the lock");
                lease.release().await.expect("all nodes answer");
                finished_leases.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let foreign_task = {
        let (cluster, holders, finished_leases) =
            (Arc::clone(&cluster), Arc::clone(&holders), Arc::clone(&finished_leases));
        tokio::task::spawn_blocking(move || {
            let mut foreign_leases = 0;
            while finished_leases.load(Ordering::SeqCst) < CLIENTS * LEASES_PER_CLIENT {
                let foreign_client =
                    ForeignClient { servers: &cluster.servers, id: format!("foreign {foreign_leases}") };
                if foreign_client.acquire(Duration::from_secs(120)) {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
                    std::thread::yield_now();
                    assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1, "two clients hold the lock");
                    foreign_client.release();
                    foreign_leases += 1;
                }
                // The release of a foreign client sends no hint, so give the waiters time to poll.
                std::thread::sleep(Duration::from_millis(20));
            }
            foreign_leases
        })
    };
    for task in tasks {
        expect_soon(task).await.expect("the task does not panic");
    }
    println!(
        "the foreign clients held the lock {} times",
        expect_soon(foreign_task).await.expect("the task does not panic")
    );
}

/// Some libraries store a lock under a key of another type. Redisson, for example, uses a hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_behind_a_key_of_another_type_get_the_lock_when_the_key_is_deleted() {
    let cluster = ProxiedCluster::start(3).await;
    let clients = [connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await];
    for server in &cluster.servers {
        server.command(&["HSET", KEY, "5c4e:1", "1"]);
    }
    let first_waiter = Waiter::start_and_queue(clients[0].lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    let second_waiter = Waiter::start_and_queue(clients[1].lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 2).await;
    assert!(!first_waiter.is_over() && !second_waiter.is_over(), "another program holds the lock");
    let fence_keys = |server: &RedisServer| server.keys("quorlock~fence:*");
    assert!(cluster.servers.iter().all(|server| fence_keys(server).is_empty()), "a refused request stored a fence");
    for server in &cluster.servers {
        server.command(&["DEL", KEY]);
    }
    expect_all_served(vec![first_waiter, second_waiter]).await;
}
