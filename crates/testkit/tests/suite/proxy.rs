//! Tests of every fault that the proxy can cause.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod half_open;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quorlock_testkit::{Loss, Proxy, RedisServer, eventually};

/// The read timeout. Only a failing test waits this long.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

fn network() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    (server, proxy)
}

/// Connects through the proxy, and waits until the server replies.
fn connect(proxy: &Proxy) -> TcpStream {
    let mut client = dial(proxy);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    client
}

fn dial(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    client
}

fn send(client: &mut TcpStream, command: &str) {
    client.write_all(format!("{command}\r\n").as_bytes()).unwrap();
}

fn receive(client: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn ask(client: &mut TcpStream, command: &str) -> String {
    send(client, command);
    receive(client)
}

/// Reads the end of the stream: `Ok` for an orderly end, an error for a reset. No bytes may arrive before the end.
fn end_of(client: &mut TcpStream) -> io::Result<()> {
    match client.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => panic!("the client got a byte"),
        Err(error) => Err(error),
    }
}

fn assert_reset(client: &mut TcpStream) {
    let end = end_of(client).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}

fn assert_end(client: &mut TcpStream) {
    assert!(end_of(client).is_ok());
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "SET key value"), "+OK\r\n");
    assert_eq!(server.command(&["GET", "key"]).as_str(), Some("value"));
    assert_eq!(proxy.connections(), 1);
    assert_eq!(proxy.bytes_up(), "PING\r\nSET key value\r\n".len() as u64);
    eventually("the replies to be counted", || proxy.bytes_down() == "+PONG\r\n+OK\r\n".len() as u64);
}

#[test]
fn a_reply_larger_than_the_socket_buffers_passes_whole() {
    let (server, proxy) = network();
    let size = 32 * 1024 * 1024;
    server.command(&["SETRANGE", "big", &(size - 1).to_string(), "x"]);
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "GET big"), format!("${size}\r\n"));
    let mut value = vec![1; size];
    client.read_exact(&mut value).unwrap();
    assert_eq!(value.pop(), Some(b'x'));
    assert!(value.iter().all(|byte| *byte == 0));
}

#[test]
fn the_server_sees_that_a_client_has_disconnected() {
    let (server, proxy) = network();
    let client = connect(&proxy);
    drop(client);
    eventually("the server to have no client but this one", || {
        server.command(&["CLIENT", "LIST"]).as_str().unwrap().lines().count() == 1
    });
    eventually("the proxy to forget the client", || proxy.open_connections() == 0);
}

#[test]
fn a_server_that_dies_ends_the_client_stream() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    server.kill();
    let _ = end_of(&mut client);
    assert_eq!(proxy.open_connections(), 0);
}

#[test]
fn a_dead_server_ends_new_connections_until_it_is_back() {
    let (server, proxy) = network();
    server.kill();
    let _ = end_of(&mut dial(&proxy));
    server.restart();
    connect(&proxy);
}

#[test]
fn a_dropped_reply_never_arrives_although_the_server_executed_the_request() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.drop_replies(true);
    send(&mut client, "SET key value");
    eventually("the reply to be dropped", || proxy.dropped_down() > 0);
    assert_eq!(server.command(&["GET", "key"]).as_str(), Some("value"));
    proxy.drop_replies(false);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn a_dropped_request_never_arrives() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.drop_requests(true);
    send(&mut client, "SET key value");
    eventually("the request to be dropped", || proxy.dropped_up() > 0);
    proxy.drop_requests(false);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    assert!(server.command(&["GET", "key"]).is_nil());
}

#[test]
fn held_requests_arrive_in_order_when_the_hold_ends() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    let commands = ["RPUSH list 1", "RPUSH list 2", "RPUSH list 3"];
    for command in commands {
        let held = proxy.held_up();
        send(&mut client, command);
        eventually("the request to be held", || proxy.held_up() > held);
    }
    assert_eq!(server.command(&["LLEN", "list"]).as_int(), Some(0));
    assert_eq!(proxy.open_connections(), 1);
    proxy.hold(false);
    for reply in [":1\r\n", ":2\r\n", ":3\r\n"] {
        assert_eq!(receive(&mut client), reply);
    }
    assert_eq!(proxy.held_up(), 0);
    let list = server.command(&["LRANGE", "list", "0", "-1"]);
    assert_eq!(list.strings(), ["1", "2", "3"]);
}

#[test]
fn a_held_request_arrives_although_its_client_has_disconnected() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET key value");
    eventually("the request to be held", || proxy.held_up() > 0);
    drop(client);
    proxy.hold(false);
    eventually("the request to take effect", || server.command(&["GET", "key"]).as_str() == Some("value"));
}

#[test]
fn a_delay_slows_both_ways() {
    let (_server, proxy) = network();
    let mut client = connect(&proxy);
    let delay = Duration::from_millis(40);
    proxy.delay(delay);
    let start = Instant::now();
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    // There is no upper bound, because the machine may be busy.
    assert!(start.elapsed() >= 2 * delay);
}

