//! Callers whose hosts have vanished: such a host receives no packets, and sends none.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::time::Duration;

use quorlock::{Client, MemoryNodes};
use quorlock_server::{Config, Server};
use socket2::{SockFilter, SockRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest wait, which is much longer than the test needs.
const WAIT_MAX: Duration = Duration::from_secs(100);

/// Sends a request that waits for the lock as a stream, and returns when the request is in the queue.
async fn start_wait(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = r#"{"name":"a","wait_ms":600000}"#;
    let head =
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("event: queued") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
    }
    stream
}

/// Returns the number of waiters that the service reports.
async fn count_waiters(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let count = answer.lines().find_map(|line| line.strip_prefix("quorlock_waiters "));
    count.unwrap_or_else(|| panic!("{answer}")).trim().parse().unwrap()
}

async fn wait_for_waiter_count(address: SocketAddr, count: usize) {
    let poll = async {
        while count_waiters(address).await != count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, poll)
        .await
        .unwrap_or_else(|_| panic!("the service does not report {count} waiters"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_host_has_vanished_leaves_the_queue() {
    let client = Client::builder().memory(&MemoryNodes::new(1)).leases_outlive_process().connect().await.unwrap();
    let _lease = client.lock("a").acquire().await.unwrap();
    let mut config = Config::new(([127, 0, 0, 1], 0).into(), client);
    config.limits.write_timeout = Duration::from_secs(2);
    let server = Server::bind(config).await.unwrap();
    let address = server.address();
    let service = tokio::spawn(server.serve(std::future::pending()));

    // A filter that drops every packet.
    let drop_all = [SockFilter::new(0x06, 0, 0, 0)];
    let first_waiter = start_wait(address).await;
    SockRef::from(&first_waiter).attach_filter(&drop_all).unwrap();
    wait_for_waiter_count(address, 0).await;

    // The service sends the second waiter an event about the third waiter. The unacknowledged event must not hide that
    // the host of the second waiter has vanished.
    let second_waiter = start_wait(address).await;
    SockRef::from(&second_waiter).attach_filter(&drop_all).unwrap();
    let third_waiter = start_wait(address).await;
    wait_for_waiter_count(address, 1).await;
    drop(third_waiter);
    wait_for_waiter_count(address, 0).await;
    service.abort();
}
