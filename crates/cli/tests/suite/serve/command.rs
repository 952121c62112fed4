//! Flags and exit codes of `quorlock serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use quorlock_testkit::http::{agent, answer};
use quorlock_testkit::{RedisServer, eventually};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::service::Service;
use crate::common::{User, assert_fails, start_cluster, stderr, stdout};

/// Writes a file in the user's home. Returns its path.
fn write_file(user: &User, name: &str, text: &str) -> String {
    let path = user.home.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_hashed_token_in_the_clients_file_authenticates_its_client() {
    const TOKEN: &str = "billing-0123456789abcdef0123456789abcdef";
    let user = User::new();
    let mut child = user.quorlock(&["serve", "--hash-token"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(TOKEN.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let clients = write_file(&user, "clients", &format!("billing {} lock *\n", stdout(&output).trim()));
    let service = Service::with_arguments(&user, &["--clients", &clients]);
    service.lock(&json!({"name": "a"})).problem(401, "unauthenticated");
    service.post_as(TOKEN, "/v1/leases", &json!({"name": "a"})).expect(201);
}

#[test]
fn a_certificate_and_its_key_enable_tls() {
    let user = User::new();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (cert, key) =
        (write_file(&user, "cert.pem", &certificate.pem()), write_file(&user, "key.pem", &key.serialize_pem()));
    let root = Certificate::from_pem(certificate.pem().as_bytes()).unwrap().to_owned();
    let trusting_agent =
        || agent(Some(TlsConfig::builder().root_certs(RootCerts::new_with_certs(std::slice::from_ref(&root))).build()));
    let service = Service::with_arguments(&user, &["--tls-cert", &cert, "--tls-key", &key]);
    assert!(service.address.starts_with("https://"));
    answer(trusting_agent().get(service.url("/v1/nodes")).call()).expect(200);
    let mutual_tls_service =
        Service::with_arguments(&user, &["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &cert]);
    assert!(trusting_agent().get(mutual_tls_service.url("/v1/nodes")).call().is_err(), "clients need a certificate");
}

#[test]
fn an_error_in_the_clients_file_names_its_line() {
    let user = User::new();
    let path = write_file(&user, "clients", "billing my-secret lock *\n");
    let refused = user.run(&["serve", "--clients", &path]);
    assert_fails(&refused, 78, "line 1");
    assert!(!stderr(&refused).contains("my-secret"));
    let output = user.quorlock(&["serve", "--hash-token"]).output().unwrap();
    assert_fails(&output, 64, "at least 32 random characters");
}

#[test]
fn listening_beyond_loopback_needs_authentication() {
    let user = User::new();
    let refused = user.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_fails(&refused, 78, "needs authentication, because other hosts can reach it");
    let service = Service::with_arguments(&user, &["--listen", "0.0.0.0:0", "--danger-no-auth"]);
    assert!(service.address.starts_with("http://0.0.0.0:"));
}

#[test]
fn an_address_in_use_is_named() {
    let user = User::new();
    let service = Service::start(&user);
    let refused = user.run(&["serve", "--listen", service.host_and_port()]);
    assert_fails(&refused, 78, service.host_and_port());
}

#[test]
fn the_address_may_be_a_host_name_and_its_format_is_explained() {
    let user = User::new();
    let service = Service::with_arguments(&user, &["--listen", "localhost:0"]);
    service.get("/healthz").expect(200);
    for address in ["7677", "localhost"] {
        assert_fails(&user.run(&["serve", "--listen", address]), 64, "127.0.0.1:7677, [::1]:7677 or localhost:7677");
    }
}

#[test]
fn serve_demo_refuses_nodes() {
    let user = User::new();
    let refused = user.run(&["serve", "--demo", "--nodes", "redis://127.0.0.1:1"]);
    assert_fails(&refused, 64, "--demo has nodes of its own: leave out either --demo or --nodes");
}

#[test]
fn serve_demo_has_many_locks_of_several_modes() {
    let user = User::new();
    let service = Service::with_arguments(&user, &["--demo"]);
    let nodes = service.get("/v1/nodes").expect(200).body;
    assert_eq!(nodes["total"], 5);
    let is_busy = |listing: &Value| {
        let locks = listing["locks"].as_array().unwrap();
        let modes: std::collections::BTreeSet<_> = locks.iter().filter_map(|lock| lock["mode"].as_str()).collect();
        locks.len() >= 10 && modes.len() >= 3
    };
    eventually("at least ten locks and three modes are listed", || is_busy(&service.get("/v1/locks").expect(200).body));
    service.lock(&json!({"name": "mine"})).expect(201);
}

/// Returns the status code of an HTTP reply.
fn status_code(reply: &str) -> &str {
    reply.split(' ').nth(1).unwrap_or("none")
}

/// Sends a request on a persistent connection, and reads the reply.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the service closed the connection after {head:?}");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn connections_leave_file_descriptors_for_the_nodes() {
    const OPEN_FILES_LIMIT: usize = 100;
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let service = Service::with_file_limit(&user, OPEN_FILES_LIMIT, &["--nodes", &nodes]);
    eventually("the service warns that the limit is low", || {
        service.log().contains("the limit of open files allows fewer connections in total")
    });
    let mut first_connection = TcpStream::connect(service.host_and_port()).unwrap();
    assert_eq!(status_code(&ask(&mut first_connection, "/readyz")), "200");
    // Each connection sends a request, so that the service keeps the connection open.
    let connect = || {
        let mut stream = TcpStream::connect(service.host_and_port()).unwrap();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream
    };
    let connect_many = || -> Vec<TcpStream> { (0..OPEN_FILES_LIMIT).map(|_| connect()).collect() };
    let _first_connections = connect_many();
    servers[..2].iter().for_each(RedisServer::kill);
    eventually("the service has no quorum", || status_code(&ask(&mut first_connection, "/readyz")) == "503");
    let _more_connections = connect_many();
    servers[..2].iter().for_each(RedisServer::restart);
    eventually("the service reaches all nodes again", || {
        let reply = ask(&mut first_connection, "/readyz");
        // The restarted nodes lost their memory and do not vote yet, but they are reachable.
        !reply.contains("unreachable") && !reply.contains("refused")
    });
}
