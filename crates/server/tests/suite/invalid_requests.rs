//! The service refuses invalid requests, and says why.

use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use crate::service::Service;

#[test]
fn an_invalid_lease_request_is_refused_with_a_reason_that_contains_no_secret() {
    let service = Service::start();
    let long_name = "x".repeat(513);
    let secret = "short";
    for (body, code) in [
        (json!({"name": ""}), "invalid-name"),
        (json!({"name": long_name}), "invalid-name"),
        (json!({"name": "a", "ttl_ms": 99}), "ttl-out-of-range"),
        (json!({"name": "a", "ttl_ms": 60_001}), "ttl-out-of-range"),
        (json!({"name": "a", "wait_ms": 600_001}), "invalid-request"),
        (json!({}), "invalid-request"),
        (json!({"name": "a", "names": ["a"]}), "invalid-request"),
        (json!({"names": []}), "invalid-request"),
        (json!({"names": vec!["a"; 1_001]}), "invalid-request"),
        (json!({"name": "a", "key": secret}), "invalid-request"),
        (json!({"name": "a", "key": "k".repeat(257)}), "invalid-request"),
        (json!({"name": "a", "key": "k".repeat(22), "owner": "o".repeat(22)}), "invalid-request"),
        (json!({"name": "a", "mode": "slots"}), "invalid-request"),
        (json!({"name": "a", "slots": 2}), "invalid-request"),
        (json!({"name": "a", "mode": "slots", "slots": 0}), "invalid-request"),
        (json!({"name": "a", "mode": "slots", "slots": 1_025}), "invalid-request"),
        (json!({"name": "a", "mode": "slots", "slots": 2, "key": "k".repeat(22)}), "invalid-request"),
        (json!({"names": ["a"], "key": "k".repeat(22)}), "invalid-request"),
        (json!({"names": ["a"], "owner": "o".repeat(22)}), "invalid-request"),
        (json!({"name": "a", "mode": "plain"}), "invalid-request"),
        (json!({"name": "a", "nmae": "b"}), "invalid-request"),
        (json!({"name": 1}), "invalid-request"),
        (json!({"name": "a", "ttl_ms": -1}), "invalid-request"),
        (json!({"name": "a", "ttl_ms": 1e30}), "invalid-request"),
        (json!([]), "invalid-request"),
        (Value::Null, "invalid-request"),
    ] {
        let refused = service.lock(&body).problem(400, code);
        assert!(!refused.text("detail").is_empty() && !refused.text("detail").contains(secret), "{refused:?}");
    }
}

#[test]
fn a_reason_uses_the_field_names_of_the_request() {
    let service = Service::start();
    let key = "k".repeat(22);
    let (forbidden_field, forbidden_mode) = (
        "a request with several names must not have",
        "the locks of several names are exclusive: leave out mode and slots",
    );
    for (call, body, detail) in [
        ("", json!({"name": "a", "mode": "slots", "slots": 0}), "slots must be between 1 and 1024 (got 0)"),
        ("", json!({"names": ["a"], "mode": "shared"}), forbidden_mode),
        ("", json!({"names": ["a"], "mode": "slots", "slots": 2}), forbidden_mode),
        ("", json!({"names": ["a"], "slots": 2}), forbidden_mode),
        ("", json!({"names": ["a"], "key": key}), &format!("{forbidden_field} a key")),
        ("", json!({"names": ["a"], "owner": key}), &format!("{forbidden_field} an owner")),
        (
            "",
            json!({"name": "a", "mode": "slots", "slots": 2, "owner": key}),
            "a request with slots must not have an owner",
        ),
        ("/release", json!({"name": "a"}), "a release must have either name and lease_id, or name and key, or leases"),
        ("/renew", json!({"name": "a"}), "a renewal must have either name and lease_id, or leases"),
    ] {
        let refused = service.post(&format!("/v1/leases{call}"), &body).problem(400, "invalid-request");
        assert_eq!(refused.text("detail"), detail, "{body}");
    }
    let assert_refused = |reply: Answer, code: &str, end: &str| {
        let refused = reply.problem(400, code);
        assert!(refused.text("detail").ends_with(end), "{refused:?}");
    };
    let number_expected = "expected a whole number, 0 or more";
    let lock = service.lock(&json!({"name": "a", "ttl_ms": "a minute"}));
    assert_refused(lock, "invalid-request", &format!(": ttl_ms: wrong type: {number_expected}"));
    let release = service.post("/v1/leases/release", &json!({"leases": [{"name": "a", "lease_id": 1}]}));
    assert_refused(release, "invalid-request", ": leases[0].lease_id: wrong type: expected a string");
    assert_refused(
        service.get("/v1/locks?limit=x"),
        "invalid-request",
        &format!("the query: limit: {number_expected}"),
    );
    assert_refused(service.get("/v1/locks/%ff"), "invalid-name", "the name of the lock in the path is not UTF-8");
}

