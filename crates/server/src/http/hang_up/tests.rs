use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn connection() -> (DuplexStream, ReadAhead<DuplexStream>, Arc<WaitMarker>) {
    let (theirs, ours) = duplex(2 * AHEAD_MAX);
    let waiting = Arc::default();
    (theirs, ReadAhead::new(ours, Arc::clone(&waiting)), waiting)
}

#[tokio::test]
async fn a_caller_that_hangs_up_while_it_waits_is_noticed_behind_what_it_has_sent() {
    let (mut theirs, mut ours, requests) = connection();
    theirs.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    ours.flush().await.expect("nobody waits: nothing is read");
    let waiting = Arc::downgrade(&requests);
    ours.flush().await.expect("it is still there");
    drop(theirs);
    let error = ours.flush().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    drop(waiting);
    ours.flush().await.expect("nobody waits any more");
}

#[tokio::test]
async fn bytes_that_are_read_ahead_are_read_once_and_in_order() {
    let (mut theirs, mut ours, requests) = connection();
    theirs.write_all(b"behind the request that waits, ").await.unwrap();
    {
        let _waiting = Arc::downgrade(&requests);
        ours.flush().await.unwrap();
    }
    theirs.write_all(b"and behind that").await.unwrap();
    drop(theirs);
    let mut all = String::new();
    ours.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "behind the request that waits, and behind that");
}

#[tokio::test]
async fn reading_ahead_is_bounded() {
    let (mut theirs, mut ours, requests) = connection();
    let _waiting = Arc::downgrade(&requests);
    theirs.write_all(&vec![0; 2 * AHEAD_MAX]).await.unwrap();
    ours.flush().await.unwrap();
    assert_eq!(ours.ahead.len(), AHEAD_MAX);
}
