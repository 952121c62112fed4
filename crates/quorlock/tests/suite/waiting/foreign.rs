//! Programs that lock the same nodes with `SET NX PX` may overtake waiters, but never break exclusion.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::Client;
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::queue::{Queued, all_are_served, queued};
use crate::common::long::{Wired, connected, soon};

const KEY: &str = "quorlock:job";

/// A client of another library.
struct ForeignClient<'a> {
    servers: &'a [RedisServer],
    id: String,
}

impl ForeignClient<'_> {
    /// One round of the Redlock page. Returns whether it won a majority; if not, it releases its votes.
    fn acquire(&self, ttl: Duration) -> bool {
        let ttl = ttl.as_millis().to_string();
        let granted =
            |server: &&RedisServer| server.command(&["SET", KEY, &self.id, "NX", "PX", &ttl]).as_str() == Some("OK");
        let won = self.servers.iter().filter(granted).count() > self.servers.len() / 2;
        if !won {
            self.release();
        }
        won
    }

    fn release(&self) {
        let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        for server in self.servers {
            server.command(&["EVAL", script, "1", KEY, &self.id]);
        }
    }

    fn votes(&self) -> usize {
        let is_own = |server: &&RedisServer| server.command(&["GET", KEY]).as_str() == Some(&self.id);
        self.servers.iter().filter(is_own).count()
    }
}

/// A plain holder, whose release is not handed to a waiter; a waiter that does not ask for a moment; and a foreign
/// client that takes the lock in that moment.
async fn overtaken(cluster: &Wired, ttl: Duration) -> (ForeignClient<'_>, Client, Queued) {
    let holder = connected(cluster.direct()).await;
    let client = connected(cluster.builder()).await;
    let foreign = ForeignClient { servers: &cluster.servers, id: "foreign".into() };
    let lease = holder.lock("job").plain().acquire().await.expect("the lock is free");
    let waiter = Queued::placed(client.lock("job")).await;
    queued(&cluster.servers, "job", 1).await;
    assert!(!foreign.acquire(ttl), "our lease excludes foreigners");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    lease.release().await.expect("the nodes are there");
    cluster.stands_on(KEY, &[]).await;
    assert!(foreign.acquire(ttl), "a foreign client ignores the queue");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    (foreign, client, waiter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_overtaken_by_a_foreign_client_is_served_after_its_release() {
    let cluster = Wired::ready(3).await;
    let (foreign, _client, waiter) = overtaken(&cluster, Duration::from_secs(120)).await;
    // Wait until the waiter has asked.
    let before: Vec<u64> = cluster.proxies.iter().map(Proxy::bytes_down).collect();
    let heard = |(proxy, before): (&Proxy, &u64)| proxy.bytes_down() > *before;
    eventually_async("the waiter to be refused", async || cluster.proxies.iter().zip(&before).all(heard)).await;
    assert!(!waiter.is_over(), "a foreign's lease excludes us");
    assert_eq!(foreign.votes(), 3);
    foreign.release();
    waiter.served().await.release().await.expect("the nodes are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_cannot_overtake_a_handoff() {
    let cluster = Wired::ready(3).await;
    let holder = connected(cluster.direct()).await;
    let client = connected(cluster.builder()).await;
    let foreign = ForeignClient { servers: &cluster.servers, id: "foreign".into() };
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let waiter = Queued::placed(client.lock("job")).await;
    queued(&cluster.servers, "job", 1).await;
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    lease.release().await.expect("the nodes are there");
    queued(&cluster.servers, "job", 0).await;
    assert!(!foreign.acquire(Duration::from_secs(120)), "the votes were handed to the waiter");
    cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
    waiter.served().await.release().await.expect("the nodes are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_overtaken_by_a_foreign_client_is_served_after_its_expiry() {
    let cluster = Wired::ready(3).await;
    let (foreign, _client, waiter) = overtaken(&cluster, Duration::from_secs(2)).await;
    let lease = waiter.served().await;
    assert!(foreign.votes() < 2, "two at a time");
    lease.release().await.expect("the nodes are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_clients_and_waiters_never_hold_at_the_same_time() {
    const OURS: usize = 3;
    const TURNS: usize = 10;
    let cluster = Arc::new(Wired::ready(3).await);
    let busy = Arc::new(AtomicUsize::new(0));
    let served = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..OURS {
        let client = connected(cluster.direct()).await;
        let (busy, served) = (Arc::clone(&busy), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let lease = client.lock("job").acquire().await.expect("everyone is served");
                assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                tokio::task::yield_now().await;
                assert_eq!(busy.fetch_sub(1, Ordering::SeqCst), 1, "two at a time");
                lease.release().await.expect("the nodes are there");
                served.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let foreign = {
        let (cluster, busy, served) = (Arc::clone(&cluster), Arc::clone(&busy), Arc::clone(&served));
        tokio::task::spawn_blocking(move || {
            let mut turns = 0;
            while served.load(Ordering::SeqCst) < OURS * TURNS {
                let foreign = ForeignClient { servers: &cluster.servers, id: format!("foreign {turns}") };
                if foreign.acquire(Duration::from_secs(120)) {
                    assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                    std::thread::yield_now();
                    assert_eq!(busy.fetch_sub(1, Ordering::SeqCst), 1, "two at a time");
                    foreign.release();
                    turns += 1;
                }
                // Give waiters, which have to poll, a chance.
                std::thread::sleep(Duration::from_millis(20));
            }
            turns
        })
    };
    for task in tasks {
        soon(task).await.expect("no turn went wrong");
    }
    println!("{} turns of foreigners", soon(foreign).await.expect("no turn went wrong"));
}

/// Redisson stores a lock as a hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_behind_a_key_of_another_type_is_served_when_the_key_is_gone() {
    let cluster = Wired::ready(3).await;
    let clients = [connected(cluster.direct()).await, connected(cluster.direct()).await];
    for server in &cluster.servers {
        server.command(&["HSET", KEY, "5c4e:1", "1"]);
    }
    let first = Queued::placed(clients[0].lock("job")).await;
    queued(&cluster.servers, "job", 1).await;
    let second = Queued::placed(clients[1].lock("job")).await;
    queued(&cluster.servers, "job", 2).await;
    assert!(!first.is_over() && !second.is_over(), "another program has it");
    let fences = |server: &RedisServer| server.keys("quorlock~fence:*");
    assert!(cluster.servers.iter().all(|server| fences(server).is_empty()), "no fence is stored for a refusal");
    for server in &cluster.servers {
        server.command(&["DEL", KEY]);
    }
    all_are_served(vec![first, second]).await;
}
