//! Clients that take turns while the network loses messages, a node is down, and some clients die.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{AcquireError, Client, Lease, Progress};
use quorlock_testkit::{Loss, Proxy, RedisServer};
use tokio::sync::Notify;

use super::history::{History, Hold, Turn};
use crate::common::builder;
use crate::common::draw::Draw;

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(1);
/// Much longer than the test needs: it is reached only if a waiter is never served.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kind of lock that a client wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Lock,
    Read,
    Write,
    Slot { permits: u32 },
}

impl Wish {
    async fn acquire(self, client: &Client, waits: Arc<Notify>) -> Result<Lease, AcquireError> {
        let note = move |progress: &Progress| {
            if let Progress::Waiting(_) = progress {
                waits.notify_one();
            }
        };
        match self {
            Self::Lock => client.lock("job").observe(note).acquire().await,
            Self::Read => client.rw("job").observe(note).read().acquire().await,
            Self::Write => client.rw("job").observe(note).write().acquire().await,
            Self::Slot { permits } => client.semaphore("job", permits).observe(note).acquire().await,
        }
    }

    fn hold(self, lease: &Lease) -> Hold {
        match self {
            Self::Lock | Self::Write => Hold::Alone,
            Self::Read => Hold::Shared,
            Self::Slot { permits } => {
                let slot = lease.slot().expect("a semaphore's lease has a slot");
                assert!(slot < permits, "slot {slot} of {permits}");
                Hold::Slot(slot)
            }
        }
    }
}

/// The size of a storm.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    /// The number of clients. Each dies in one of its turns: every third while it waits, the others while they hold. A
    /// new client takes its place.
    pub(crate) clients: usize,
    /// Turns of each client.
    pub(crate) turns: usize,
    pub(crate) seed: u64,
}

/// Five nodes, one of them down, and a history.
pub(crate) struct Storm {
    servers: Vec<RedisServer>,
    weather: Weather,
    pub(crate) history: History,
    died_waiting: AtomicUsize,
    died_holding: AtomicUsize,
    /// All clients, kept to the end, because the proxies of dead clients must keep blocking their messages.
    parties: Mutex<Vec<Party>>,
}

/// A client behind its own proxies.
struct Party {
    client: Client,
    proxies: Vec<Proxy>,
}

impl Party {
    /// Cuts all connections for good: nothing can be released, and no request arrives.
    fn die(&self) {
        for proxy in &self.proxies {
            proxy.refuse(true);
            proxy.cut();
        }
    }
}

impl Storm {
    /// Lets every client take its turns. All living clients are served.
    pub(crate) async fn rage(weather: Weather, wish: fn(&mut Draw) -> Wish) -> Arc<Self> {
        let servers = RedisServer::start_many(NODES);
        let urls = servers.iter().map(RedisServer::url);
        settings().nodes(urls).init_cluster().await.expect("a new cluster can be declared");
        servers[NODES - 1].kill();
        let storm = Arc::new(Self {
            servers,
            weather,
            history: History::default(),
            died_waiting: AtomicUsize::new(0),
            died_holding: AtomicUsize::new(0),
            parties: Mutex::default(),
        });
        let turns = |number: usize| tokio::spawn(Arc::clone(&storm).take_turns(number as u64, wish));
        let all: Vec<_> = (1..=weather.clients).map(turns).collect();
        for one in all {
            let in_time = tokio::time::timeout(PATIENCE, one).await.expect("all living waiters are served");
            in_time.expect("no turn goes wrong");
        }
        let dead = [&storm.died_waiting, &storm.died_holding].map(|count| count.load(Ordering::SeqCst));
        let lost = storm.lost();
        println!("{} leases, {} died waiting, {} died holding", storm.history.len(), dead[0], dead[1]);
        println!("{lost} bytes were lost for good");
        assert!(lost > 0, "that was no storm");
        storm
    }

    fn lost(&self) -> u64 {
        let parties = self.parties.lock().expect("the mutex is not poisoned");
        let proxies = parties.iter().flat_map(|party| &party.proxies);
        proxies.map(|proxy| proxy.dropped_up() + proxy.dropped_down()).sum()
    }

    async fn take_turns(self: Arc<Self>, number: u64, wish: fn(&mut Draw) -> Wish) {
        let mut draw = Draw(self.weather.seed ^ number);
        let deadly = draw.below(self.weather.turns);
        let mut party = self.join(&mut draw).await;
        for turn in 0..self.weather.turns {
            let wish = wish(&mut draw);
            if turn != deadly {
                self.take_a_turn(&party, wish, draw.below(20)).await;
                continue;
            }
            if number.is_multiple_of(3) {
                self.die_waiting(&party, wish).await;
            } else {
                self.die_holding(&party, wish).await;
            }
            let dead = std::mem::replace(&mut party, self.join(&mut draw).await);
            self.parties.lock().expect("the mutex is not poisoned").push(dead);
        }
        self.parties.lock().expect("the mutex is not poisoned").push(party);
    }

    /// A new client, behind proxies that lose a tenth of the messages.
    async fn join(&self, draw: &mut Draw) -> Party {
        let proxies: Vec<Proxy> = self.servers.iter().map(|server| Proxy::start(server.addr())).collect();
        for proxy in &proxies {
            let resent_after = Duration::from_millis(150);
            let seed = draw.below(usize::MAX) as u64;
            proxy.lose(Some(Loss { one_in: 10, resent_after, for_good_one_in: 5, seed }));
        }
        let client = settings().nodes(proxies.iter().map(Proxy::url)).connect_lazy().await.expect("the nodes are fit");
        Party { client, proxies }
    }

    async fn take_a_turn(&self, party: &Party, wish: Wish, millis: usize) {
        let lease = wish.acquire(&party.client, Arc::default()).await.expect("a living client is served");
        let Some(turn) = Turn::begin(&lease, wish.hold(&lease)) else { return };
        tokio::time::sleep(Duration::from_millis(millis as u64)).await;
        self.history.note(turn.end(&lease));
        // A majority may not acknowledge it in time.
        let _ = lease.release().await;
    }

    async fn die_holding(&self, party: &Party, wish: Wish) {
        let lease = wish.acquire(&party.client, Arc::default()).await.expect("a living client is served");
        let turn = Turn::begin(&lease, wish.hold(&lease));
        party.die();
        if let Some(turn) = turn {
            self.history.note(turn.abandon(&lease));
            self.died_holding.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn die_waiting(&self, party: &Party, wish: Wish) {
        let waits = Arc::new(Notify::new());
        let (client, told) = (party.client.clone(), Arc::clone(&waits));
        let mut acquire = tokio::spawn(async move { wish.acquire(&client, told).await });
        let won = tokio::select! {
            () = waits.notified() => {
                party.die();
                acquire.abort();
                acquire.await
            }
            won = &mut acquire => won,
        };
        party.die();
        match won {
            Err(_) => drop(self.died_waiting.fetch_add(1, Ordering::SeqCst)),
            Ok(won) => {
                let lease = won.expect("a living client is served");
                if let Some(turn) = Turn::begin(&lease, wish.hold(&lease)) {
                    self.history.note(turn.abandon(&lease));
                }
            }
        }
    }
}

/// Short leases, and a short deadline for nodes that do not reply.
fn settings() -> quorlock::ClientBuilder {
    let second = Duration::from_secs(1);
    builder()
        .ttl(TTL)
        .max_ttl(2 * TTL)
        .max_clock_skew(second / 2)
        .max_clock_step_back(second / 2)
        .node_deadline(Duration::from_millis(100))
}
