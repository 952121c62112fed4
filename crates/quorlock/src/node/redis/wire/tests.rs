//! A connection's own promises, with a peer that is a plain socket.

use std::io::Read as _;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::*;

/// What a receiver was told: values, then why there are no more.
type Told = io::Result<Value>;

/// A running connection. Dropping it closes it.
struct Running {
    wire: Arc<Wire>,
    _tasks: JoinSet<()>,
}

impl std::ops::Deref for Running {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

fn start(connecting: Connecting) -> (Running, UnboundedReceiver<Told>) {
    let ((sender, told), mut tasks) = (mpsc::unbounded_channel(), JoinSet::new());
    let wire = connecting.start(&mut tasks, move |value| sender.send(value).is_ok());
    (Running { wire, _tasks: tasks }, told)
}

async fn open(address: Address) -> Connecting {
    let server = Server { address, tls: false, login: None, db: 0 };
    Connecting::open(&server, Duration::from_secs(60)).await.unwrap()
}

/// A connection, and its other end.
async fn pair() -> (Connecting, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
    let (connecting, peer) = tokio::join!(open(address), listener.accept());
    (connecting, peer.unwrap().0)
}

async fn started() -> (Running, UnboundedReceiver<Told>, TcpStream) {
    let (connecting, peer) = pair().await;
    let (wire, told) = start(connecting);
    (wire, told, peer)
}

/// More than the kernel takes at once, in pieces that can be told from each other.
fn pieces() -> impl Iterator<Item = Vec<u8>> {
    (0..2_000_u32).map(|piece| piece.to_le_bytes().repeat(1 + piece as usize % 5_000))
}

/// Reads all pieces from a peer that has left them lying so far.
async fn assert_arrived(mut peer: impl AsyncRead + Unpin) {
    for (index, piece) in pieces().enumerate() {
        let mut read = vec![0; piece.len()];
        peer.read_exact(&mut read).await.unwrap();
        assert!(read == piece, "piece {index} is another one");
    }
}

#[tokio::test]
async fn bytes_arrive_in_order_although_the_peer_does_not_read_for_a_while() {
    let (wire, _told, peer) = started().await;
    pieces().for_each(|piece| wire.send(&piece));
    assert!(!wire.queue.lock().bytes.is_empty(), "the kernel took it all: nothing was left to the task");
    assert_arrived(peer).await;
}

#[tokio::test]
async fn bytes_that_are_sent_while_the_task_writes_stay_behind_its_own() {
    let (wire, _told, peer) = started().await;
    let mut expected = vec![b'a'; 16 << 20];
    wire.send(&expected);
    // The task has taken what the kernel did not, and waits.
    while !wire.queue.lock().bytes.is_empty() {
        tokio::task::yield_now().await;
    }
    // A read outside the runtime makes room that the task does not know of yet.
    let mut peer = peer.into_std().unwrap();
    let mut heard = Vec::new();
    assert_eq!(peer.read_to_end(&mut heard).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let Some(Socket::Tcp(socket)) = &wire.socket else { panic!("not a socket that can be written to") };
    // The test hears of it first: now the kernel would take these bytes, before those of the task.
    socket.writable().await.unwrap();
    assert!(wire.queue.lock().busy && heard.len() < expected.len());
    wire.send(b"z");
    expected.push(b'z');
    let mut peer = TcpStream::from_std(peer).unwrap();
    while heard.len() < expected.len() {
        assert_ne!(peer.read_buf(&mut heard).await.unwrap(), 0);
    }
    assert!(heard == expected, "at {:?} of {}", heard.iter().position(|byte| *byte == b'z'), expected.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_stay_in_order_with_the_task_on_another_thread() {
    let (wire, _told, peer) = started().await;
    let reading = tokio::spawn(assert_arrived(peer));
    pieces().for_each(|piece| wire.send(&piece));
    reading.await.unwrap();
}

#[tokio::test]
async fn a_socket_file_does_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (connecting, peer) = tokio::join!(open(Address::Unix(path)), listener.accept());
    let (wire, mut told) = start(connecting);
    let mut peer = peer.unwrap().0;
    peer.write_all(b"+OK\r\n").await.unwrap();
    assert_eq!(told.recv().await.unwrap().unwrap(), Value::Okay);
    pieces().for_each(|piece| wire.send(&piece));
    assert_arrived(peer).await;
}

#[tokio::test]
async fn a_value_that_comes_in_parts_is_put_together() {
    let (_wire, mut told, mut peer) = started().await;
    peer.set_nodelay(true).unwrap();
    let large = vec![b'x'; 12_288];
    let bytes = [b"*2\r\n:1\r\n$12288\r\n", &large[..], b"\r\n>1\r\n+push\r\n:7\r\n"].concat();
    for (index, byte) in bytes.iter().enumerate() {
        peer.write_all(&[*byte]).await.unwrap();
        if index % 16 == 0 {
            // The reader gets its turn in between.
            tokio::task::yield_now().await;
        }
    }
    let expected = [
        Value::Array(vec![Value::Int(1), Value::Text(large)]),
        Value::Push(vec![Value::Text(b"push".into())]),
        Value::Int(7),
    ];
    for value in expected {
        assert_eq!(told.recv().await.unwrap().unwrap(), value);
    }
}

#[tokio::test]
async fn many_values_in_one_read_come_one_by_one() {
    let (_wire, mut told, mut peer) = started().await;
    let bytes: Vec<u8> = (0..5_000).flat_map(|number| format!(":{number}\r\n").into_bytes()).collect();
    peer.write_all(&bytes).await.unwrap();
    for number in 0..5_000 {
        assert_eq!(told.recv().await.unwrap().unwrap(), Value::Int(number));
    }
}

#[tokio::test]
async fn what_comes_with_the_first_answers_goes_to_the_receiver() {
    let (mut connecting, mut peer) = pair().await;
    peer.write_all(b"+OK\r\n-ERR what\r\n:3\r\n$5\r\nfo").await.unwrap();
    let answers = connecting.exchange(b"question", 2).await.unwrap();
    assert!(matches!(&answers[..], [Value::Okay, Value::Error(_)]), "{answers:?}");
    let mut question = [0; 8];
    peer.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"question");
    let (_wire, mut told) = start(connecting);
    peer.write_all(b"ur4\r\n").await.unwrap();
    assert_eq!(told.recv().await.unwrap().unwrap(), Value::Int(3));
    assert_eq!(told.recv().await.unwrap().unwrap(), Value::Text(b"four4".into()));
}

#[tokio::test]
async fn a_question_after_the_end_gets_the_end() {
    let (mut connecting, mut peer) = pair().await;
    peer.write_all(b"+OK\r\n").await.unwrap();
    drop(peer);
    assert!(connecting.exchange(b"", 2).await.is_err());
    let (mut connecting, mut peer) = pair().await;
    peer.write_all(b"+OK\r\n?\r\n").await.unwrap();
    assert_eq!(connecting.exchange(b"", 2).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn a_malformed_value_is_the_end_after_those_before_it() {
    // The frame does not know it, or the frame does and the parser does not.
    for malformed in [&b"?what\r\n"[..], b"$x\r\n", b":x\r\n", b"$1\r\nab\r\n"] {
        let (wire, mut told, mut peer) = started().await;
        peer.write_all(&[b"+OK\r\n", malformed, b"+OK\r\n"].concat()).await.unwrap();
        assert_eq!(told.recv().await.unwrap().unwrap(), Value::Okay);
        let end = told.recv().await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::InvalidData, "{end}");
        assert!(told.recv().await.is_none(), "something came after {malformed:?}");
        // Of no use, and no harm.
        wire.send(b"more");
    }
}

#[tokio::test]
async fn a_peer_that_closes_is_the_end_also_within_a_value() {
    for begun in [&b""[..], b"+O", b"*2\r\n:1\r\n"] {
        let (_wire, mut told, mut peer) = started().await;
        peer.write_all(begun).await.unwrap();
        drop(peer);
        let end = told.recv().await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        assert!(told.recv().await.is_none());
    }
}

#[tokio::test]
async fn a_peer_that_will_not_read_is_the_end_also_for_what_waits_to_be_written() {
    let (wire, mut told, peer) = started().await;
    pieces().for_each(|piece| wire.send(&piece));
    // With bytes unread, this is a reset.
    drop(peer);
    assert!(told.recv().await.unwrap().is_err());
    assert!(told.recv().await.is_none());
}

#[tokio::test]
async fn a_wire_that_is_dropped_is_closed() {
    let (wire, mut told, mut peer) = started().await;
    wire.send(b"last words");
    drop(wire);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"last words");
    assert!(told.recv().await.is_none(), "the closing side gets no end");
    // With bytes that cannot be written, too.
    let (wire, mut told, mut peer) = started().await;
    pieces().for_each(|piece| wire.send(&piece));
    drop(wire);
    heard.clear();
    peer.read_to_end(&mut heard).await.unwrap();
    assert!(heard.len() < pieces().map(|piece| piece.len()).sum());
    assert!(told.recv().await.is_none());
}
