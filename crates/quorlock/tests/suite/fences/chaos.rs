//! Ten thousand leases while nodes die and come back.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{Client, Fence, Lease};
use quorlock_testkit::{Aof, RedisServer, eventually};

use crate::common::builder;
use crate::common::draw::{Draw, seed};
use crate::common::observe::{Life, life};

const CLIENTS: usize = 8;
const NAMES: usize = 8;
const LEASES: usize = 10_000;
/// Fewer than this would be no test of restarts.
const RESTARTS: u64 = 8;
/// A majority of five always stands.
const DOWN_MAX: usize = 2;

/// What everybody writes to. A name's fences stand in the order in which its leases were held.
#[derive(Default)]
struct Ledger {
    fences: [Mutex<Vec<Fence>>; NAMES],
    leases: AtomicUsize,
    restarts: AtomicU64,
    is_over: AtomicBool,
}

impl Ledger {
    fn enter(&self, name: usize, lease: &Lease) {
        // A machine that stood still may have cost us the lease before we got here.
        if let Ok(fence) = lease.fence() {
            self.fences[name].lock().expect("no writer panics").push(fence);
            self.leases.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_full(&self) -> bool {
        self.leases.load(Ordering::Relaxed) >= LEASES && self.restarts.load(Ordering::Relaxed) >= RESTARTS
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_leases_are_in_order_while_nodes_restart() {
    let seed = seed();
    let mut servers = RedisServer::start_many(3);
    servers.push(RedisServer::builder().rdb().start());
    servers.push(RedisServer::builder().aof(Aof::Everysec).start());
    let servers: Arc<[RedisServer]> = servers.into();
    let clients = connect(&servers).await;
    let ledger = Arc::new(Ledger::default());

    let chaos = {
        let (servers, ledger) = (Arc::clone(&servers), Arc::clone(&ledger));
        tokio::task::spawn_blocking(move || restart_nodes(&servers, &ledger, Draw(seed)))
    };
    let turns: Vec<_> = clients
        .iter()
        .zip(1..)
        .map(|(client, number)| tokio::spawn(take_turns(client.clone(), Arc::clone(&ledger), Draw(seed ^ number))))
        .collect();
    for turn in turns {
        turn.await.expect("all clients get their turns");
    }
    ledger.is_over.store(true, Ordering::Relaxed);
    chaos.await.expect("all nodes come back");

    let stats = clients.iter().map(Client::stats);
    let (acquired, late) = stats.fold((0, 0), |sum, stats| (sum.0 + stats.acquired, sum.1 + stats.sealed_late));
    println!(
        "{acquired} leases, {late} of them after a second round ({:.2} %), {} restarts",
        100.0 * late as f64 / acquired as f64,
        ledger.restarts.load(Ordering::Relaxed)
    );
    assert!(acquired >= LEASES as u64, "every lease is counted");
    for (name, fences) in ledger.fences.iter().enumerate() {
        let fences = fences.lock().expect("no writer panics");
        for pair in fences.windows(2) {
            assert!(pair[0] < pair[1], "{} after {} of {name}, QUORLOCK_SEED={seed}", pair[1], pair[0]);
        }
    }
}

async fn connect(servers: &[RedisServer]) -> Vec<Client> {
    // Short, so that nodes come back soon.
    let (sigma, max_ttl) = (Duration::from_millis(500), Duration::from_millis(1_500));
    let builder = builder()
        .nodes(servers.iter().map(RedisServer::url))
        .ttl(max_ttl)
        .max_ttl(max_ttl)
        .sigma(sigma)
        .backstep(sigma)
        .node_deadline(Duration::from_millis(250));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(builder.clone().connect_lazy().await.expect("the cluster is fit"));
        if number == 0 {
            clients[0].init_cluster().await.expect("a new cluster can be declared");
        }
    }
    clients
}

async fn take_turns(client: Client, ledger: Arc<Ledger>, mut draw: Draw) {
    let locks: Vec<_> = (0..NAMES).map(|name| client.lock(format!("turn/{name}"))).collect();
    while !ledger.is_full() {
        let name = draw.below(NAMES);
        let lease = locks[name].acquire().await.expect("a majority stands");
        ledger.enter(name, &lease);
        if draw.below(4) > 0 {
            // Whether all have acknowledged makes no difference here.
            let _ = lease.release().await;
        }
    }
}

/// Kills nodes and lets them come back, with their files or without, never more than two at a time.
fn restart_nodes(servers: &[RedisServer], ledger: &Ledger, mut draw: Draw) {
    let mut away: Vec<(usize, String)> = Vec::new();
    while !ledger.is_over.load(Ordering::Relaxed) {
        eventually("a node to vote again", || {
            away.retain(|(node, before)| {
                let is_back = |life: Life| life.epoch != *before && life.floor.is_some();
                !life(&servers[*node], "").is_some_and(is_back)
            });
            away.len() < DOWN_MAX
        });
        let victim = draw.below(servers.len());
        if away.iter().any(|(node, _)| *node == victim) {
            continue;
        }
        let server = &servers[victim];
        away.push((victim, life(server, "").expect("it is in the cluster").epoch));
        match draw.below(3) {
            0 => server.restart_empty(),
            1 => server.restart(),
            _ => {
                // What it knows when it comes back is older than what it knew.
                server.save();
                server.restart();
            }
        }
        ledger.restarts.fetch_add(1, Ordering::Relaxed);
    }
}
