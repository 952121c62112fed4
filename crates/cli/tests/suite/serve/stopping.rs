//! A service that stops accepts no connections, ends all waits, and completes its replies.

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
    let mut wait_stream = service.wait(&json!({"name": "a", "wait_ms": 600_000}));
    wait_stream.until("queued");
    let mut lock_stream = service.follow(None);
    lock_stream.until("snapshot");
    thread::scope(|scope| {
        let second_wait = scope.spawn(|| service.lock(&json!({"name": "a", "wait_ms": 600_000})));
        eventually("both requests wait", || service.status("a")["waiting"] == 2);
        service.signal("TERM");
        second_wait.join().unwrap().problem(503, "draining");
    });
    assert_eq!(wait_stream.until("failed").data["code"], "draining");
    while lock_stream.next().is_some() {}
    assert!(service.child.wait().unwrap().success());
    assert!(TcpStream::connect(service.host_and_port()).is_err());

    let next_service = Service::start(&user);
    assert_eq!(next_service.status("a")["waiting"], 0);
    next_service.post("/v1/leases/renew", &granted.lease()).expect(200);
}
