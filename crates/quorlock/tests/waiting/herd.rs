//! Many waiters for one name.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{Client, MemoryNodes, Progress, Stats};
use quorlock_testkit::eventually_async;

use crate::common::Cluster;
use crate::common::long::{builder, connected};

const WAITERS: usize = 32;

/// One turn of one waiter.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Who took it, in the order in which the tickets were drawn.
    who: usize,
    /// The place that it was first told.
    place: usize,
}

/// What a client's links have carried: requests, replies and hints.
fn messages(stats: &Stats) -> u64 {
    stats.requests + stats.replies + stats.hints
}

/// Lets so many clients line up, one after the other, behind a holder; then each holds for a millisecond.
async fn take_turns(clients: Vec<Client>) -> (Vec<Turn>, u64) {
    let holder = clients[0].clone();
    let lease = holder.lock("job").acquire().await.expect("nobody else wants it yet");
    let before: u64 = clients.iter().map(|client| messages(&client.stats())).sum();
    let (turns, busy) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for (who, client) in clients.iter().enumerate() {
        let place = Arc::new(Mutex::new(None));
        let told = Arc::clone(&place);
        let lock = client.lock("job").observe(move |progress| {
            if let Progress::Waiting(wait) = progress {
                told.lock().unwrap().get_or_insert(wait.place);
            }
        });
        let (turns, busy, first) = (Arc::clone(&turns), Arc::clone(&busy), Arc::clone(&place));
        tasks.push(tokio::spawn(async move {
            let lease = lock.acquire().await.expect("everyone is served");
            assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            let place = first.lock().unwrap().flatten().expect("the place was told") as usize;
            turns.lock().unwrap().push(Turn { who, place });
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(busy.fetch_sub(1, Ordering::SeqCst), 1, "two at a time");
            lease.release().await.expect("the nodes are there");
        }));
        eventually_async("the next to wait in line", async || place.lock().unwrap().is_some()).await;
    }
    lease.release().await.expect("the nodes are there");
    for task in tasks {
        task.await.expect("no turn went wrong");
    }
    let after: u64 = clients.iter().map(|client| messages(&client.stats())).sum();
    let turns = turns.lock().unwrap().clone();
    (turns, after - before)
}

fn check(turns: &[Turn], messages: u64) {
    assert_eq!(turns.len(), WAITERS);
    for (turn, Turn { who, place }) in turns.iter().enumerate() {
        assert!(turn.abs_diff(*who) <= 3, "number {who} had turn {turn}: {turns:?}");
        assert!(turn < place + 3, "number {who} was told place {place} and had turn {turn}");
    }
    let each = messages as f64 / turns.len() as f64;
    println!("{} leases, {messages} messages, {each:.1} for each", turns.len());
    assert!(each <= 40.0, "{each:.1} messages for each lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_waiters_is_served_in_order_in_memory() {
    let nodes = MemoryNodes::new(5);
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        let client = builder().memory(&nodes).connect().await.expect("the nodes are fit");
        if clients.is_empty() {
            client.init_cluster().await.expect("a new cluster can be declared");
        }
        clients.push(client);
    }
    let (turns, messages) = take_turns(clients).await;
    check(&turns, messages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_waiters_is_served_in_order() {
    let cluster = Cluster { servers: quorlock_testkit::RedisServer::start_many(5) };
    let ours = || builder().nodes(cluster.urls());
    ours().connect().await.expect("the servers are fit").init_cluster().await.expect("a new cluster can be declared");
    let mut clients = Vec::new();
    for _ in 0..WAITERS {
        clients.push(connected(ours()).await);
    }
    let (turns, messages) = take_turns(clients).await;
    check(&turns, messages);
}
