//! Idempotency keys. A request with a key may be repeated on any replica. All these requests get the same hold of the
//! lock: it has one fence, and one release ends it.

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
    let nodes = Nodes::start_servers(5);
    let replicas = [nodes.serve(), nodes.serve()];
    (nodes, replicas)
}

#[test]
fn a_repeated_request_gets_the_same_hold_from_any_replica() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let first_lease = first_replica.lock(&request(0)).expect(201);
    let repeated: Vec<Answer> =
        [&first_replica, &second_replica, &second_replica].map(|replica| replica.lock(&request(0)).expect(201)).into();
    assert!(repeated.iter().all(|granted| granted.body["fence"] == first_lease.body["fence"]), "{repeated:?}");
    first_replica.lock(&json!({"name": "a"})).problem(409, "lock-held");
    first_replica.lock(&json!({"name": "a", "key": format!("{KEY}2")})).problem(409, "lock-held");
    for granted in repeated.iter().chain([&first_lease]) {
        second_replica.post("/v1/leases/renew", &granted.lease()).expect(200);
    }

    // One release ends the hold for all lease ids.
    second_replica.release(&repeated[0]);
    for granted in repeated.iter().chain([&first_lease]) {
        first_replica.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
        second_replica.release(granted);
    }
    let refused = first_replica.lock(&request(0)).problem(410, "key-spent");
    assert_eq!(refused.text("detail"), "the key for \"a\" was released: use a new key for each lease");
    let next_lease = first_replica.lock(&json!({"name": "a"})).expect(201);
    assert!(next_lease.number("fence") > first_lease.number("fence"));
    second_replica.release(&first_lease);
    second_replica.post("/v1/leases/renew", &next_lease.lease()).expect(200);
}

#[test]
fn the_same_key_for_another_name_is_another_hold() {
    let service = Service::start();
    let [lease_a, lease_b] = ["a", "b"].map(|name| service.lock(&json!({"name": name, "key": KEY})).expect(201));
    service.release(&lease_a);
    service.post("/v1/leases/renew", &lease_b.lease()).expect(200);
    service.lock(&json!({"name": "b", "key": KEY})).expect(201);
}

#[test]
fn a_repeated_shared_request_gets_the_same_hold() {
    let service = Service::start();
    let read = json!({"name": "a", "mode": "shared", "key": KEY});
    let (first_lease, _repeated_lease) = (service.lock(&read).expect(201), service.lock(&read).expect(201));
    let other_lease = service.lock(&json!({"name": "a", "mode": "shared"})).expect(201);
    service.release(&first_lease);
    assert_eq!(count_entries(&service), 1);
    service.release(&other_lease);
    service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_repeated_shared_request_gets_the_same_hold_while_a_writer_waits() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let read = json!({"name": "a", "mode": "shared", "key": KEY, "ttl_ms": 60_000});
    let first_lease = first_replica.lock(&read).expect(201);
    eventually("every node has the lease", || {
        first_replica.status("a")["nodes"].as_array().unwrap().iter().all(|node| node["held"] == true)
    });
    thread::scope(|scope| {
        let writer = scope.spawn(|| second_replica.lock(&json!({"name": "a", "wait_ms": 600_000})).expect(201));
        eventually("the writer waits", || first_replica.status("a")["waiting"] == 1);
        let repeated = [&first_replica, &second_replica].map(|replica| replica.lock(&read).expect(201));
        assert!(repeated.iter().all(|granted| granted.body["fence"] == first_lease.body["fence"]), "{repeated:?}");
        first_replica.lock(&json!({"name": "a", "mode": "shared"})).problem(409, "lock-held");
        for granted in repeated.iter().chain([&first_lease]) {
            second_replica.post("/v1/leases/renew", &granted.lease()).expect(200);
        }
        // One release ends the hold for all lease ids.
        second_replica.release(&repeated[0]);
        let write_lease = writer.join().unwrap();
        assert!(write_lease.number("fence") > first_lease.number("fence"));
        first_replica.post("/v1/leases/renew", &first_lease.lease()).problem(410, "lease-lost");
    });
}

