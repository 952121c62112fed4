//! Replicas and servers that die under load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::eventually;
use serde_json::{Value, json};

use crate::common::User;
use crate::service::{Answer, Service, agent, answer, cluster};

const WORKERS: usize = 6;
const NAMES: [&str; 2] = ["a", "b"];
/// Long enough for a busy machine to renew in time.
const TTL_MS: u64 = 20_000;

/// A caller that goes to the next replica when one does not answer.
struct Caller<'a> {
    replicas: &'a [String],
    at: usize,
    agent: ureq::Agent,
}

impl Caller<'_> {
    /// Asks until somebody answers, and says when the request that was answered was sent.
    fn ask(&mut self, path: &str, body: &Value) -> (Instant, Answer) {
        self.ask_until(None, path, body)
    }

    /// The same, of a lease that ends then.
    fn ask_until(&mut self, end: Option<Instant>, path: &str, body: &Value) -> (Instant, Answer) {
        loop {
            let sent = Instant::now();
            assert!(end.is_none_or(|end| sent < end), "nobody answers {path} before the lease is over");
            let url = format!("{}{path}", self.replicas[self.at]);
            match self.agent.post(url).send_json(body) {
                Ok(response) if response.status() != 503 => return (sent, answer(Ok(response))),
                _ => {
                    self.at = (self.at + 1) % self.replicas.len();
                    self.agent = agent(None);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

/// Lets everyone stop, whatever happens.
struct Curtain<'a>(&'a AtomicBool);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// When a lease ends, by the caller's own clock.
fn deadline(sent: Instant, told: &Answer) -> Instant {
    sent + Duration::from_millis(told.number("server_elapsed_ms") + told.number("validity_ms"))
}

#[test]
fn nothing_that_was_renewed_in_time_is_lost_and_nothing_is_granted_twice() {
    let user = User::new();
    let (servers, nodes) = cluster(&user, 5);
    let mut replicas: Vec<Service> = (0..2).map(|_| Service::with(&user, &["--nodes", &nodes])).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    // For each name, who has it until when, and the highest fence so far.
    let holders: [Mutex<(Option<Instant>, u64)>; NAMES.len()] = Default::default();

    let work = |number: usize| {
        let mut caller = Caller { replicas: &addresses, at: number % 2, agent: agent(None) };
        for turn in 0.. {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let which = (number + turn) % NAMES.len();
            let key = format!("worker-{number:08}-turn-{turn:08}-of-this-test");
            let ask = json!({"name": NAMES[which], "key": key, "ttl_ms": TTL_MS, "wait_ms": 60_000});
            let (sent, granted) = caller.ask("/v1/leases", &ask);
            if granted.status == 409 {
                continue;
            }
            let granted = granted.expect(201);
            let mut until = deadline(sent, &granted);
            if granted.number("server_elapsed_ms") > TTL_MS / 2 {
                let (sent, renewed) = caller.ask("/v1/leases/renew", &granted.lease());
                until = deadline(sent, &renewed.expect(200));
            }
            let fence = granted.number("fence");
            {
                let mut holder = holders[which].lock().unwrap();
                assert!(holder.0.is_none_or(|until| until <= Instant::now()), "somebody else holds {}", NAMES[which]);
                assert!(fence > holder.1, "fences grow");
                *holder = (Some(until), fence);
            }
            for _ in 0..3 {
                let (sent, renewed) = caller.ask_until(Some(until), "/v1/leases/renew", &granted.lease());
                until = deadline(sent, &renewed.expect(200));
                holders[which].lock().unwrap().0 = Some(until);
            }
            holders[which].lock().unwrap().0 = None;
            caller.ask("/v1/leases/release", &granted.lease()).1.expect(204);
            turns.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let _curtain = Curtain(&stop);
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || work(number))).collect();
        let go_on = |more: usize| {
            let enough = turns.load(Ordering::SeqCst) + more;
            eventually("they go on", || {
                turns.load(Ordering::SeqCst) >= enough || workers.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        go_on(10);
        servers[0].kill();
        go_on(10);
        drop(replicas.remove(0));
        go_on(20);
    });
}
