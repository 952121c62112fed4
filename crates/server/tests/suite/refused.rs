//! Invalid requests are refused with a reason.

use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use crate::service::Service;

#[test]
fn invalid_lock_requests_name_the_field() {
    let service = Service::start();
    let long = "x".repeat(513);
    let secret = "short";
    for (body, code) in [
        (json!({"name": ""}), "invalid-name"),
        (json!({"name": long}), "invalid-name"),
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
fn errors_use_the_names_of_the_request() {
    let service = Service::start();
    let key = "k".repeat(22);
    let (several, alone) = (
        "a request with several names must not have",
        "the locks of several names are exclusive: leave out mode and slots",
    );
    for (call, body, told) in [
        ("", json!({"name": "a", "mode": "slots", "slots": 0}), "slots must be between 1 and 1024 (got 0)"),
        ("", json!({"names": ["a"], "mode": "shared"}), alone),
        ("", json!({"names": ["a"], "mode": "slots", "slots": 2}), alone),
        ("", json!({"names": ["a"], "slots": 2}), alone),
        ("", json!({"names": ["a"], "key": key}), &format!("{several} a key")),
        ("", json!({"names": ["a"], "owner": key}), &format!("{several} an owner")),
        (
            "",
            json!({"name": "a", "mode": "slots", "slots": 2, "owner": key}),
            "a request with slots must not have an owner",
        ),
        ("/release", json!({"name": "a"}), "either a name and a lease_id, or a name and a key, or leases"),
        ("/renew", json!({"name": "a"}), "either a name and a lease_id, or leases"),
    ] {
        let refused = service.post(&format!("/v1/leases{call}"), &body).problem(400, "invalid-request");
        assert_eq!(refused.text("detail"), told, "{body}");
    }
    let wrong = |told: Answer, code: &str, text: &str| {
        let told = told.problem(400, code);
        assert!(told.text("detail").ends_with(text), "{told:?}");
    };
    let number = "expected a whole number, 0 or more";
    let lock = service.lock(&json!({"name": "a", "ttl_ms": "a minute"}));
    wrong(lock, "invalid-request", &format!(": ttl_ms: a value of the wrong kind: {number}"));
    let release = service.post("/v1/leases/release", &json!({"leases": [{"name": "a", "lease_id": 1}]}));
    wrong(release, "invalid-request", ": leases[0].lease_id: a value of the wrong kind: expected a string");
    wrong(service.get("/v1/locks?limit=x"), "invalid-request", &format!("the query: limit: {number}"));
    wrong(service.get("/v1/locks/%ff"), "invalid-name", "the name in the path is not UTF-8");
}

#[test]
fn a_body_without_a_content_type_names_the_header() {
    let service = Service::start();
    let sent =
        agent(None).post(service.url("/v1/leases")).header("content-type", "text/plain").send(r#"{"name": "a"}"#);
    let refused = answer(sent).problem(415, "unsupported-media-type");
    assert_eq!(refused.text("title"), "Content-Type must be application/json");
    assert_eq!(refused.text("detail"), "the header content-type has to be application/json");
}

#[test]
fn invalid_break_requests_name_the_field() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    let other = json!({"fence": granted.number("fence") - 1, "reason": "a test"});
    let refused = service.post("/v1/locks/a/break", &other).problem(409, "other-lease");
    assert_eq!(refused.body["fence"], granted.body["fence"]);
    service.post("/v1/leases/renew", &granted.lease()).expect(200);
    service.post("/v1/locks/b/break", &other).problem(409, "not-held");
    for wrong in [json!({"fence": 1, "reason": " "}), json!({"reason": "x"}), json!({"digest": "x", "reason": "x"})] {
        service.post("/v1/locks/a/break", &wrong).problem(400, "invalid-request");
    }
}

#[test]
fn a_wrong_value_is_not_repeated() {
    let service = Service::start();
    let refused = service.post("/v1/leases/renew", &json!({"name": "a", "lease_id": ["q1.secret"]}));
    let refused = refused.problem(400, "invalid-request");
    assert!(!refused.text("detail").contains("secret"), "{refused:?}");
}

#[test]
fn an_unknown_path_or_method_is_named() {
    let service = Service::start();
    service.get("/v2/leases").problem(404, "not-found");
    service.get("/v1/leases").problem(405, "method-not-allowed");
    service.get("/v1/locks?limit=0").problem(400, "invalid-request");
    service.get("/v1/locks?page=2").problem(400, "invalid-request");
    service.get("/v1/locks/%ff").problem(400, "invalid-name");
    service.get("/v1/history?limit=x").problem(400, "invalid-request");
}

#[test]
fn the_api_document_has_security_and_every_status() {
    let service = Service::start();
    let document = service.get("/openapi.json").expect(200);
    assert_eq!((document.kind.as_str(), &document.body["openapi"]), ("application/json", &json!("3.1.0")));
    let document = document.body;
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(
        (&schemes["bearer"]["scheme"], &schemes["certificate"]["type"]),
        (&json!("bearer"), &json!("mutualTLS"))
    );
    // Either scheme, or none if the service has no authentication.
    assert_eq!(document["security"], json!([{"bearer": []}, {"certificate": []}, {}]));
    assert_eq!(document["paths"]["/healthz"]["get"]["security"], json!([{}]), "no authentication is needed");
    for (method, path, wanted) in [
        ("post", "/v1/leases", "200 201 400 401 403 404 408 409 410 413 415 429 500 503"),
        ("get", "/v1/locks/{name}", "200 400 401 403 404 429 500 503"),
        ("get", "/readyz", "200 503"),
        ("get", "/healthz", "200"),
    ] {
        let told = document["paths"][path][method]["responses"].as_object().unwrap();
        assert_eq!(told.keys().map(String::as_str).collect::<Vec<_>>().join(" "), wanted, "{path}");
    }
}
