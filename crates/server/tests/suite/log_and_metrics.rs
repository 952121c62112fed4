//! The log contains no secrets, and the metrics contain no names.

use std::io::Write;

use quorlock_testkit::eventually;
use quorlock_testkit::http::{Answer, Events, agent, answer, retry_while_nodes_are_late};
use serde_json::{Value, json};

use crate::service::{Nodes, Service, log};

const KEY: &str = "key-0123456789abcdef0123456789abcdef";
const OWNER: &str = "owner-0123456789abcdef0123456789abcdef";

#[test]
fn the_log_and_the_answers_of_reads_contain_no_secrets() {
    assert_no_secret_is_shown(&Service::start());
    let nodes = Nodes::start_servers(3);
    assert_no_secret_is_shown(&nodes.serve());
}

fn assert_no_secret_is_shown(service: &Service) {
    let lost_before = log().matches("\"status\":410").count();
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    let keyed_lease = service.lock(&json!({"name": "b", "key": KEY})).expect(201);
    let owned_lease = service.lock(&json!({"name": "c", "owner": OWNER})).expect(201);
    let streamed_lease = service.wait(&json!({"name": "d"})).until("granted").data;
    let streamed_lease = Answer { status: 200, content_type: String::new(), body: streamed_lease };
    let leases = [&granted, &keyed_lease, &owned_lease, &streamed_lease];
    service.lock(&json!({"name": "a", "wait_ms": 50})).problem(409, "wait-timeout");
    let events = service.follow(None).until("snapshot").data.to_string();
    let shown_text = [
        events,
        service.get("/v1/locks").body.to_string(),
        service.get("/v1/history").body.to_string(),
        service.get("/metrics").body.to_string(),
        service.lock(&json!({"name": "b"})).body.to_string(),
        service.post("/v1/leases/renew", &json!({"leases": leases.map(Answer::lease)})).expect(200).body.to_string(),
    ]
    .concat();
    let broken_lease = service.lock(&json!({"name": "e"})).expect(201);
    let reason = json!({"fence": broken_lease.body["fence"], "mode": "now", "reason": "a test"});
    let shown_text = shown_text + &service.post("/v1/locks/e/break", &reason).expect(200).body.to_string();
    service.post("/v1/leases/renew", &broken_lease.lease()).problem(410, "lease-lost");
    for lease in leases {
        service.post("/v1/leases/renew", &lease.lease()).expect(200);
        service.release(lease);
        service.post("/v1/leases/renew", &lease.lease()).problem(410, "lease-lost");
    }
    let shown_text = shown_text + &service.get("/v1/history").body.to_string();
    eventually("all failed renewals are logged", || log().matches("\"status\":410").count() >= lost_before + 5);
    let output = log() + &shown_text;
    let lease_ids: Vec<String> = leases.iter().chain([&&broken_lease]).map(|lease| lease.text("lease_id")).collect();
    // A lease id contains the 32 digits of its signature, and the 32 digits of its owner if it has an owner.
    let is_secret = |part: &&str| part.len() >= 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let secrets: Vec<&str> = lease_ids.iter().flat_map(|id| id.split(['.', ':'])).filter(is_secret).collect();
    assert_eq!(secrets.len(), 12, "five lease ids, five signatures and two owners");
    for secret in secrets.into_iter().chain([KEY, OWNER]).chain(lease_ids.iter().map(String::as_str)) {
        assert!(!output.contains(secret), "{secret} is in {output}");
    }
}

#[test]
fn a_request_is_logged_with_its_request_id_and_its_trace_id() {
    let service = Service::start();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = agent(None).get(service.url("/v1/locks/a%2Fb"));
    let request =
        request.header("x-request-id", "number-7").header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    let response = request.call().unwrap();
    assert_eq!(response.headers()["x-request-id"], "number-7");
    answer(Ok(response)).expect(200);
    let line = || {
        let log = log();
        log.lines().find(|line| line.contains("number-7")).map(|line| serde_json::from_str::<Value>(line).unwrap())
    };
    eventually("the request is logged", || line().is_some());
    let line = line().unwrap();
    assert_eq!((&line["status"], &line["span"]["trace_id"]), (&json!(200), &json!(trace)), "{line}");
    assert_eq!(line["span"]["call"], "/v1/locks/{name}");
    let response_without_id = agent(None).get(service.url("/healthz")).call().unwrap();
    assert_eq!(response_without_id.headers()["x-request-id"].len(), 16);
}

#[test]
fn the_end_of_a_stream_is_logged_and_counted() {
    let service = Service::start();
    service.lock(&json!({"name": "a"})).expect(201);
    let request = agent(None).post(service.url("/v1/leases")).header("accept", "text/event-stream");
    let response = request.header("x-request-id", "number-8").send_json(json!({"name": "a", "wait_ms": 100})).unwrap();
    Events::new(response).until("failed");
    let last_line = || {
        let log = log();
        let line = log.lines().find(|line| line.contains("number-8") && line.contains("\"waited\""))?;
        Some(serde_json::from_str::<Value>(line).unwrap())
    };
    eventually("the end of the stream is logged", || last_line().is_some());
    assert_eq!(last_line().unwrap()["code"], "wait-timeout");
    let metrics = service.get("/metrics").expect(200).body;
    assert!(metrics.as_str().unwrap().contains("quorlock_problems_total{code=\"wait-timeout\"} 1"), "{metrics}");
}