#[test]
fn a_cut_resets_all_open_connections_and_no_later_connection() {
    let (_server, proxy) = network();
    let mut clients = [connect(&proxy), connect(&proxy), dial(&proxy)];
    proxy.cut();
    assert_eq!(proxy.open_connections(), 0);
    for client in &mut clients {
        assert_reset(client);
    }
    connect(&proxy);
}

#[test]
fn a_cut_loses_held_bytes() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET key value");
    eventually("the request to be held", || proxy.held_up() > 0);
    proxy.cut();
    proxy.hold(false);
    assert_eq!(proxy.held_up(), 0);
    connect(&proxy);
    assert!(server.command(&["GET", "key"]).is_nil());
}

#[test]
fn a_cut_after_a_request_delivers_the_request_and_no_reply() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.cut_after_requests(1);
    send(&mut client, "SET key value");
    assert_reset(&mut client);
    eventually("the request to take effect", || server.command(&["GET", "key"]).as_str() == Some("value"));
    connect(&proxy);
}

#[test]
fn a_cut_after_two_requests_delivers_the_first_reply() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.cut_after_requests(2);
    assert_eq!(ask(&mut client, "INCR number"), ":1\r\n");
    send(&mut client, "INCR number");
    assert_reset(&mut client);
    eventually("the second request to take effect", || server.command(&["GET", "number"]).as_str() == Some("2"));
}

#[test]
fn a_refused_connection_ends_at_once_and_old_connections_continue() {
    let (_server, proxy) = network();
    let mut old = connect(&proxy);
    proxy.refuse(true);
    assert_end(&mut dial(&proxy));
    assert_eq!((proxy.connections(), proxy.refused()), (1, 1));
    assert_eq!(ask(&mut old, "PING"), "+PONG\r\n");
    proxy.refuse(false);
    connect(&proxy);
}

#[test]
fn a_retargeted_proxy_sends_new_connections_to_the_new_server() {
    let (first, proxy) = network();
    let second = RedisServer::start();
    let mut old = connect(&proxy);
    proxy.retarget(second.addr());
    let mut new = connect(&proxy);
    ask(&mut old, "SET old 1");
    ask(&mut new, "SET new 1");
    assert_eq!(first.keys("*"), ["old"]);
    assert_eq!(second.keys("*"), ["new"]);
}

#[test]
fn a_dropped_proxy_ends_its_connections() {
    let (_server, proxy) = network();
    let mut client = connect(&proxy);
    drop(proxy);
    let _ = end_of(&mut client);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_proxy_works_for_a_test_under_paused_time() {
    let (_server, proxy) = network();
    proxy.delay(Duration::from_millis(1));
    connect(&proxy);
}

/// Connects with RESP3, and subscribes to a channel.
fn subscribe(proxy: &Proxy) -> TcpStream {
    let mut client = connect(proxy);
    assert_eq!(ask(&mut client, "HELLO 3"), "%7\r\n");
    send(&mut client, "SUBSCRIBE news");
    while receive(&mut client) != "subscribe\r\n" {}
    assert_eq!([receive(&mut client), receive(&mut client)], ["$4\r\n", "news\r\n"]);
    assert_eq!(receive(&mut client), ":1\r\n");
    client
}

#[test]
fn pushes_are_removed_and_replies_pass() {
    let (server, proxy) = network();
    let mut client = subscribe(&proxy);
    proxy.drop_pushes(true);
    for _ in 0..3 {
        assert_eq!(server.command(&["PUBLISH", "news", "one"]).as_int(), Some(1));
        assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    }
    let push = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\none\r\n";
    assert_eq!(proxy.dropped_down(), 3 * push.len() as u64);
    proxy.drop_pushes(false);
    server.command(&["PUBLISH", "news", "one"]);
    let passed: String = (0..push.lines().count()).map(|_| receive(&mut client)).collect();
    assert_eq!(passed, push);
}

#[test]
fn a_lost_message_arrives_later_or_ends_its_connection() {
    let (_server, proxy) = network();
    let mut client = connect(&proxy);
    let loss = Loss { lost_one_in: 1, resend_delay: Duration::from_millis(50), never_resent_one_in: u64::MAX, seed: 7 };
    proxy.lose(Some(loss));
    let start = Instant::now();
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    assert!(start.elapsed() >= Duration::from_millis(100), "the request and its reply must be lost and sent again");
    proxy.lose(Some(Loss { never_resent_one_in: 1, ..loss }));
    send(&mut client, "PING");
    assert_reset(&mut client);
    proxy.lose(None);
    connect(&proxy);
}

#[test]
fn the_configured_share_of_messages_is_lost() {
    let (_server, proxy) = network();
    proxy.lose(Some(Loss { lost_one_in: 4, resend_delay: Duration::ZERO, never_resent_one_in: 1, seed: 7 }));
    let mut replies = 0;
    for _ in 0..100 {
        let mut client = dial(&proxy);
        send(&mut client, "PING");
        replies += usize::from(client.read(&mut [0]).is_ok_and(|read| read == 1));
    }
    // A request and its reply both pass with probability 3/4 * 3/4. The seed makes the losses the same in every run.
    assert!((40..75).contains(&replies), "{replies} of 100 requests got a reply");
}
