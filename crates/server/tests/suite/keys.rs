//! Idempotency keys. If a request with a key is repeated, on any replica, it gets the same hold of the lock.

use std::thread;

use quorlock_testkit::http::Answer;
use quorlock_testkit::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::service::{Nodes, Service};

const KEY: &str = "5b1f0c52-6c1e-4d43-9d4e-3f0b7c1e9a11";

/// Returns a request with the key.
fn request(wait_ms: u64) -> Value {
    json!({"name": "a", "key": KEY, "wait_ms": wait_ms, "ttl_ms": 60_000})
}

/// Returns the highest number of entries on any node.
fn count_entries(service: &Service) -> u64 {
    service.status("a")["holds"].as_u64().unwrap()
}

/// Starts two replicas on five nodes.
fn replicas() -> (Nodes, [Service; 2]) {
    let nodes = Nodes::servers(5);
    let replicas = [nodes.serve(), nodes.serve()];
    (nodes, replicas)
}

#[test]
fn a_repeated_request_gets_the_same_hold_from_any_replica() {
    let (_nodes, [one, other]) = replicas();
    let first = one.lock(&request(0)).expect(201);
    let again: Vec<Answer> = [&one, &other, &other].map(|replica| replica.lock(&request(0)).expect(201)).into();
    assert!(again.iter().all(|granted| granted.body["fence"] == first.body["fence"]), "{again:?}");
    one.lock(&json!({"name": "a"})).problem(409, "lock-held");
    one.lock(&json!({"name": "a", "key": format!("{KEY}2")})).problem(409, "lock-held");
    for granted in again.iter().chain([&first]) {
        other.post("/v1/leases/renew", &granted.lease()).expect(200);
    }

    // One release ends the hold for all lease ids.
    other.release(&again[0]);
    for granted in again.iter().chain([&first]) {
        one.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
        other.release(granted);
    }
    let spent = one.lock(&request(0)).problem(410, "key-spent");
    assert_eq!(spent.text("detail"), "the key for \"a\" was released: use a new key for each lease");
    let next = one.lock(&json!({"name": "a"})).expect(201);
    assert!(next.number("fence") > first.number("fence"));
    other.release(&first);
    other.post("/v1/leases/renew", &next.lease()).expect(200);
}

#[test]
fn the_same_key_for_another_name_is_another_hold() {
    let service = Service::start();
    let [a, b] = ["a", "b"].map(|name| service.lock(&json!({"name": name, "key": KEY})).expect(201));
    service.release(&a);
    service.post("/v1/leases/renew", &b.lease()).expect(200);
    service.lock(&json!({"name": "b", "key": KEY})).expect(201);
}

