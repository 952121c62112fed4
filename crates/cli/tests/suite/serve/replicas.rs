//! Killed replicas, and servers that die under load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::eventually;
use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use super::service::Service;
use crate::common::{User, cluster};

const WORKERS: usize = 6;
const NAMES: [&str; 2] = ["a", "b"];
/// Long enough for a busy machine to renew in time.
const TTL_MS: u64 = 20_000;

/// A caller that goes to the next replica when one does not reply.
struct Caller<'a> {
    replicas: &'a [String],
    at: usize,
    agent: ureq::Agent,
}

impl Caller<'_> {
    /// Retries until a replica replies. Returns the reply and the send time of its request.
    fn ask(&mut self, path: &str, body: &Value) -> (Instant, Answer) {
        self.ask_until(None, path, body)
    }

    /// The same, for a lease that ends at this time.
    fn ask_until(&mut self, end: Option<Instant>, path: &str, body: &Value) -> (Instant, Answer) {
        loop {
            let sent = Instant::now();
            assert!(end.is_none_or(|end| sent < end), "no replica answered {path} before the lease ended");
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

/// Stops all workers on drop, even after a panic.
struct Curtain<'a>(&'a AtomicBool);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The end of a lease, by the caller's own clock.
fn deadline(sent: Instant, told: &Answer) -> Instant {
    sent + Duration::from_millis(told.number("server_elapsed_ms") + told.number("validity_ms"))
}

#[test]
fn renewed_leases_are_not_lost_and_no_lock_is_granted_twice() {
    let user = User::new();
    let (servers, nodes) = cluster(&user, 5);
    let mut replicas: Vec<Service> = (0..2).map(|_| Service::with(&user, &["--nodes", &nodes])).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    // For each name: the end of the current hold, and the highest fence so far.
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
                assert!(holder.0.is_none_or(|until| until <= Instant::now()), "another caller holds {}", NAMES[which]);
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
        eventually("requests are under way on it", || waiters(&replicas[0]) > 0);
        drop(replicas.remove(0));
        go_on(20);
    });
}

/// The current number of waiters on a replica.
fn waiters(replica: &Service) -> u64 {
    let metrics = replica.get("/metrics").expect(200).body;
    let line = metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix("quorlock_waiters "));
    line.unwrap().parse().unwrap()
}

/// A lease that a caller keeps, by that caller's own clock.
#[derive(Clone, Copy)]
struct Kept {
    fence: u64,
    until: Instant,
}