#[test]
fn a_body_that_is_not_declared_as_json_is_refused() {
    let service = Service::start();
    let reply =
        agent(None).post(service.url("/v1/leases")).header("content-type", "text/plain").send(r#"{"name": "a"}"#);
    let refused = answer(reply).problem(415, "unsupported-media-type");
    assert_eq!(refused.text("title"), "Content-Type must be application/json");
    assert_eq!(refused.text("detail"), "the header Content-Type must be application/json");
}

#[test]
fn a_break_of_another_lease_or_without_a_reason_is_refused() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    let other_fence = json!({"fence": granted.number("fence") - 1, "reason": "a test"});
    let refused = service.post("/v1/locks/a/break", &other_fence).problem(409, "other-lease");
    assert_eq!(refused.body["fence"], granted.body["fence"]);
    service.post("/v1/leases/renew", &granted.lease()).expect(200);
    service.post("/v1/locks/b/break", &other_fence).problem(409, "not-held");
    for request in [json!({"fence": 1, "reason": " "}), json!({"reason": "x"}), json!({"digest": "x", "reason": "x"})] {
        service.post("/v1/locks/a/break", &request).problem(400, "invalid-request");
    }
}

#[test]
fn a_reason_does_not_repeat_a_value_of_the_wrong_type() {
    let service = Service::start();
    let refused = service.post("/v1/leases/renew", &json!({"name": "a", "lease_id": ["q1.secret"]}));
    let refused = refused.problem(400, "invalid-request");
    assert!(!refused.text("detail").contains("secret"), "{refused:?}");
}

#[test]
fn an_unknown_path_method_or_parameter_is_refused() {
    let service = Service::start();
    service.get("/v2/leases").problem(404, "not-found");
    service.get("/v1/leases").problem(405, "method-not-allowed");
    service.get("/v1/locks?limit=0").problem(400, "invalid-request");
    service.get("/v1/locks?page=2").problem(400, "invalid-request");
    service.get("/v1/locks/%ff").problem(400, "invalid-name");
    service.get("/v1/history?limit=x").problem(400, "invalid-request");
}

#[test]
fn the_openapi_document_has_the_authentication_schemes_and_every_status() {
    let service = Service::start();
    let document = service.get("/openapi.json").expect(200);
    assert_eq!((document.content_type.as_str(), &document.body["openapi"]), ("application/json", &json!("3.1.0")));
    let document = document.body;
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(
        (&schemes["bearer"]["scheme"], &schemes["certificate"]["type"]),
        (&json!("bearer"), &json!("mutualTLS"))
    );
    // A request uses one of the schemes, or none if the service has no authentication.
    assert_eq!(document["security"], json!([{"bearer": []}, {"certificate": []}, {}]));
    assert_eq!(document["paths"]["/healthz"]["get"]["security"], json!([{}]), "no authentication is needed");
    for (method, path, statuses) in [
        ("post", "/v1/leases", "200 201 400 401 403 404 408 409 410 413 415 429 500 503"),
        ("get", "/v1/locks/{name}", "200 400 401 403 404 429 500 503"),
        ("get", "/readyz", "200 503"),
        ("get", "/healthz", "200"),
    ] {
        let responses = document["paths"][path][method]["responses"].as_object().unwrap();
        assert_eq!(responses.keys().map(String::as_str).collect::<Vec<_>>().join(" "), statuses, "{path}");
    }
}
