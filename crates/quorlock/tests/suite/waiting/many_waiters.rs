//! Many waiters for one name (a thundering herd): they get the lock in order, and with few messages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorlock::{Client, MemoryNodes, Progress, Stats};
use quorlock_testkit::eventually_async;

use crate::common::Cluster;
use crate::common::long_timeouts::{builder, connect_to_all};

const WAITERS: usize = 32;
const NODES: usize = 5;
/// The shortest time between two polls of a waiter. It limits the number of polls, which depends on the elapsed time
/// and not on the number of leases.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(750);
/// The number of waiters that may get the lock out of order. A ticket is the client's estimate of the nodes' time. If the
/// machine delays the replies to a client, the client estimates too early a time, and overtakes earlier waiters.
const OUT_OF_ORDER_MAX: usize = WAITERS / 8;

/// A wait that ended with the lock.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The number of the waiter, in the order of the tickets.
    waiter: usize,
    /// The first queue position that was reported to the waiter.
    first_position: usize,
    duration: Duration,
}

/// The traffic of all links.
#[derive(Clone, Copy)]
struct Traffic {
    requests: u64,
    /// The number of requests, replies and hints.
    messages: u64,
}

fn traffic(clients: &[Client]) -> Traffic {
    let sum = |count: fn(&Stats) -> u64| clients.iter().map(|client| count(&client.stats())).sum();
    Traffic {
        requests: sum(|stats| stats.requests),
        messages: sum(|stats| stats.requests + stats.replies + stats.hints),
    }
}

/// Makes the clients queue behind a holder, one after the other. Then each client holds the lock for a millisecond.
async fn run_queue(clients: Vec<Client>) -> (Vec<Wait>, Traffic) {
    let traffic_before = traffic(&clients);
    let lease = clients[0].lock("job").acquire().await.expect("the lock is free");
    let (waits, holders) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for (waiter, client) in clients.iter().enumerate() {
        let first_position = Arc::new(Mutex::new(None));
        let reported_position = Arc::clone(&first_position);
        let lock = client.lock("job").observe(move |progress| {
            if let Progress::Waiting(wait) = progress {
                reported_position.lock().expect("no task panics").get_or_insert(wait.position);
            }
        });
        let (waits, holders, own_position) = (Arc::clone(&waits), Arc::clone(&holders), Arc::clone(&first_position));
        tasks.push(tokio::spawn(async move {
            let start = Instant::now();
            let lease = lock.acquire().await.expect("every waiter gets the lock");
            let duration = start.elapsed();
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
            let first_position =
                own_position.lock().expect("no task panics").flatten().expect("the position was reported") as usize;
            waits.lock().expect("no task panics").push(Wait { waiter, first_position, duration });
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1, "two clients hold the lock");
            lease.release().await.expect("all nodes answer");
        }));
        eventually_async("the next client to have a queue position", async || {
            first_position.lock().expect("no task panics").is_some()
        })
        .await;
    }
    lease.release().await.expect("all nodes answer");
    for task in tasks {
        task.await.expect("the task does not panic");
    }
    let traffic_after = traffic(&clients);
    let waits = waits.lock().expect("no task panics").clone();
    (
        waits,
        Traffic {
            requests: traffic_after.requests - traffic_before.requests,
            messages: traffic_after.messages - traffic_before.messages,
        },
    )
}

/// Checks that the waiters got the lock nearly in order, and that each lease needed few messages and rounds.
fn check_waits_and_traffic(waits: &[Wait], Traffic { requests, messages }: Traffic) {
    assert_eq!(waits.len(), WAITERS);
    let is_out_of_order =
        |(order, wait): (usize, &Wait)| order.abs_diff(wait.waiter) > 3 || order >= wait.first_position + 3;
    let out_of_order = waits.iter().enumerate().filter(|wait| is_out_of_order(*wait)).count();
    assert!(out_of_order <= OUT_OF_ORDER_MAX, "{out_of_order} waiters got the lock out of order: {waits:?}");
    let requests_per_round = NODES as f64;
    // Each waiter had one lease, and so had the first holder.
    let leases = (waits.len() + 1) as f64;
    let polls: u128 = waits.iter().map(|wait| wait.duration.as_millis() / POLL_INTERVAL_MIN.as_millis()).sum();
    let (messages, rounds) = (messages as f64 / leases, requests as f64 / leases / requests_per_round);
    println!(
        "{leases} leases; per lease {messages:.1} messages and {rounds:.2} rounds; at most {polls} polls in total"
    );
    let polls_per_lease = polls as f64 / leases;
    assert!(messages <= 40.0 + 2.0 * requests_per_round * polls_per_lease, "{messages:.1} messages per lease");
    assert!(rounds <= 3.0 + polls_per_lease, "{rounds:.2} rounds per lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_get_the_lock_in_order_in_memory() {
    let nodes = MemoryNodes::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        let client = builder().memory(&nodes).connect_lazy().await.expect("no node is unfit");
        if clients.is_empty() {
            client.init_cluster().await.expect("a new cluster can be initialized");
        }
        clients.push(client);
    }
    let (waits, traffic) = run_queue(clients).await;
    check_waits_and_traffic(&waits, traffic);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_get_the_lock_in_order() {
    let cluster = Cluster { servers: quorlock_testkit::RedisServer::start_many(NODES) };
    let new_builder = || builder().nodes(cluster.urls());
    new_builder().init_cluster().await.expect("a new cluster can be initialized");
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        clients.push(connect_to_all(new_builder()).await);
    }
    let (waits, traffic) = run_queue(clients).await;
    check_waits_and_traffic(&waits, traffic);
}