#[test]
fn a_disconnect_is_logged_and_counted() {
    let service = Service::start();
    service.lock(&json!({"name": "a"})).expect(201);
    for (count, accept) in [(1, "application/json"), (2, "text/event-stream")] {
        let id = format!("disconnect-{count}");
        let body = json!({"name": "a", "wait_ms": 600_000}).to_string();
        let mut stream = std::net::TcpStream::connect(service.host_and_port()).unwrap();
        write!(
            stream,
            "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nx-request-id: {id}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        eventually("the request waits", || service.status("a")["waiting"] == 1);
        drop(stream);
        eventually("the disconnect is logged", || {
            log().lines().any(|line| line.contains(&id) && line.contains("\"hung up\""))
        });
        let metrics = service.get("/metrics").expect(200).body;
        assert!(metrics.as_str().unwrap().contains(&format!("quorlock_http_hangups_total {count}")), "{metrics}");
    }
}

#[test]
fn metrics_are_in_prometheus_format_and_name_no_lock() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a-lock"})).expect(201);
    service.lock(&json!({"name": "a-lock"})).problem(409, "lock-held");
    let mut attempts = 0;
    let mut renew = || {
        attempts += 1;
        service.post_once("/v1/leases/renew", &granted.lease())
    };
    retry_while_nodes_are_late(&mut renew).expect(200);
    let renewals = format!("quorlock_http_request_duration_seconds_count{{call=\"/v1/leases/renew\"}} {attempts}");
    service.release(&granted);
    service.get("/no-such-call-as-this").problem(404, "not-found");
    let waiter = service.lock(&json!({"name": "a-lock"})).expect(201);
    let mut stream = service.wait(&json!({"name": "a-lock", "wait_ms": 60_000}));
    stream.until("queued");
    eventually("the node votes", || service.get("/metrics").body.as_str().unwrap().contains("quorlock_nodes_voting 1"));
    let metrics = service.get("/metrics").expect(200);
    assert!(metrics.content_type.starts_with("application/openmetrics-text"));
    let text = metrics.body.as_str().unwrap();
    for line in [
        "quorlock_http_requests_total{call=\"/v1/leases\",method=\"POST\",status=\"201\"} 2",
        "quorlock_http_requests_total{call=\"/v1/leases\",method=\"POST\",status=\"409\"} 1",
        &renewals,
        "quorlock_problems_total{code=\"lock-held\"} 1",
        "quorlock_leases_granted_total 2",
        "quorlock_renewals_total 1",
        "quorlock_releases_total 1",
        "quorlock_waiters 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("a-lock") && !text.contains("no-such-call"), "{text}");
    drop(stream);
    service.release(&waiter);
    eventually("the queue is empty", || service.get("/metrics").body.as_str().unwrap().contains("quorlock_waiters 0"));
}

#[test]
fn requests_and_waiters_are_limited_for_each_client() {
    let service = Service::with_settings(|config| (config.limits.requests_per_second, config.limits.waiters) = (1, 1));
    let refused = (0..200).map(|_| service.get("/v1/nodes")).find(|answer| answer.status == 429);
    let refused = refused.expect("the limit of one request per second was not enforced").problem(429, "rate-limited");
    assert!(refused.number("retry_after_ms") <= 1_000);
    eventually("the rate limit allows another request", || service.lock(&json!({"name": "a"})).status == 201);
    let mut waiting_stream = None;
    eventually("one request may wait", || {
        let request = agent(None).post(service.url("/v1/leases")).header("accept", "text/event-stream");
        let response = request.send_json(json!({"name": "a", "wait_ms": 60_000})).unwrap();
        let is_accepted = response.status() == 200;
        waiting_stream = is_accepted.then(|| Events::new(response));
        is_accepted
    });
    let mut waiting_stream = waiting_stream.unwrap();
    waiting_stream.until("queued");
    eventually("a second request may not wait", || {
        let answer = service.lock(&json!({"name": "a", "wait_ms": 1}));
        answer.status == 429 && answer.text("detail").contains("already has 1 waiting requests")
    });
    service.get("/healthz").expect(200);
}

#[test]
fn unauthenticated_requests_are_limited_for_each_address() {
    let service = Service::with_settings(|config| config.limits.requests_per_second = 1);
    for path in ["/", "/assets/app.js", "/openapi.json", "/no-such-call", "/v1/leases"] {
        let refused = (0..200).map(|_| service.get(path)).find(|answer| answer.status == 429);
        refused
            .unwrap_or_else(|| panic!("the limit of one request per second was not enforced for {path}"))
            .problem(429, "rate-limited");
    }
    for path in ["/healthz", "/readyz"] {
        assert!((0..20).all(|_| service.get(path).status == 200), "health checks must not be limited");
    }
}
