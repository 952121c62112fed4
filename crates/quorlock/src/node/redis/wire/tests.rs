//! Tests of a connection whose peer is a plain socket.

use std::io::Read as _;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::*;

/// A received value, or the error that ended the connection.
type Received = io::Result<Value>;

/// A running connection, which is closed when this value is dropped.
struct RunningConnection {
    wire: Arc<Wire>,
    _tasks: JoinSet<()>,
}

impl std::ops::Deref for RunningConnection {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

fn start(connecting: Connecting) -> (RunningConnection, UnboundedReceiver<Received>) {
    let ((sender, received), mut tasks) = (mpsc::unbounded_channel(), JoinSet::new());
    let wire = connecting.start(&mut tasks, move |value| sender.send(value).is_ok());
    (RunningConnection { wire, _tasks: tasks }, received)
}

async fn open(address: Address) -> Connecting {
    let server = Server { address, tls: false, login: None, db: 0 };
    Connecting::open(&server, Duration::from_secs(60)).await.unwrap()
}

/// Returns a connection during the handshake, and the socket of its peer.
async fn open_pair() -> (Connecting, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
    let (connecting, peer) = tokio::join!(open(address), listener.accept());
    (connecting, peer.unwrap().0)
}

/// Returns a running connection, the received values, and the socket of its peer.
async fn start_pair() -> (RunningConnection, UnboundedReceiver<Received>, TcpStream) {
    let (connecting, peer) = open_pair().await;
    let (wire, received) = start(connecting);
    (wire, received, peer)
}

/// Returns different pieces of data, which together are more than the kernel buffers.
fn pieces() -> impl Iterator<Item = Vec<u8>> {
    (0..2_000_u32).map(|piece| piece.to_le_bytes().repeat(1 + piece as usize % 5_000))
}

/// Reads all pieces from the socket of the peer, which has not read anything before.
async fn assert_arrived(mut peer: impl AsyncRead + Unpin) {
    for (index, piece) in pieces().enumerate() {
        let mut read = vec![0; piece.len()];
        peer.read_exact(&mut read).await.unwrap();
        assert!(read == piece, "piece {index} differs");
    }
}

#[tokio::test]
async fn bytes_arrive_in_order_if_the_peer_reads_late() {
    let (wire, _received, peer) = start_pair().await;
    pieces().for_each(|piece| wire.send(&piece));
    assert!(!wire.queue.lock().is_empty(), "the kernel accepted all bytes, so the task has nothing to write");
    assert_arrived(peer).await;
}

#[tokio::test]
async fn bytes_that_are_sent_while_the_task_writes_follow_the_queued_bytes() {
    let (wire, _received, peer) = start_pair().await;
    let mut expected = vec![b'a'; 16 << 20];
    wire.send(&expected);
    // Make room in the kernel's buffer by a read outside of the runtime, so that the task does not notice the room yet.
    let mut peer = peer.into_std().unwrap();
    let mut bytes_read = Vec::new();
    assert_eq!(peer.read_to_end(&mut bytes_read).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let Some(Socket::Tcp(socket)) = &wire.socket else { panic!("the connection has no TCP socket") };
    // The test learns of the room first: the kernel would now accept new bytes before the queued bytes.
    socket.writable().await.unwrap();
    assert!(!wire.queue.lock().is_empty() && bytes_read.len() < expected.len());
    wire.send(b"z");
    expected.push(b'z');
    let mut peer = TcpStream::from_std(peer).unwrap();
    while bytes_read.len() < expected.len() {
        assert_ne!(peer.read_buf(&mut bytes_read).await.unwrap(), 0);
    }
    assert!(bytes_read == expected, "at {:?} of {}", bytes_read.iter().position(|byte| *byte == b'z'), expected.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_stay_in_order_if_the_task_is_on_another_thread() {
    let (wire, _received, peer) = start_pair().await;
    let reading = tokio::spawn(assert_arrived(peer));
    pieces().for_each(|piece| wire.send(&piece));
    reading.await.unwrap();
}

#[tokio::test]
async fn bytes_arrive_in_order_over_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (connecting, peer) = tokio::join!(open(Address::Unix(path)), listener.accept());
    let (wire, mut received) = start(connecting);
    let mut peer = peer.unwrap().0;
    peer.write_all(b"+OK\r\n").await.unwrap();
    assert_eq!(received.recv().await.unwrap().unwrap(), Value::Okay);
    pieces().for_each(|piece| wire.send(&piece));
    assert_arrived(peer).await;
}

#[tokio::test]
async fn a_value_that_arrives_in_pieces_is_received_as_one_value() {
    let (_wire, mut received, mut peer) = start_pair().await;
    peer.set_nodelay(true).unwrap();
    let large = vec![b'x'; 12_288];
    let bytes = [b"*2\r\n:1\r\n$12288\r\n", &large[..], b"\r\n>1\r\n+push\r\n:7\r\n"].concat();
    for (index, byte) in bytes.iter().enumerate() {
        peer.write_all(&[*byte]).await.unwrap();
        if index % 16 == 0 {
            // Let the reader run.
            tokio::task::yield_now().await;
        }
    }
    let expected = [
        Value::Array(vec![Value::Int(1), Value::Text(large)]),
        Value::Push(vec![Value::Text(b"push".into())]),
        Value::Int(7),
    ];
    for value in expected {
        assert_eq!(received.recv().await.unwrap().unwrap(), value);
    }
}

#[tokio::test]
async fn many_values_of_one_read_are_received_one_by_one() {
    let (_wire, mut received, mut peer) = start_pair().await;
    let bytes: Vec<u8> = (0..5_000).flat_map(|number| format!(":{number}\r\n").into_bytes()).collect();
    peer.write_all(&bytes).await.unwrap();
    for number in 0..5_000 {
        assert_eq!(received.recv().await.unwrap().unwrap(), Value::Int(number));
    }
}

#[tokio::test]
async fn values_that_arrive_with_the_answers_of_the_handshake_go_to_the_receiver() {
    let (mut connecting, mut peer) = open_pair().await;
    peer.write_all(b"+OK\r\n-ERR what\r\n:3\r\n$5\r\nfo").await.unwrap();
    let answers = connecting.exchange(b"question", 2).await.unwrap();
    assert!(matches!(&answers[..], [Value::Okay, Value::Error(_)]), "{answers:?}");
    let mut question = [0; 8];
    peer.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"question");
    let (_wire, mut received) = start(connecting);
    peer.write_all(b"ur4\r\n").await.unwrap();
    assert_eq!(received.recv().await.unwrap().unwrap(), Value::Int(3));
    assert_eq!(received.recv().await.unwrap().unwrap(), Value::Text(b"four4".into()));
}

#[tokio::test]
async fn a_question_on_a_closed_connection_fails() {
    let (mut connecting, mut peer) = open_pair().await;
    peer.write_all(b"+OK\r\n").await.unwrap();
    drop(peer);
    assert!(connecting.exchange(b"", 2).await.is_err());
    let (mut connecting, mut peer) = open_pair().await;
    peer.write_all(b"+OK\r\n?\r\n").await.unwrap();
    assert_eq!(connecting.exchange(b"", 2).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn a_malformed_value_ends_the_connection_after_the_values_before_it() {
    // An unknown kind of value, and known kinds with invalid contents.
    for malformed in [&b"?what\r\n"[..], b"$x\r\n", b":x\r\n", b"$1\r\nab\r\n"] {
        let (wire, mut received, mut peer) = start_pair().await;
        peer.write_all(&[b"+OK\r\n", malformed, b"+OK\r\n"].concat()).await.unwrap();
        assert_eq!(received.recv().await.unwrap().unwrap(), Value::Okay);
        let end = received.recv().await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::InvalidData, "{end}");
        assert!(received.recv().await.is_none(), "a value was received after {malformed:?}");
        // Sending to a closed connection has no effect.
        wire.send(b"more");
    }
}

#[tokio::test]
async fn a_peer_that_closes_ends_the_connection_even_within_a_value() {
    for prefix in [&b""[..], b"+O", b"*2\r\n:1\r\n"] {
        let (_wire, mut received, mut peer) = start_pair().await;
        peer.write_all(prefix).await.unwrap();
        drop(peer);
        let end = received.recv().await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        assert!(received.recv().await.is_none());
    }
}

#[tokio::test]
async fn a_peer_that_closes_ends_the_connection_even_if_bytes_wait_to_be_written() {
    let (wire, mut received, peer) = start_pair().await;
    pieces().for_each(|piece| wire.send(&piece));
    // The kernel resets the connection, because the peer has not read all bytes.
    drop(peer);
    assert!(received.recv().await.unwrap().is_err());
    assert!(received.recv().await.is_none());
}

#[tokio::test]
async fn a_dropped_wire_is_closed() {
    let (wire, mut received, mut peer) = start_pair().await;
    wire.send(b"last words");
    drop(wire);
    let mut bytes_read = Vec::new();
    peer.read_to_end(&mut bytes_read).await.unwrap();
    assert_eq!(bytes_read, b"last words");
    assert!(received.recv().await.is_none(), "the side that closes the connection receives no error");
    // Repeat with bytes that the kernel does not accept.
    let (wire, mut received, mut peer) = start_pair().await;
    pieces().for_each(|piece| wire.send(&piece));
    drop(wire);
    bytes_read.clear();
    peer.read_to_end(&mut bytes_read).await.unwrap();
    assert!(bytes_read.len() < pieces().map(|piece| piece.len()).sum());
    assert!(received.recv().await.is_none());
}
