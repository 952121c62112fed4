//! Several replicas of the service use the same nodes. Replicas and nodes are killed while callers use them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::eventually;
use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use super::service::Service;
use crate::common::{User, start_cluster};

const WORKERS: usize = 6;
const NAMES: [&str; 2] = ["a", "b"];
/// A ttl that is long enough for a busy machine to renew in time.
const TTL_MS: u64 = 20_000;

/// A caller that turns to the next replica when a replica does not reply.
struct Caller<'a> {
    replicas: &'a [String],
    /// The index of the replica that gets the next request.
    replica: usize,
    agent: ureq::Agent,
}

impl Caller<'_> {
    /// Sends a request until a replica replies. Returns the send time of the successful request, and the reply.
    fn ask(&mut self, path: &str, body: &Value) -> (Instant, Answer) {
        self.ask_before(None, path, body)
    }

    /// Sends a request until a replica replies. Panics if no replica replies before `lease_end`.
    fn ask_before(&mut self, lease_end: Option<Instant>, path: &str, body: &Value) -> (Instant, Answer) {
        loop {
            let sent_at = Instant::now();
            assert!(lease_end.is_none_or(|end| sent_at < end), "no replica answered {path} before the lease ended");
            let url = format!("{}{path}", self.replicas[self.replica]);
            match self.agent.post(url).send_json(body) {
                Ok(response) if response.status() != 503 => return (sent_at, answer(Ok(response))),
                _ => {
                    self.replica = (self.replica + 1) % self.replicas.len();
                    self.agent = agent(None);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

/// Stops all workers when it is dropped, also by a panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Returns the end of a lease by the caller's own clock, given a reply and the send time of its request.
fn lease_end(sent_at: Instant, reply: &Answer) -> Instant {
    sent_at + Duration::from_millis(reply.number("server_elapsed_ms") + reply.number("validity_ms"))
}

#[test]
fn renewed_leases_are_not_lost_and_no_lock_is_granted_twice() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 5);
    let mut replicas: Vec<Service> = (0..2).map(|_| Service::with_arguments(&user, &["--nodes", &nodes])).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, finished_leases) = (AtomicBool::new(false), AtomicUsize::new(0));
    // For each name: the end of the current lease, and the highest fence so far.
    let holders: [Mutex<(Option<Instant>, u64)>; NAMES.len()] = Default::default();

    let work = |number: usize| {
        let mut caller = Caller { replicas: &addresses, replica: number % 2, agent: agent(None) };
        for attempt in 0.. {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let name = (number + attempt) % NAMES.len();
            let key = format!("worker-{number:08}-attempt-{attempt:08}-of-this-test");
            let request = json!({"name": NAMES[name], "key": key, "ttl_ms": TTL_MS, "wait_ms": 60_000});
            let (sent_at, granted) = caller.ask("/v1/leases", &request);
            if granted.status == 409 {
                continue;
            }
            let granted = granted.expect(201);
            let mut ends_at = lease_end(sent_at, &granted);
            if granted.number("server_elapsed_ms") > TTL_MS / 2 {
                let (sent_at, renewed) = caller.ask("/v1/leases/renew", &granted.lease());
                ends_at = lease_end(sent_at, &renewed.expect(200));
            }
            let fence = granted.number("fence");
            {
                let mut holder = holders[name].lock().unwrap();
                assert!(
                    holder.0.is_none_or(|ends_at| ends_at <= Instant::now()),
                    "another caller holds {}",
                    NAMES[name]
                );
                assert!(fence > holder.1, "a fence is not higher than before");
                *holder = (Some(ends_at), fence);
            }
            for _ in 0..3 {
                let (sent_at, renewed) = caller.ask_before(Some(ends_at), "/v1/leases/renew", &granted.lease());
                ends_at = lease_end(sent_at, &renewed.expect(200));
                holders[name].lock().unwrap().0 = Some(ends_at);
            }
            holders[name].lock().unwrap().0 = None;
            caller.ask("/v1/leases/release", &granted.lease()).1.expect(204);
            finished_leases.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || work(number))).collect();
        let wait_for_leases = |more: usize| {
            let target = finished_leases.load(Ordering::SeqCst) + more;
            eventually("the workers finish more leases", || {
                finished_leases.load(Ordering::SeqCst) >= target
                    || workers.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        wait_for_leases(10);
        servers[0].kill();
        wait_for_leases(10);
        eventually("requests wait on the replica that will be killed", || waiters(&replicas[0]) > 0);
        drop(replicas.remove(0));
        wait_for_leases(20);
    });
}

/// Returns the current number of waiters on a replica.
fn waiters(replica: &Service) -> u64 {
    let metrics = replica.get("/metrics").expect(200).body;
    let line = metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix("quorlock_waiters "));
    line.unwrap().parse().unwrap()
}

/// A lease that a caller renews. Its end is measured by the caller's own clock.
#[derive(Clone, Copy)]
struct RenewedLease {
    fence: u64,
    ends_at: Instant,
}

#[test]
fn a_renewed_short_lease_survives_the_death_of_a_replica() {
    const TTL: Duration = Duration::from_secs(5);
    const WAITERS: usize = 3;
    let user = User::new();
    let (_servers, nodes) = start_cluster(&user, 5);
    let mut replicas: Vec<Service> = (0..2).map(|_| Service::with_arguments(&user, &["--nodes", &nodes])).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, attempts) = (AtomicBool::new(false), AtomicUsize::new(0));
    let renewed_lease: Mutex<Option<RenewedLease>> = Mutex::default();

    // Acquires a lease and renews it all the time, first on the replica that will be killed. If a busy machine cannot
    // renew in time, acquires a new lease.
    let keep_lease = || {
        let mut caller = Caller { replicas: &addresses, replica: 0, agent: agent(None) };
        while !stop.load(Ordering::SeqCst) {
            let (sent_at, granted) = caller.ask("/v1/leases", &json!({"name": "a", "ttl_ms": TTL.as_millis() as u64}));
            if granted.status == 409 {
                continue;
            }
            let granted = granted.expect(201);
            let (fence, mut ends_at) = (granted.number("fence"), lease_end(sent_at, &granted));
            while !stop.load(Ordering::SeqCst) {
                *renewed_lease.lock().unwrap() = Some(RenewedLease { fence, ends_at });
                let (sent_at, renewed) = caller.ask("/v1/leases/renew", &granted.lease());
                if Instant::now() >= ends_at && renewed.status == 410 {
                    break;
                }
                ends_at = lease_end(sent_at, &renewed.expect(200));
                thread::sleep(TTL / 20);
            }
            *renewed_lease.lock().unwrap() = None;
        }
    };
    // Tries to acquire the same lock. If that succeeds, the lease of the other caller must have ended before the reply.
    let compete = || {
        let mut caller = Caller { replicas: &addresses, replica: 1, agent: agent(None) };
        while !stop.load(Ordering::SeqCst) {
            let lease_before = *renewed_lease.lock().unwrap();
            let (_, granted) = caller.ask("/v1/leases", &json!({"name": "a", "ttl_ms": 1_000}));
            if granted.status != 409 {
                let (granted, answered_at) = (granted.expect(201), Instant::now());
                assert!(
                    lease_before.is_none_or(|lease| lease.ends_at <= answered_at),
                    "a lock was granted again before its lease had ended"
                );
                caller.ask("/v1/leases/release", &granted.lease()).1.expect(204);
            }
            attempts.fetch_add(1, Ordering::SeqCst);
            // This pause is short enough to hit a gap between two renewals, and keeps no core busy.
            thread::sleep(Duration::from_millis(20));
        }
    };
    let wait_on_first_replica = || {
        let url = format!("{}/v1/leases", addresses[0]);
        agent(None).post(url).send_json(json!({"name": "a", "wait_ms": 600_000}))
    };
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let workers = [scope.spawn(keep_lease), scope.spawn(compete)];
        // Waits until one lease has been renewed for three ttls. Starts again if another lease replaces it.
        let wait_three_ttls = |mut since: Instant| {
            let mut last_fence = None;
            eventually("one lease is renewed for three ttls", || {
                let Some(RenewedLease { fence, ends_at }) = *renewed_lease.lock().unwrap() else { return false };
                if last_fence.replace(fence).is_some_and(|last| last != fence) {
                    since = Instant::now();
                }
                ends_at >= since + TTL * 3 || workers.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        wait_three_ttls(Instant::now());
        let waiters: Vec<_> = (0..WAITERS).map(|_| scope.spawn(wait_on_first_replica)).collect();
        eventually("all waiters wait on the first replica", || replicas[1].status("a")["waiting"] == WAITERS);
        drop(replicas.remove(0));
        for waiter in waiters {
            waiter.join().unwrap().expect_err("the waiter's replica was killed");
        }
        let (killed_at, attempts_before) = (Instant::now(), attempts.load(Ordering::SeqCst));
        wait_three_ttls(killed_at);
        assert!(attempts.load(Ordering::SeqCst) > attempts_before, "the rival made no attempt");
        assert!(workers.iter().all(|worker| !worker.is_finished()), "a worker found a violation");
    });
}

#[test]
fn a_lease_survives_the_death_of_the_service_that_granted_it() {
    let user = User::new();
    let service = Service::start(&user);
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    drop(service);
    let next_service = Service::start(&user);
    next_service.lock(&json!({"name": "a"})).problem(409, "lock-held");
    next_service.post("/v1/leases/renew", &granted.lease()).expect(200);
    next_service.release(&granted);
    next_service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn the_end_of_one_request_does_not_affect_another_request_with_the_same_key() {
    let user = User::new();
    let (_servers, nodes) = start_cluster(&user, 5);
    let [first_replica, second_replica] = [0, 1].map(|_| Service::with_arguments(&user, &["--nodes", &nodes]));
    let key = "5b1f0c52-6c1e-4d43-9d4e-3f0b7c1e9a11";
    let request = |wait_ms: u64| json!({"name": "a", "key": key, "wait_ms": wait_ms, "ttl_ms": 60_000});
    let holder = first_replica.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    // One caller disconnects, another times out, and the replica of a third is killed. The fourth caller must still get
    // the lock.
    let disconnected = first_replica.lock_without_answer(&request(600_000));
    thread::scope(|scope| {
        let fourth_caller = scope.spawn(|| second_replica.lock(&request(600_000)).expect(201));
        eventually("two callers wait", || first_replica.status("a")["waiting"] == 2);
        first_replica.lock(&request(1_000)).problem(409, "wait-timeout");
        drop(disconnected);
        eventually("one caller waits", || second_replica.status("a")["waiting"] == 1);
        let _third_caller = first_replica.lock_without_answer(&request(600_000));
        eventually("two callers wait again", || second_replica.status("a")["waiting"] == 2);
        drop(first_replica);
        second_replica.release(&holder);
        let granted = fourth_caller.join().unwrap();
        second_replica.post("/v1/leases/renew", &granted.lease()).expect(200);
        second_replica.lock(&json!({"name": "a"})).problem(409, "lock-held");
        second_replica.release(&granted);
        // The nodes keep the queue position of the killed replica's caller until it expires.
        second_replica.lock(&json!({"name": "a", "wait_ms": 60_000})).expect(201);
    });
}
