use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const WITHIN: Duration = Duration::from_secs(10);

fn connection() -> (DuplexStream, LimitedRead<DuplexStream>, Arc<Conversation>) {
    let (theirs, ours) = duplex(2 * AHEAD_MAX);
    let conversation = Arc::<Conversation>::default();
    (theirs, LimitedRead::new(ours, Arc::clone(&conversation), WITHIN), conversation)
}

/// Reads whatever there is.
async fn read(read_half: &mut LimitedRead<DuplexStream>) -> io::Result<usize> {
    read_half.read(&mut [0; 16]).await
}

async fn read_for(read_half: &mut LimitedRead<DuplexStream>, patience: Duration) -> Option<io::Result<usize>> {
    tokio::time::timeout(patience, read(read_half)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_head_has_to_end_in_time_however_slowly_it_comes() {
    let (mut theirs, mut read_half, _) = connection();
    let began = tokio::time::Instant::now();
    let trickle = async {
        loop {
            let _ = theirs.write_all(b"x").await;
            tokio::time::sleep(WITHIN / 7).await;
        }
    };
    let error = tokio::select! {
        () = trickle => unreachable!("it goes on for ever"),
        error = async { loop { if let Err(error) = read(&mut read_half).await { break error } } } => error,
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), WITHIN.as_secs());
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_at_all_is_not_waited_for() {
    let (_theirs, mut read_half, _) = connection();
    assert_eq!(read(&mut read_half).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn between_requests_a_connection_may_be_quiet() {
    let (mut theirs, mut read_half, conversation) = connection();
    for _ in 0..2 {
        theirs.write_all(b"head").await.unwrap();
        assert_eq!(read(&mut read_half).await.unwrap(), 4);
        conversation.asked();
        theirs.write_all(b"body").await.unwrap();
        assert_eq!(read(&mut read_half).await.unwrap(), 4);
        assert!(read_for(&mut read_half, 3 * WITHIN).await.is_none(), "a request takes as long as it takes");
        conversation.answered();
        assert!(read_for(&mut read_half, 3 * WITHIN).await.is_none(), "no head has begun");
    }
    theirs.write_all(b"he").await.unwrap();
    assert_eq!(read(&mut read_half).await.unwrap(), 2);
    let late = read_for(&mut read_half, 3 * WITHIN).await.expect("half a head");
    assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn whoever_hangs_up_while_it_waits_is_noticed_behind_what_it_has_sent() {
    let (mut theirs, mut read_half, conversation) = connection();
    theirs.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    read_half.flush().await.expect("nobody waits: nothing is read");
    let waited = conversation.wait();
    read_half.flush().await.expect("it is still there");
    drop(theirs);
    let error = read_half.flush().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    drop(waited);
    read_half.flush().await.expect("nobody waits any more");
}

#[tokio::test]
async fn what_is_read_ahead_is_read_once_and_in_order() {
    let (mut theirs, mut read_half, conversation) = connection();
    theirs.write_all(b"behind the request that waits, ").await.unwrap();
    {
        let _waited = conversation.wait();
        read_half.flush().await.unwrap();
    }
    theirs.write_all(b"and behind that").await.unwrap();
    drop(theirs);
    let mut all = String::new();
    read_half.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "behind the request that waits, and behind that");
}

#[tokio::test]
async fn only_so_much_is_read_ahead() {
    let (mut theirs, mut read_half, conversation) = connection();
    let _waited = conversation.wait();
    theirs.write_all(&vec![0; 2 * AHEAD_MAX]).await.unwrap();
    read_half.flush().await.unwrap();
    assert_eq!(read_half.ahead.len(), AHEAD_MAX);
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_turns_with_others() {
    let (_theirs, mut read_half, conversation) = connection();
    let others = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&others);
    tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..TOGETHER_MAX {
        conversation.take_turns().await;
    }
    assert_eq!(others.load(Ordering::Relaxed), 0, "a few are answered at once");
    for request in 1..=3 {
        conversation.take_turns().await;
        assert_eq!(others.load(Ordering::Relaxed), request, "of many, one at a time");
    }
    // All have been read.
    let pending =
        poll_fn(|context| Poll::Ready(Pin::new(&mut read_half).poll_read(context, &mut ReadBuf::new(&mut [0; 1]))));
    assert!(pending.await.is_pending());
    conversation.take_turns().await;
    assert_eq!(others.load(Ordering::Relaxed), 3, "the next is not one of many");
}
