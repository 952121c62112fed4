//! Acquires, renewals and releases.

use quorlock_testkit::eventually;
use quorlock_testkit::http::Answer;
use serde_json::{Value, json};

use crate::service::{LONG_TTL_MS, Nodes, Service};

/// Checks the validity in a reply: the ttl, counted from a moment between the request and the reply, minus the margins
/// for the drift of the nodes' clocks and of the caller's clock.
#[track_caller]
fn assert_lasts(reply: &Value, ttl_ms: u64) {
    let number = |field: &str| reply[field].as_u64().unwrap_or_else(|| panic!("no {field} in {reply}"));
    let (validity, elapsed) = (number("validity_ms"), number("server_elapsed_ms"));
    let margin = |span: u64| span / 10 + 2;
    let max = ttl_ms - margin(ttl_ms) - margin(ttl_ms - margin(ttl_ms));
    assert!(validity <= max && validity + elapsed + 5 >= max, "{validity} of {max} ms after {elapsed} ms");
}

#[test]
fn a_lock_has_one_holder_until_its_release() {
    let service = Service::start();
    let first_lease = service.lock(&json!({"name": "invoices/42", "label": "the first"})).expect(201);
    assert_eq!(
        (first_lease.number("nodes_ok"), first_lease.number("nodes_total"), first_lease.number("ttl_ms")),
        (1, 1, 30_000)
    );
    assert_lasts(&first_lease.body, 30_000);

    let refused = service.lock(&json!({"name": "invoices/42"})).problem(409, "lock-held");
    assert_eq!(refused.body["holder"]["label"], "the first");
    assert_eq!(refused.body["fence"], first_lease.body["fence"]);
    assert_eq!(refused.body["nodes"].as_array().unwrap().len(), 1);

    service.release(&first_lease);
    service.release(&first_lease);
    let next_lease = service.lock(&json!({"name": "invoices/42"})).expect(201);
    assert!(next_lease.number("fence") > first_lease.number("fence"));
    assert_ne!(next_lease.text("lease_id"), first_lease.text("lease_id"));
}

#[test]
fn a_renewal_extends_a_lease_but_does_not_revive_a_released_lease() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 20_000})).expect(201);
    let renewed = service.post("/v1/leases/renew", &granted.lease()).expect(200);
    assert_eq!(renewed.body["fence"], granted.body["fence"]);
    assert_lasts(&renewed.body, 20_000);
    service.release(&granted);
    service.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
    assert_eq!(service.status("a")["held"], false);
}

#[test]
fn a_lease_ends_with_its_ttl_unless_it_is_renewed() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 200})).expect(201);
    let next_lease = service.lock(&json!({"name": "a", "wait_ms": 30_000})).expect(201);
    assert!(next_lease.number("fence") > granted.number("fence"));
    service.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
}

#[test]
fn many_leases_are_renewed_and_released_in_one_request() {
    let service = Service::start();
    let granted: Vec<_> = ["a", "b", "c"].iter().map(|name| service.lock(&json!({"name": name})).expect(201)).collect();
    service.release(&granted[1]);
    let leases: Vec<_> = granted.iter().map(Answer::lease).collect();
    let renewed = service.post("/v1/leases/renew", &json!({"leases": leases})).expect(200);
    let outcomes = renewed.body["leases"].as_array().unwrap();
    let codes: Vec<_> = outcomes.iter().map(|outcome| outcome["problem"]["code"].as_str()).collect();
    assert_eq!(codes, [None, Some("lease-lost"), None]);
    assert_eq!(outcomes[0]["name"], "a");
    assert_lasts(&outcomes[0], 30_000);

    service.post("/v1/leases/release", &json!({"leases": leases})).expect(204);
    for name in ["a", "b", "c"] {
        assert_eq!(service.status(name)["held"], false);
    }
}

#[test]
fn the_largest_batch_is_renewed_and_released_in_one_request() {
    let nodes = Nodes::new_file().allow_long_leases();
    let service = nodes.serve();
    // Each byte of these names takes six bytes in JSON, and three bytes in a lease id.
    let names: Vec<String> = (0..1_000).map(|number| format!("{number:\u{1}>512}")).collect();
    let granted = service.lock(&json!({"names": names, "ttl_ms": LONG_TTL_MS})).expect(201);
    let leases: Vec<Value> = granted.body["leases"].as_array().unwrap().iter().map(lease_ref).collect();
    assert_eq!(leases.len(), names.len());
    let renewed = service.post("/v1/leases/renew", &json!({"leases": leases})).expect(200);
    assert!(renewed.body["leases"].as_array().unwrap().iter().all(|lease| lease["problem"].is_null()));
    service.post("/v1/leases/release", &json!({"leases": leases})).expect(204);
}

fn lease_ref(lease: &Value) -> Value {
    json!({"name": lease["name"], "lease_id": lease["lease_id"]})
}

#[test]
fn a_lease_id_with_another_name_is_refused() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    let with_other_name = json!({"name": "b", "lease_id": granted.text("lease_id")});
    let invalid = json!({"name": "a", "lease_id": "secret"});
    for call in ["/v1/leases/renew", "/v1/leases/release"] {
        service.post(call, &with_other_name).problem(403, "not-holder");
        let refused = service.post(call, &invalid).problem(403, "not-holder");
        assert!(!refused.text("detail").contains("secret"));
    }
    assert_eq!(service.status("a")["held"], true);
}

#[test]
fn a_release_with_an_invalid_lease_names_the_lease_and_releases_none() {
    let service = Service::start();
    let granted = ["a", "b"].map(|name| service.lock(&json!({"name": name})).expect(201).lease());
    let secret = granted[0]["lease_id"].clone();
    for invalid in [json!({"name": "c", "lease_id": secret}), json!({"name": "c", "lease_id": "key.q1.secret"})] {
        let leases = json!({"leases": [granted[0], granted[1], invalid]});
        let refused = service.post("/v1/leases/release", &leases).problem(403, "not-holder");
        let detail = refused.text("detail");
        assert!(detail.starts_with("leases[2]: "), "{detail}");
        assert!(!detail.contains("secret") && !detail.contains(secret.as_str().unwrap()), "{detail}");
    }
    for name in ["a", "b"] {
        assert_eq!(service.status(name)["held"], true, "{name}");
    }
    service.post("/v1/leases/release", &json!({"leases": granted})).expect(204);
    assert_eq!(service.status("a")["held"], false);
}

#[test]
fn any_replica_can_renew_and_release_a_lease() {
    let nodes = Nodes::new_file();
    let (first_replica, second_replica) = (nodes.serve(), nodes.serve());
    let granted = first_replica.lock(&json!({"name": "a"})).expect(201);
    second_replica.lock(&json!({"name": "a"})).problem(409, "lock-held");
    second_replica.post("/v1/leases/renew", &granted.lease()).expect(200);
    second_replica.release(&granted);
    first_replica.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
}

#[test]
fn a_holder_learns_that_its_lease_was_broken() {
    let service = Service::start();
    for mode in ["drain", "now"] {
        let granted = service.lock(&json!({"name": mode})).expect(201);
        let request = json!({"fence": granted.body["fence"], "mode": mode, "reason": "its host is on fire"});
        service.post(&format!("/v1/locks/{mode}/break"), &request).expect(200);
        let refused = service.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
        assert!(refused.text("detail").contains("broken; the history says who ended it, and why"), "{refused:?}");
        eventually("the break is in the history", || {
            let history = service.get(&format!("/v1/history?name={mode}")).expect(200).body.to_string();
            history.contains("its host is on fire")
        });
    }
}
