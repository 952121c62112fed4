//! Requests that wait in the queue, as a long poll or as a stream, and callers that disconnect while they wait.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use quorlock_testkit::eventually;
use serde_json::json;

use crate::service::{Nodes, Service};

#[test]
fn a_long_poll_waits_until_the_lock_is_free() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a"})).expect(201);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| service.lock(&json!({"name": "a", "wait_ms": 30_000})).expect(201));
        eventually("a waiter is queued", || service.status("a")["waiting"] == 1);
        service.release(&granted);
        assert!(waiter.join().unwrap().number("fence") > granted.number("fence"));
    });
}

#[test]
fn a_wait_that_times_out_names_the_holder() {
    let service = Service::start();
    service.lock(&json!({"name": "a", "label": "in the way"})).expect(201);
    let timed_out = service.lock(&json!({"name": "a", "wait_ms": 100})).problem(409, "wait-timeout");
    assert_eq!(timed_out.body["holder"]["label"], "in the way");
    eventually("the waiter has left the queue", || service.status("a")["waiting"] == 0);
}

#[test]
fn a_stream_reports_the_position_the_holder_and_the_grant() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "label": "holder"})).expect(201);
    let mut first_stream = service.wait(&json!({"name": "a", "wait_ms": 60_000, "label": "first"}));
    let queued = first_stream.until("queued").data;
    assert_eq!((&queued["position"], &queued["holder"]["label"]), (&json!(1), &json!("holder")));
    assert_eq!(queued["fence"], granted.body["fence"]);

    let mut second_stream = service.wait(&json!({"name": "a", "wait_ms": 60_000}));
    assert_eq!(second_stream.until("queued").data["position"], 2);
    service.release(&granted);
    let grant = first_stream.until("granted").data;
    assert!(grant["validity_ms"].as_u64().unwrap() > 0 && grant["nodes_ok"] == 1, "{grant}");
    assert!(first_stream.next().is_none(), "the grant must be the last event");

    let moved_event = loop {
        let event = second_stream.next().unwrap();
        if event.data["position"] == 1 && event.data["holder"]["label"] == "first" {
            break event;
        }
    };
    assert!(["holder", "position"].contains(&moved_event.name.as_str()), "{moved_event:?}");
    let lease = json!({"name": "a", "lease_id": grant["lease_id"]});
    service.post("/v1/leases/release", &lease).expect(204);
    assert!(second_stream.until("granted").data["fence"].as_u64() > grant["fence"].as_u64());
}

#[test]
fn a_stream_whose_wait_times_out_reports_the_timeout() {
    let service = Service::start();
    service.lock(&json!({"name": "a"})).expect(201);
    let mut waiter = service.wait(&json!({"name": "a", "wait_ms": 100}));
    assert_eq!(waiter.until("failed").data["code"], "wait-timeout");
    assert!(waiter.next().is_none());
}

#[test]
fn a_stream_grants_a_free_lock_at_once() {
    let service = Service::start();
    let event = service.wait(&json!({"name": "a"})).next().unwrap();
    assert_eq!((event.name.as_str(), &event.data["name"]), ("granted", &json!("a")));
}

/// A pipelined request: it is sent before the reply to the previous request.
const PIPELINED_REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn a_disconnected_waiter_leaves_the_queue_on_every_node() {
    let nodes = Nodes::start_servers(3);
    let service = nodes.serve();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    let nodes_with_waiter = || -> usize {
        let count = |server: &quorlock_testkit::RedisServer| server.command(&["ZCARD", "quorlock~queue:quorlock:a"]);
        nodes.servers.iter().map(|server| format!("{:?}", count(server))).filter(|reply| !reply.contains('0')).count()
    };

    let stream = service.wait(&json!({"name": "a", "wait_ms": 600_000}));
    eventually("every node has the waiter", || nodes_with_waiter() == 3);
    drop(stream);
    eventually("no node has the waiter", || nodes_with_waiter() == 0);

    let body = json!({"name": "a", "wait_ms": 600_000}).to_string();
    // The disconnect must also be detected after pipelined bytes, which the service does not read.
    for (accept, pipelined) in
        [("*/*", ""), ("*/*", "\r\n"), ("*/*", PIPELINED_REQUEST), ("text/event-stream", PIPELINED_REQUEST)]
    {
        let mut waiter = TcpStream::connect(service.host_and_port()).unwrap();
        write!(
            waiter,
            "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}{pipelined}",
            body.len()
        )
        .unwrap();
        eventually("every node has the waiter", || nodes_with_waiter() == 3);
        waiter.write_all(pipelined.as_bytes()).unwrap();
        drop(waiter);
        eventually("no node has the waiter", || nodes_with_waiter() == 0);
    }
    service.release(&granted);
    service.lock(&json!({"name": "a"})).expect(201);
}
