//! Connections whose sides end at different times.

use quorlock_testkit::eventually;

use super::{ask, assert_end, connect, network, send};

#[test]
fn a_request_reaches_the_server_after_the_end_of_the_answers() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.half_close();
    assert_end(&mut client);
    send(&mut client, "SET key value");
    eventually("the request to arrive", || server.command(&["GET", "key"]).as_str() == Some("value"));
    eventually("its answer to be thrown away", || proxy.dropped_down() == "+OK\r\n".len() as u64);
    drop(client);
    eventually("the connection to end", || proxy.open_connections() == 0);
    connect(&proxy);
}

#[test]
fn a_stranded_request_arrives_when_it_is_delivered() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET ghost value");
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
    eventually("the ghost to appear", || server.keys("*") == ["ghost", "key"]);
}

#[test]
fn a_request_sent_just_before_the_stranding_is_stranded() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.hold(true);
    send(&mut client, "SET ghost value");
    proxy.strand();
    proxy.hold(false);
    assert_end(&mut client);
    assert!(server.command(&["GET", "ghost"]).is_nil());
    proxy.deliver_stranded();
    eventually("the ghost to appear", || server.keys("*") == ["ghost"]);
}

#[test]
fn the_next_request_is_stranded_on_demand() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand_next_requests();
    let mut new = connect(&proxy);
    send(&mut client, "SET ghost value");
    assert_end(&mut client);
    assert_eq!(ask(&mut new, "GET ghost"), "$-1\r\n");
    proxy.deliver_stranded();
    eventually("the ghost to appear", || server.keys("*") == ["ghost"]);
}

#[test]
fn a_stranded_request_dies_with_the_server_it_was_meant_for() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand_next_requests();
    send(&mut client, "SET ghost value");
    assert_end(&mut client);
    server.restart();
    eventually("the request to be lost", || proxy.held_up() == 0);
    proxy.deliver_stranded();
    connect(&proxy);
    assert!(server.keys("*").is_empty());
}

#[test]
fn an_idle_connection_is_closed_on_both_sides_by_a_stranding() {
    let (server, proxy) = network();
    let mut client = connect(&proxy);
    proxy.strand();
    assert_end(&mut client);
    eventually("the server to have no client but this one", || {
        server.command(&["CLIENT", "LIST"]).as_str().unwrap().lines().count() == 1
    });
}
