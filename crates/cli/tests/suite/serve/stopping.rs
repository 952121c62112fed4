//! Stopping a service: it accepts no connections, ends all waits, and completes its replies.

use std::net::TcpStream;
use std::thread;

use quorlock_testkit::eventually;
use serde_json::json;

use super::service::Service;
use crate::common::User;

#[test]
fn a_stopping_service_ends_all_waits_and_keeps_all_leases() {
    let user = User::new();
    let mut service = Service::start(&user);
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    let mut streaming = service.wait(&json!({"name": "a", "wait_ms": 600_000}));
    streaming.until("queued");
    let mut following = service.follow(None);
    following.until("snapshot");
    thread::scope(|scope| {
        let polling = scope.spawn(|| service.lock(&json!({"name": "a", "wait_ms": 600_000})));
        eventually("both requests wait", || service.status("a")["waiting"] == 2);
        service.signal("TERM");
        polling.join().unwrap().problem(503, "draining");
    });
    assert_eq!(streaming.until("failed").data["code"], "draining");
    while following.next().is_some() {}
    assert!(service.child.wait().unwrap().success());
    assert!(TcpStream::connect(service.host_and_port()).is_err());

    let next = Service::start(&user);
    assert_eq!(next.status("a")["waiting"], 0);
    next.post("/v1/leases/renew", &granted.lease()).expect(200);
}
