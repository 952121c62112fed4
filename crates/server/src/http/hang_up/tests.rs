use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// Returns the client's end of a connection, the server's end, and the marker of the connection.
fn connection() -> (DuplexStream, ReadAhead<DuplexStream>, Arc<WaitMarker>) {
    let (client, server) = duplex(2 * READ_AHEAD_MAX);
    let wait_marker = Arc::default();
    (client, ReadAhead::new(server, Arc::clone(&wait_marker)), wait_marker)
}

#[tokio::test]
async fn a_hang_up_after_unread_bytes_is_detected_only_while_the_caller_waits() {
    let (mut client, mut server, wait_marker) = connection();
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    server.flush().await.expect("the caller does not wait yet");
    let wait = Arc::downgrade(&wait_marker);
    server.flush().await.expect("the caller has not hung up yet");
    drop(client);
    let error = server.flush().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    drop(wait);
    server.flush().await.expect("the caller does not wait any more");
}

#[tokio::test]
async fn bytes_that_were_read_ahead_are_delivered_once_and_in_order() {
    let (mut client, mut server, wait_marker) = connection();
    client.write_all(b"after the waiting request, ").await.unwrap();
    {
        let _wait = Arc::downgrade(&wait_marker);
        server.flush().await.unwrap();
    }
    client.write_all(b"and after the wait").await.unwrap();
    drop(client);
    let mut all = String::new();
    server.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "after the waiting request, and after the wait");
}

#[tokio::test]
async fn the_number_of_bytes_that_are_read_ahead_is_limited() {
    let (mut client, mut server, wait_marker) = connection();
    let _wait = Arc::downgrade(&wait_marker);
    client.write_all(&vec![0; 2 * READ_AHEAD_MAX]).await.unwrap();
    server.flush().await.unwrap();
    assert_eq!(server.early_bytes.len(), READ_AHEAD_MAX);
}
