//! The modes of locks, reentrant locks, and several names in one request.

use quorlock_testkit::eventually;
use serde_json::{Value, json};

use crate::service::Service;

const OWNER: &str = "an owner that nobody can guess";

#[test]
fn readers_share_a_lock_and_exclude_a_writer() {
    let service = Service::start();
    let readers = [0, 1].map(|_| service.lock(&json!({"name": "a", "mode": "shared"})).expect(201));
    assert_eq!(service.status("a")["mode"], "shared");
    service.lock(&json!({"name": "a"})).problem(409, "lock-held");
    service.release(&readers[0]);
    service.lock(&json!({"name": "a"})).problem(409, "lock-held");
    service.release(&readers[1]);
    service.lock(&json!({"name": "a"})).expect(201);
    service.lock(&json!({"name": "a", "mode": "shared"})).problem(409, "lock-held");
}

#[test]
fn a_lock_with_slots_has_one_holder_per_slot_and_refuses_another_number_of_slots() {
    let service = Service::start();
    let request = json!({"name": "a", "mode": "slots", "slots": 2});
    let holders = [0, 1].map(|_| service.lock(&request).expect(201));
    let slots = holders.each_ref().map(|granted| granted.number("slot"));
    assert_eq!(slots.iter().sum::<u64>(), 1, "{slots:?}");
    let reason = service.lock(&request).problem(409, "lock-held").text("detail");
    assert!(reason.starts_with("none of the 2 slots is free: \"a\" is held by "), "{reason}");
    let refused = service.lock(&json!({"name": "a", "mode": "slots", "slots": 3})).problem(409, "slots-mismatch");
    assert_eq!(refused.text("detail"), "\"a\" is in use with 2 slots, not 3: all users must pass the same number");
    service.release(&holders[0]);
    assert_eq!(service.lock(&request).expect(201).number("slot"), slots[0]);
    let failed = service.wait(&json!({"name": "a", "mode": "slots", "slots": 2, "wait_ms": 100})).until("failed").data;
    let detail = failed["detail"].as_str().unwrap();
    assert!(detail.starts_with("none of the 2 slots is free: timed out: "), "{detail}");
    let mut events = Value::Null;
    eventually("three grants and a release are in the history", || {
        events = service.get("/v1/history?name=a").expect(200).body["events"].clone();
        events.as_array().unwrap().len() == 4
    });
    assert!(events.as_array().unwrap().iter().all(|event| event["mode"] == "slots"), "{events}");
}

#[test]
fn the_same_owner_can_enter_a_held_lock_again() {
    let service = Service::start();
    let request = json!({"name": "a", "owner": OWNER});
    let (outer, inner) = (service.lock(&request).expect(201), service.lock(&request).expect(201));
    assert_eq!(outer.body["fence"], inner.body["fence"]);
    assert_ne!(outer.body["lease_id"], inner.body["lease_id"]);
    service.lock(&json!({"name": "a", "owner": format!("not {OWNER}")})).problem(409, "lock-held");
    service.release(&inner);
    service.lock(&json!({"name": "a"})).problem(409, "lock-held");
    service.release(&outer);
    service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn an_owner_with_a_shared_lease_cannot_get_an_exclusive_lease() {
    let service = Service::start();
    service.lock(&json!({"name": "a", "mode": "shared", "owner": OWNER})).expect(201);
    service.lock(&json!({"name": "a", "mode": "shared", "owner": OWNER})).expect(201);
    service.lock(&json!({"name": "a", "owner": OWNER})).problem(409, "upgrade");
}

#[test]
fn several_names_are_acquired_together_or_not_at_all() {
    let service = Service::start();
    let other_lease = service.lock(&json!({"name": "b"})).expect(201);
    service.lock(&json!({"names": ["c", "b", "a"]})).problem(409, "lock-held");
    assert_eq!(
        (service.status("a")["held"].clone(), service.status("c")["held"].clone()),
        (json!(false), json!(false))
    );
    service.release(&other_lease);
    let granted = service.lock(&json!({"names": ["c", "b", "a", "a"]})).expect(201);
    let names: Vec<_> = granted.body["leases"].as_array().unwrap().iter().map(|lease| lease["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(granted.number("validity_ms") > 0);
    let leases = granted.body["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| json!({"name": lease["name"], "lease_id": lease["lease_id"]}));
    service.post("/v1/leases/release", &json!({"leases": leases.collect::<Vec<_>>()})).expect(204);
    service.lock(&json!({"names": ["a", "b", "c"]})).expect(201);
}