#[test]
fn a_renewed_short_lease_survives_its_replica() {
    const TTL: Duration = Duration::from_secs(5);
    const WAITERS: usize = 3;
    let user = User::new();
    let (_servers, nodes) = cluster(&user, 5);
    let mut replicas: Vec<Service> = (0..2).map(|_| Service::with(&user, &["--nodes", &nodes])).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, tries) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kept: Mutex<Option<Kept>> = Mutex::default();

    // Renews all the time, first on the replica that will die. If a busy machine cannot renew in time, it starts again.
    let keep = || {
        let mut caller = Caller { replicas: &addresses, at: 0, agent: agent(None) };
        while !stop.load(Ordering::SeqCst) {
            let (sent, granted) = caller.ask("/v1/leases", &json!({"name": "a", "ttl_ms": TTL.as_millis() as u64}));
            if granted.status == 409 {
                continue;
            }
            let granted = granted.expect(201);
            let (fence, mut until) = (granted.number("fence"), deadline(sent, &granted));
            while !stop.load(Ordering::SeqCst) {
                *kept.lock().unwrap() = Some(Kept { fence, until });
                let (sent, renewed) = caller.ask("/v1/leases/renew", &granted.lease());
                if Instant::now() >= until && renewed.status == 410 {
                    break;
                }
                until = deadline(sent, &renewed.expect(200));
                thread::sleep(TTL / 20);
            }
            *kept.lock().unwrap() = None;
        }
    };
    // The rival must find the lock free: no caller may have been sure of it from before the request to after the reply.
    let rival = || {
        let mut caller = Caller { replicas: &addresses, at: 1, agent: agent(None) };
        while !stop.load(Ordering::SeqCst) {
            let before = *kept.lock().unwrap();
            let (_, granted) = caller.ask("/v1/leases", &json!({"name": "a", "ttl_ms": 1_000}));
            if granted.status != 409 {
                let (granted, answered) = (granted.expect(201), Instant::now());
                assert!(before.is_none_or(|kept| kept.until <= answered), "a kept lease was granted to another caller");
                caller.ask("/v1/leases/release", &granted.lease()).1.expect(204);
            }
            tries.fetch_add(1, Ordering::SeqCst);
            // Often enough to hit a gap between two renewals, without keeping a core busy.
            thread::sleep(Duration::from_millis(20));
        }
    };
    let wait = || {
        let url = format!("{}/v1/leases", addresses[0]);
        agent(None).post(url).send_json(json!({"name": "a", "wait_ms": 600_000}))
    };
    thread::scope(|scope| {
        let _curtain = Curtain(&stop);
        let workers = [scope.spawn(keep), scope.spawn(rival)];
        // The same lease, from some moment after this one.
        let through_ttls = |mut since: Instant| {
            let mut same = None;
            eventually("it is kept for three ttls", || {
                let Some(Kept { fence, until }) = *kept.lock().unwrap() else { return false };
                if same.replace(fence).is_some_and(|same| same != fence) {
                    since = Instant::now();
                }
                until >= since + TTL * 3 || workers.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        through_ttls(Instant::now());
        let waiters: Vec<_> = (0..WAITERS).map(|_| scope.spawn(wait)).collect();
        eventually("they wait on it", || replicas[1].status("a")["waiting"] == WAITERS);
        drop(replicas.remove(0));
        for waiter in waiters {
            waiter.join().unwrap().expect_err("its replica died under it");
        }
        let (killed, tried) = (Instant::now(), tries.load(Ordering::SeqCst));
        through_ttls(killed);
        assert!(tries.load(Ordering::SeqCst) > tried, "the rival did not try");
        assert!(workers.iter().all(|worker| !worker.is_finished()), "a worker found a violation");
    });
}

#[test]
fn a_lease_survives_the_service_that_granted_it() {
    let user = User::new();
    let service = Service::start(&user);
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    drop(service);
    let next = Service::start(&user);
    next.lock(&json!({"name": "a"})).problem(409, "lock-held");
    next.post("/v1/leases/renew", &granted.lease()).expect(200);
    next.release(&granted);
    next.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn the_end_of_one_request_does_not_affect_another() {
    let user = User::new();
    let (_servers, nodes) = cluster(&user, 5);
    let [one, other] = [0, 1].map(|_| Service::with(&user, &["--nodes", &nodes]));
    let key = "5b1f0c52-6c1e-4d43-9d4e-3f0b7c1e9a11";
    let ask = |wait_ms: u64| json!({"name": "a", "key": key, "wait_ms": wait_ms, "ttl_ms": 60_000});
    let holder = one.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    // One caller disconnects, one times out, and the replica of a third is killed: none of them affects what the fourth
    // gets.
    let gone = one.lock_unheard(&ask(600_000));
    thread::scope(|scope| {
        let kept = scope.spawn(|| other.lock(&ask(600_000)).expect(201));
        eventually("both wait", || one.status("a")["waiting"] == 2);
        one.lock(&ask(1_000)).problem(409, "wait-timeout");
        drop(gone);
        eventually("one has gone", || other.status("a")["waiting"] == 1);
        let _killed = one.lock_unheard(&ask(600_000));
        eventually("another has come", || other.status("a")["waiting"] == 2);
        drop(one);
        other.release(&holder);
        let granted = kept.join().unwrap();
        other.post("/v1/leases/renew", &granted.lease()).expect(200);
        other.lock(&json!({"name": "a"})).problem(409, "lock-held");
        other.release(&granted);
        // The queue position of the killed one is kept for a while.
        other.lock(&json!({"name": "a", "wait_ms": 60_000})).expect(201);
    });
}
