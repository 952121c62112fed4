//! Callers whose hosts have vanished: packets to them are lost, and none come back.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::time::Duration;

use quorlock::{Client, MemoryNodes};
use quorlock_server::{Config, Server};
use socket2::{SockFilter, SockRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Much longer than the test needs.
const PATIENCE: Duration = Duration::from_secs(100);

/// Opens a stream that waits for the lock.
async fn wait_for_it(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = r#"{"name":"a","wait_ms":600000}"#;
    let head =
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("event: queued") {
        assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0, "{}", String::from_utf8_lossy(&said));
    }
    stream
}

/// The number of waiters that the service reports.
async fn waiters(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    let count = said.lines().find_map(|line| line.strip_prefix("quorlock_waiters "));
    count.unwrap_or_else(|| panic!("{said}")).trim().parse().unwrap()
}

async fn wait_until(address: SocketAddr, count: usize) {
    let counted = async {
        while waiters(address).await != count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.unwrap_or_else(|_| panic!("there are not {count} waiters"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_waiter_leaves_the_queue() {
    let client = Client::builder().memory(&MemoryNodes::new(1)).leases_outlive_process().connect().await.unwrap();
    let _held = client.lock("a").acquire().await.unwrap();
    let mut config = Config::new(([127, 0, 0, 1], 0).into(), client);
    config.limits.write_timeout = Duration::from_secs(2);
    let server = Server::bind(config).await.unwrap();
    let address = server.address();
    let served = tokio::spawn(server.serve(std::future::pending()));

    // A filter that drops every packet.
    let nothing = [SockFilter::new(0x06, 0, 0, 0)];
    let quiet = wait_for_it(address).await;
    SockRef::from(&quiet).attach_filter(&nothing).unwrap();
    wait_until(address, 0).await;

    // The service sends this waiter a message about another waiter. The unacknowledged data must not hide that it is
    // gone.
    let told = wait_for_it(address).await;
    SockRef::from(&told).attach_filter(&nothing).unwrap();
    let there = wait_for_it(address).await;
    wait_until(address, 1).await;
    drop(there);
    wait_until(address, 0).await;
    served.abort();
}