#[test]
fn a_request_that_is_repeated_after_a_lost_reply_gets_the_same_hold() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let unread_reply = first_replica.lock_without_answer(&request(0));
    eventually("the lease is granted", || count_entries(&second_replica) == 1);
    let fence_of_hold = second_replica.status("a")["fence"].clone();
    // The replica dies before the reply is read.
    drop((first_replica, unread_reply));
    let granted = second_replica.lock(&request(0)).expect(201);
    assert_eq!(count_entries(&second_replica), 2, "each request must have an entry");
    assert_eq!(granted.body["fence"], fence_of_hold, "both requests must have the same hold");
    second_replica.release(&granted);
    eventually("the entries of both requests are released", || count_entries(&second_replica) == 0);
    second_replica.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_caller_without_a_reply_can_release_by_its_key() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let unread_reply = first_replica.lock_without_answer(&request(0));
    eventually("the lease is granted", || count_entries(&second_replica) == 1);
    drop((first_replica, unread_reply));
    second_replica.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
    second_replica.lock(&json!({"name": "a"})).expect(201);
    second_replica.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
    assert_eq!(second_replica.status("a")["held"], true, "the release by key must not end the lease of another client");
}

#[test]
fn requests_that_wait_on_two_replicas_get_one_hold() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let holder = first_replica.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    thread::scope(|scope| {
        let requests = [&first_replica, &second_replica]
            .map(|replica| scope.spawn(|| replica.lock(&request(600_000)).expect(201)));
        eventually("both requests wait", || first_replica.status("a")["waiting"] == 2);
        first_replica.release(&holder);
        let [first_lease, second_lease] = requests.map(|granted| granted.join().unwrap());
        // Requests that enter at the same moment, or while a node is slow, may raise the fence. Later requests get the
        // raised fence.
        let mut fence = first_lease.number("fence").max(second_lease.number("fence"));
        eventually("repeated requests agree on one fence", || {
            let next_fence = first_replica.lock(&request(0)).expect(201).number("fence");
            assert!(next_fence >= fence, "a fence must not be lower than an earlier fence");
            std::mem::replace(&mut fence, next_fence) == next_fence
        });
        second_replica.release(&first_lease);
        first_replica.post("/v1/leases/renew", &second_lease.lease()).problem(410, "lease-lost");
    });
}

#[test]
fn a_failed_request_releases_only_its_own_entry() {
    let (nodes, [first_replica, second_replica]) = replicas();
    let servers = &nodes.servers;
    let granted = first_replica.lock(&request(0)).expect(201);
    let all_nodes_have_entries = |service: &Service, entries: u64| {
        let lock = service.status("a");
        let held_count = lock["nodes"].as_array().unwrap().iter().filter(|node| node["held"] == true).count();
        held_count == servers.len() && lock["holds"] == entries
    };
    eventually("every node has the entry", || all_nodes_have_entries(&first_replica, 1));
    servers[..3].iter().for_each(RedisServer::freeze);
    let failed = second_replica.post_once("/v1/leases", &request(0)).problem(503, "no-quorum");
    let nodes = failed.body["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().filter(|node| node["vote"] == "granted").count(), 2, "{failed:?}");
    servers[..3].iter().for_each(RedisServer::thaw);
    eventually("every node has only the first entry", || {
        all_nodes_have_entries(&first_replica, 1) && all_nodes_have_entries(&second_replica, 1)
    });
    let renewed = second_replica.post("/v1/leases/renew", &granted.lease()).expect(200);
    assert_eq!(renewed.body["fence"], granted.body["fence"]);
    second_replica.lock(&json!({"name": "a"})).problem(409, "lock-held");
    first_replica.release(&granted);
    second_replica.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_waiting_request_fails_when_its_key_is_released() {
    let (_nodes, [first_replica, second_replica]) = replicas();
    let holder = first_replica.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| first_replica.lock(&request(600_000)));
        eventually("the request waits", || second_replica.status("a")["waiting"] == 1);
        second_replica.post("/v1/leases/release", &json!({"name": "a", "key": KEY})).expect(204);
        waiter.join().unwrap().problem(410, "key-spent");
    });
    second_replica.post("/v1/leases/renew", &holder.lease()).expect(200);
}