#[test]
fn a_repeated_shared_request_gets_the_same_hold() {
    let service = Service::start();
    let read = json!({"name": "a", "mode": "shared", "key": KEY});
    let (first, _repeated) = (service.lock(&read).expect(201), service.lock(&read).expect(201));
    let other = service.lock(&json!({"name": "a", "mode": "shared"})).expect(201);
    service.release(&first);
    assert_eq!(count_entries(&service), 1);
    service.release(&other);
    service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_repeated_shared_request_gets_the_same_hold_while_a_writer_waits() {
    let (_nodes, [one, other]) = replicas();
    let read = json!({"name": "a", "mode": "shared", "key": KEY, "ttl_ms": 60_000});
    let first = one.lock(&read).expect(201);
    eventually("every node has the lease", || {
        one.status("a")["nodes"].as_array().unwrap().iter().all(|node| node["held"] == true)
    });
    thread::scope(|scope| {
        let writer = scope.spawn(|| other.lock(&json!({"name": "a", "wait_ms": 600_000})).expect(201));
        eventually("the writer waits", || one.status("a")["waiting"] == 1);
        let again = [&one, &other].map(|replica| replica.lock(&read).expect(201));
        assert!(again.iter().all(|granted| granted.body["fence"] == first.body["fence"]), "{again:?}");
        one.lock(&json!({"name": "a", "mode": "shared"})).problem(409, "lock-held");
        for granted in again.iter().chain([&first]) {
            other.post("/v1/leases/renew", &granted.lease()).expect(200);
        }
        // One release ends the hold for all lease ids.
        other.release(&again[0]);
        let written = writer.join().unwrap();
        assert!(written.number("fence") > first.number("fence"));
        one.post("/v1/leases/renew", &first.lease()).problem(410, "lease-lost");
    });
}

#[test]
fn a_request_that_is_repeated_after_a_lost_reply_gets_the_same_hold() {
    let (_nodes, [one, other]) = replicas();
    let lost = one.lock_without_answer(&request(0));
    eventually("the lease is granted", || count_entries(&other) == 1);
    let fence_of_hold = other.status("a")["fence"].clone();
    // The replica dies before the reply is read.
    drop((one, lost));
    let granted = other.lock(&request(0)).expect(201);
    assert_eq!(count_entries(&other), 2, "each request must have an entry");
    assert_eq!(granted.body["fence"], fence_of_hold, "both requests must have the same hold");
    other.release(&granted);
    eventually("the entries of both requests are released", || count_entries(&other) == 0);
    other.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_caller_without_a_reply_can_release_by_its_key() {
    let (_nodes, [one, other]) = replicas();
    let lost = one.lock_without_answer(&request(0));
    eventually("the lease is granted", || count_entries(&other) == 1);
    drop((one, lost));
    other.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
    other.lock(&json!({"name": "a"})).expect(201);
    other.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
    assert_eq!(other.status("a")["held"], true, "the release by key must not end the lease of another client");
}

#[test]
fn requests_that_wait_on_two_replicas_get_one_hold() {
    let (_nodes, [one, other]) = replicas();
    let holder = one.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    thread::scope(|scope| {
        let requests = [&one, &other].map(|replica| scope.spawn(|| replica.lock(&request(600_000)).expect(201)));
        eventually("both requests wait", || one.status("a")["waiting"] == 2);
        one.release(&holder);
        let [first, second] = requests.map(|granted| granted.join().unwrap());
        // Requests that enter at the same moment, or while a node is slow, may raise the fence. Later requests agree on
        // it.
        let mut fence = first.number("fence").max(second.number("fence"));
        eventually("repeated requests agree on one fence", || {
            let next = one.lock(&request(0)).expect(201).number("fence");
            assert!(next >= fence, "a fence must not be lower than an earlier fence");
            std::mem::replace(&mut fence, next) == next
        });
        other.release(&first);
        one.post("/v1/leases/renew", &second.lease()).problem(410, "lease-lost");
    });
}

#[test]
fn a_failed_request_releases_only_its_own_entry() {
    let (nodes, [one, other]) = replicas();
    let servers = &nodes.servers;
    let granted = one.lock(&request(0)).expect(201);
    let has_every_node = |service: &Service, entries: u64| {
        let lock = service.status("a");
        let held = lock["nodes"].as_array().unwrap().iter().filter(|node| node["held"] == true).count();
        held == servers.len() && lock["holds"] == entries
    };
    eventually("every node has the entry", || has_every_node(&one, 1));
    servers[..3].iter().for_each(RedisServer::freeze);
    let failed = other.post_once("/v1/leases", &request(0)).problem(503, "no-quorum");
    let nodes = failed.body["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().filter(|node| node["vote"] == "granted").count(), 2, "{failed:?}");
    servers[..3].iter().for_each(RedisServer::thaw);
    eventually("every node has only the first entry", || has_every_node(&one, 1) && has_every_node(&other, 1));
    let renewed = other.post("/v1/leases/renew", &granted.lease()).expect(200);
    assert_eq!(renewed.body["fence"], granted.body["fence"]);
    other.lock(&json!({"name": "a"})).problem(409, "lock-held");
    one.release(&granted);
    other.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_waiting_request_fails_when_its_key_is_released() {
    let (_nodes, [one, other]) = replicas();
    let holder = one.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| one.lock(&request(600_000)));
        eventually("the request waits", || other.status("a")["waiting"] == 1);
        other.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
        waiter.join().unwrap().problem(410, "key-spent");
    });
    other.post("/v1/leases/renew", &holder.lease()).expect(200);
}
