//! Tests of connections of which one side has ended and the other side is still open.

use quorlock_testkit::eventually;

use super::{ask, assert_end, connect, network, send};

#[test]
fn a_request_reaches_the_server_after_a_half_close() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.half_close();
    assert_end(&mut client);
    send(&mut client, "SET key value");
    eventually("the request to arrive", || server.command(&["GET", "key"]).as_str() == Some("value"));
    eventually("its reply to be dropped", || proxy.dropped_down() == "+OK\r\n".len() as u64);
    drop(client);
    eventually("the connection to end", || proxy.open_connections() == 0);
    connect(&proxy);
}

#[test]
fn a_stranded_request_arrives_when_it_is_delivered() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET stranded value");
    eventually("the request to be held", || proxy.held_up() > 0);
    proxy.strand();
    proxy.hold(false);
    assert_end(&mut client);

    let mut new = connect(&proxy);
    assert_eq!(ask(&mut new, "SET key value"), "+OK\r\n");
    assert_eq!(server.keys("*"), ["key"]);
    proxy.cut();
    assert!(proxy.held_up() > 0);

    proxy.deliver_stranded();
    assert_eq!(proxy.held_up(), 0);
    eventually("the request to take effect", || server.keys("*") == ["key", "stranded"]);
}

#[test]
fn a_request_sent_just_before_strand_is_stranded() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET stranded value");
    proxy.strand();
    proxy.hold(false);
    assert_end(&mut client);
    assert!(server.command(&["GET", "stranded"]).is_nil());
    proxy.deliver_stranded();
    eventually("the request to take effect", || server.keys("*") == ["stranded"]);
}

#[test]
fn strand_next_requests_strands_the_next_request() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand_next_requests();
    let mut new = connect(&proxy);
    send(&mut client, "SET stranded value");
    assert_end(&mut client);
    assert_eq!(ask(&mut new, "GET stranded"), "$-1\r\n");
    proxy.deliver_stranded();
    eventually("the request to take effect", || server.keys("*") == ["stranded"]);
}

#[test]
fn a_stranded_request_is_lost_when_its_server_dies() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand_next_requests();
    send(&mut client, "SET stranded value");
    assert_end(&mut client);
    server.restart();
    eventually("the request to be lost", || proxy.held_up() == 0);
    proxy.deliver_stranded();
    connect(&proxy);
    assert!(server.keys("*").is_empty());
}

#[test]
fn strand_closes_both_sides_of_an_idle_connection() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand();
    assert_end(&mut client);
    eventually("the server to have no client but this one", || {
        server.command(&["CLIENT", "LIST"]).as_str().unwrap().lines().count() == 1
    });
}
