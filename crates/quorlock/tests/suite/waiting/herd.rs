//! Many waiters for one name.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorlock::{Client, MemoryNodes, Progress, Stats};
use quorlock_testkit::eventually_async;

use crate::common::Cluster;
use crate::common::long::{builder, connected};

const WAITERS: usize = 32;
const NODES: usize = 5;
/// The shortest polling interval of a waiter: polls depend on the time, not on the number of leases.
const POLL_MIN: Duration = Duration::from_millis(750);

/// One turn of one waiter.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// The waiter's number, in the order of the tickets.
    who: usize,
    /// The first position that it was told.
    place: usize,
    waited: Duration,
}

/// The traffic of all links.
#[derive(Clone, Copy)]
struct Carried {
    requests: u64,
    /// Requests, replies and hints.
    messages: u64,
}

fn carried(clients: &[Client]) -> Carried {
    let sum = |count: fn(&Stats) -> u64| clients.iter().map(|client| count(&client.stats())).sum();
    Carried {
        requests: sum(|stats| stats.requests),
        messages: sum(|stats| stats.requests + stats.replies + stats.hints),
    }
}

/// Makes clients queue behind a holder, one after the other; then each holds for a millisecond.
async fn take_turns(clients: Vec<Client>) -> (Vec<Turn>, Carried) {
    let before = carried(&clients);
    let lease = clients[0].lock("job").acquire().await.expect("the lock is free");
    let (turns, busy) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for (who, client) in clients.iter().enumerate() {
        let place = Arc::new(Mutex::new(None));
        let told = Arc::clone(&place);
        let lock = client.lock("job").observe(move |progress| {
            if let Progress::Waiting(wait) = progress {
                told.lock().expect("no turn panics with it").get_or_insert(wait.place);
            }
        });
        let (turns, busy, first) = (Arc::clone(&turns), Arc::clone(&busy), Arc::clone(&place));
        tasks.push(tokio::spawn(async move {
            let start = Instant::now();
            let lease = lock.acquire().await.expect("everyone is served");
            let waited = start.elapsed();
            assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            let place = first.lock().expect("no turn panics with it").flatten().expect("the place was told") as usize;
            turns.lock().expect("no turn panics with it").push(Turn { who, place, waited });
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(busy.fetch_sub(1, Ordering::SeqCst), 1, "two at a time");
            lease.release().await.expect("the nodes are there");
        }));
        eventually_async("the next to wait in the queue", async || {
            place.lock().expect("no turn panics with it").is_some()
        })
        .await;
    }
    lease.release().await.expect("the nodes are there");
    for task in tasks {
        task.await.expect("no turn went wrong");
    }
    let after = carried(&clients);
    let turns = turns.lock().expect("no turn panics with it").clone();
    (turns, Carried { requests: after.requests - before.requests, messages: after.messages - before.messages })
}

fn check(turns: &[Turn], Carried { requests, messages }: Carried) {
    assert_eq!(turns.len(), WAITERS);
    for (turn, Turn { who, place, .. }) in turns.iter().enumerate() {
        assert!(turn.abs_diff(*who) <= 3, "waiter {who} had turn {turn}: {turns:?}");
        assert!(turn < place + 3, "waiter {who} was told position {place} and had turn {turn}");
    }
    let per_round = NODES as f64;
    // One more than the waiters: the first holder.
    let leases = (turns.len() + 1) as f64;
    let polls: u128 = turns.iter().map(|turn| turn.waited.as_millis() / POLL_MIN.as_millis()).sum();
    let (each, rounds) = (messages as f64 / leases, requests as f64 / leases / per_round);
    println!("{leases} leases; for each {each:.1} messages, {rounds:.2} rounds; at most {polls} polls in all");
    let polled = polls as f64 / leases;
    assert!(each <= 40.0 + 2.0 * per_round * polled, "{each:.1} messages for each lease, {polls} polls in all");
    assert!(rounds <= 3.0 + polled, "{rounds:.2} rounds for each lease, {polls} polls in all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_waiters_is_served_in_order_in_memory() {
    let nodes = MemoryNodes::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        let client = builder().memory(&nodes).connect_lazy().await.expect("the nodes are fit");
        if clients.is_empty() {
            client.init_cluster().await.expect("a new cluster can be declared");
        }
        clients.push(client);
    }
    let (turns, carried) = take_turns(clients).await;
    check(&turns, carried);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_waiters_is_served_in_order() {
    let cluster = Cluster { servers: quorlock_testkit::RedisServer::start_many(NODES) };
    let ours = || builder().nodes(cluster.urls());
    ours().init_cluster().await.expect("a new cluster can be declared");
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        clients.push(connected(ours()).await);
    }
    let (turns, carried) = take_turns(clients).await;
    check(&turns, carried);
}
