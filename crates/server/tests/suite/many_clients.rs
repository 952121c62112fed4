//! Many waiters of one name, and many leases.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quorlock_testkit::eventually;
use quorlock_testkit::http::{agent, answer, retry_while_nodes_are_late};
use serde_json::{Value, json};

use crate::service::{LONG_TTL_MS, Nodes};

#[test]
fn a_thousand_waiters_of_one_name_are_all_served() {
    const WAITERS: usize = 1_000;
    let nodes = Nodes::start_uninitialized(3).allow_long_leases().initialize();
    let service = nodes.serve();
    let first_lease = service.lock(&json!({"name": "a", "ttl_ms": LONG_TTL_MS})).expect(201);
    let holders = AtomicUsize::new(0);
    let acquire_and_release = || {
        let agent = agent(None);
        let post = |path: &str, body: &Value| {
            retry_while_nodes_are_late(|| answer(agent.post(service.url(path)).send_json(body)))
        };
        let request = json!({"name": "a", "wait_ms": 600_000, "ttl_ms": LONG_TTL_MS});
        let granted = post("/v1/leases", &request).expect(201);
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
        holders.fetch_sub(1, Ordering::SeqCst);
        post("/v1/leases/release", &granted.lease()).expect(204);
        granted.number("fence")
    };
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, acquire_and_release).unwrap();
        let waiters: Vec<_> = (0..WAITERS).map(spawn).collect();
        eventually("all waiters are in the queue", || service.status("a")["waiting"] == WAITERS);
        service.release(&first_lease);
        let fences: BTreeSet<u64> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert_eq!(fences.len(), WAITERS, "each lease must have a fence of its own");
    });
    eventually("the queue is empty", || service.status("a")["waiting"] == 0);
}

fn name_of(lock: &Value) -> String {
    lock["name"].as_str().unwrap().to_owned()
}

#[test]
fn ten_thousand_leases_are_held_renewed_listed_and_released() {
    const LEASES: usize = 10_000;
    const THREADS: usize = 8;
    let nodes = Nodes::start_uninitialized(1).allow_long_leases().initialize();
    let service = nodes.serve();
    let lock = |number: usize| {
        service.lock(&json!({"name": format!("{number:05}"), "ttl_ms": LONG_TTL_MS})).expect(201).lease()
    };
    let leases: Vec<Value> = thread::scope(|scope| {
        let part = |first: usize| (first..LEASES).step_by(THREADS).map(lock).collect::<Vec<_>>();
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    for batch in leases.chunks(1_000) {
        // On a busy machine a node may miss its deadline, so the request is repeated.
        eventually("all leases of the batch are renewed", || {
            let renewed = service.post("/v1/leases/renew", &json!({"leases": batch})).expect(200);
            let outcomes = renewed.body["leases"].as_array().unwrap();
            assert!(outcomes.iter().all(|outcome| outcome["problem"]["code"] != "lease-lost"));
            outcomes.iter().all(|outcome| outcome["validity_ms"].as_u64().is_some_and(|left| left > 0))
        });
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("/v1/locks?limit=1000&cursor={cursor}")).expect(200).body;
        names.extend(page["locks"].as_array().unwrap().iter().map(name_of));
        let Some(next) = page["next"].as_str() else { break };
        next.clone_into(&mut cursor);
    }
    assert_eq!(names, (0..LEASES).map(|number| format!("{number:05}")).collect::<Vec<_>>());
    // A new follower (a reader of the stream of events) gets all locks as soon as the service has read them.
    let mut events = service.follow(None);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let is_truncated = loop {
        let event = events.next().unwrap();
        match event.name.as_str() {
            "snapshot" => seen.extend(event.data["locks"].as_array().unwrap().iter().map(name_of)),
            "lock" => seen.extend([name_of(&event.data)]),
            "look" if event.data["trouble"].is_null() && seen.len() >= LEASES => {
                break event.data["is_truncated"].clone();
            }
            _ => {}
        }
    };
    assert_eq!((seen.into_iter().collect::<Vec<_>>(), is_truncated), (names, json!(false)));
    for batch in leases.chunks(1_000) {
        service.post("/v1/leases/release", &json!({"leases": batch})).expect(204);
    }
    assert_eq!(service.get_fresh("/v1/locks")["locks"], json!([]));
}
