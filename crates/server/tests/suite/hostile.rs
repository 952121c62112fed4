//! Hostile input may cost the sender its connection, but it does not affect other clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use quorlock_testkit::eventually;
use serde_json::json;

use crate::service::{Service, log};

/// Sends these bytes, and returns everything that the service sends until it closes the connection.
fn send(service: &Service, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.host_and_port()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The service may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns a request for a lease, with this body.
fn post(body: &[u8]) -> Vec<u8> {
    post_with_headers("", body)
}

fn post_with_headers(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Returns the status of an answer, or `none` if there is no answer.
fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn every_malformed_input_gets_an_answer_or_a_closed_connection() {
    let service = Service::start();
    let nested_body = format!("{{\"name\":{}", "[".repeat(200_000));
    let large_body = format!("{{\"name\":\"{}\"}}", "x".repeat(10_000_000));
    let many_headers = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(1_000));
    let long_header = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "y".repeat(100_000));
    for (bytes, allowed) in [
        (post(b""), &["400"][..]),
        (post(b"{"), &["400"]),
        (post(b"\xff\xfe"), &["400"]),
        (post(b"{\"name\": \"\xc3\x28\"}"), &["400"]),
        (post(b"{\"name\": \"\\ud800\"}"), &["400"]),
        (post(b"{\"name\": \"a\", \"name\": \"b\"}"), &["400"]),
        (post(b"{\"name\": \"a\"} {\"name\": \"b\"}"), &["400"]),
        (post(b"{\"name\": \"a\", \"wait_ms\": 99999999999999999999999}"), &["400"]),
        (post(nested_body.as_bytes()), &["400"]),
        (post(large_body.as_bytes()), &["413", "none"]),
        (many_headers.into_bytes(), &["431", "400", "none"]),
        (long_header.into_bytes(), &["431", "400", "none"]),
        (long_path.into_bytes(), &["414", "431", "400", "none"]),
        (
            b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 5\r\n\r\n{}{}{"
                .to_vec(),
            &["415"],
        ),
        (b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".to_vec(), &["400", "none"]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &["400", "none"]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &["400", "505", "none"]),
        (vec![0; 10_000], &["400", "none"]),
        (b"GET /v1/locks/../../etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(), &["404"]),
        (b"GET /v1/locks/%00 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(), &["200"]),
    ] {
        let answer = send(&service, &bytes);
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(allowed.contains(&status(&answer)), "{start:?}: {answer}");
        assert!(!answer.contains("panicked"), "{answer}");
    }
    service.lock(&json!({"name": "a"})).expect(201);
    assert!(!log().contains("panicked"), "{}", log());
}

#[test]
fn connections_are_limited_for_each_address() {
    let service = Service::with_settings(|config| config.limits.connections_per_client = 3);
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut streams: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(service.host_and_port()).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(request).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    // Send nothing, because the service answers without reading a request, and unread bytes could reset the connection.
    let answer = send(&service, b"");
    assert_eq!(status(&answer), "429", "{answer}");
    assert!(
        answer.contains("application/problem+json") && answer.contains("\\\"127.0.0.1\\\" already has 3 connections"),
        "{answer}"
    );
    drop(streams.pop());
    eventually("a new connection is accepted again", || {
        status(&send(&service, &[&request[..request.len() - 2], b"connection: close\r\n\r\n"].concat())) == "200"
    });
}

#[test]
fn a_service_without_authentication_refuses_dns_rebinding() {
    let status_for = |service: &Service, host: &str, path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        status(&send(service, head.as_bytes())).to_owned()
    };
    let service = Service::start();
    for path in ["/v1/locks", "/", "/openapi.json", "/metrics"] {
        for host in ["localhost", service.host_and_port()] {
            assert_eq!(status_for(&service, host, path), "200", "{host} {path}");
        }
        assert_eq!(status_for(&service, "evil.example", path), "403", "{path}");
    }
    assert_eq!(status_for(&service, "balancer.example", "/readyz"), "200", "health checks allow any host");
    let service_for_any_host = Service::with_settings(|config| config.danger_no_auth = true);
    assert_eq!(status_for(&service_for_any_host, "lock.example", "/v1/locks"), "200", "the setting allows any host");
}

#[test]
fn a_malformed_body_is_not_reported_as_too_long() {
    let service = Service::start();
    let head = "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let answer = send(&service, format!("{head}transfer-encoding: chunked\r\n\r\nno number\r\n").as_bytes());
    assert_eq!(status(&answer), "400", "{answer}");
    assert!(answer.contains("\"invalid-request\""), "{answer}");
}

#[test]
fn slow_clients_are_disconnected_and_do_not_delay_other_clients() {
    let service = Service::with_settings(|config| {
        (config.limits.idle_timeout, config.limits.read_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    });
    let connect_and_send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(service.host_and_port()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let mut slow_streams: Vec<TcpStream> = (0..50)
        .map(|number| match number % 3 {
            0 => connect_and_send(b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\n"),
            1 => connect_and_send(b""),
            _ => connect_and_send(&post(&[b' '; 100])[..150]),
        })
        .collect();
    for _ in 0..20 {
        let granted = service.lock(&json!({"name": "b"})).expect(201);
        service.release(&granted);
    }
    thread::scope(|scope| {
        for stream in &mut slow_streams {
            scope.spawn(|| {
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                let answer = String::from_utf8_lossy(&answer).into_owned();
                assert!(["none", "408"].contains(&status(&answer)), "{answer}");
            });
        }
    });
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let service = Service::with_settings(|config| config.limits.write_timeout = Duration::from_secs(3));
    // A snapshot of these locks is larger than the buffers of both ends.
    for part in 0..2 {
        let names: Vec<String> = (0..1_000).map(|number| format!("{part}/{number:0>500}")).collect();
        service.lock(&json!({"names": names, "ttl_ms": 60_000})).expect(201);
    }
    let connect_and_send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(service.host_and_port()).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let has_followers = |count: u32| {
        let metrics = service.get("/metrics").expect(200).body;
        metrics.as_str().unwrap().contains(&format!("quorlock_followers {count}\n"))
    };
    let _follower = connect_and_send(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    eventually("a follower is connected", || has_followers(1));
    service.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    let body = br#"{"name": "a", "wait_ms": 1000}"#;
    let _waiter = connect_and_send(&post_with_headers("accept: text/event-stream\r\n", body));
    eventually("the wait has timed out", || log().contains("wait-timeout"));
    eventually("the waiter has left the queue", || service.status("a")["waiting"] == 0);
    eventually("the follower is disconnected", || has_followers(0));
}
