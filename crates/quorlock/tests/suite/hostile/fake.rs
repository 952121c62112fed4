//! A fake node. It answers like a node until a chosen stage of a connection, and misbehaves from this stage on.
#![allow(dead_code, reason = "floods.rs uses only a part of this module")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::resp::{array, bulk, int, parse_command, push};

/// A stage of a connection. Before its first stage of misbehavior, a fake node answers like a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The handshake, from the first byte of the connection on.
    Greeting,
    /// Commands about the state of the node.
    NodeCommand,
    /// All other commands: votes, releases, inspections.
    Vote,
}

/// How a fake node answers a command.
#[derive(Clone)]
pub(crate) enum Behavior {
    /// Replies like a node that grants everything.
    BehaveWell,
    /// Sends these bytes instead of a reply.
    Send(Vec<u8>),
    /// Sends these bytes after a valid reply.
    Append(Vec<u8>),
    /// Sends these bytes and closes the connection.
    SendAndClose(Vec<u8>),
    /// Sends these bytes one by one, with a pause after each byte.
    Trickle(Vec<u8>),
    /// Sends the first bytes once, and then sends the second bytes again and again until the client disconnects.
    Flood(Vec<u8>, Vec<u8>),
    /// Calls this function with the command, and sends its result.
    Compute(ReplyFn),
}

/// Returns the reply to a command, which is given as its words.
pub(crate) type ReplyFn = Arc<dyn Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync>;

impl Behavior {
    pub(crate) fn compute(reply: impl Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::Compute(Arc::new(reply))
    }
}

/// A fake node, which is a server. Dropping it stops the server.
pub(crate) struct FakeNode {
    addr: SocketAddr,
    state: Arc<FakeState>,
    task: JoinHandle<()>,
}

/// The state of a fake node.
struct FakeState {
    /// The constants of the cluster: its name, the number of nodes, `max_ttl` and `max_clock_skew`. `None` if the fake
    /// node has no cluster yet.
    constants: Mutex<Option<[String; 4]>>,
    run_id: String,
    /// The first stage at which the fake misbehaves, and the behavior from this stage on.
    misbehavior: Mutex<(Stage, Behavior)>,
    /// The number of invalid replies that the fake has sent.
    invalid_reply_count: AtomicUsize,
    /// The number of commands with several requests.
    bundle_count: AtomicUsize,
    /// The number of bytes that clients have read of the longest flood.
    longest_flood_bytes: AtomicU64,
    /// The number of bytes that clients have read of all floods.
    flooded_bytes: AtomicU64,
    /// The number of floods that ended because the client disconnected.
    ended_flood_count: AtomicUsize,
}

impl FakeNode {
    /// Starts a fake node, which belongs to the cluster with these constants, or has no cluster yet. It misbehaves from
    /// `first_stage` on.
    pub(crate) async fn start(constants: Option<[String; 4]>, first_stage: Stage, behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let addr = listener.local_addr().expect("the socket is bound");
        let misbehavior = Mutex::new((first_stage, behavior));
        let state = Arc::new(FakeState {
            constants: Mutex::new(constants),
            run_id: format!("fake-{}", addr.port()),
            misbehavior,
            invalid_reply_count: AtomicUsize::new(0),
            bundle_count: AtomicUsize::new(0),
            longest_flood_bytes: AtomicU64::new(0),
            flooded_bytes: AtomicU64::new(0),
            ended_flood_count: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        Self { addr, state, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Changes how the fake misbehaves, and from which stage on.
    pub(crate) fn misbehave(&self, first_stage: Stage, behavior: Behavior) {
        *self.state.misbehavior.lock().expect("the mutex is not poisoned") = (first_stage, behavior);
    }

    /// The number of invalid replies that the fake has sent.
    pub(crate) fn invalid_reply_count(&self) -> usize {
        self.state.invalid_reply_count.load(Ordering::Acquire)
    }

    /// The number of bytes that clients have read of the longest flood.
    pub(crate) fn longest_flood_bytes(&self) -> u64 {
        self.state.longest_flood_bytes.load(Ordering::Acquire)
    }

    /// The number of commands with several requests.
    pub(crate) fn bundle_count(&self) -> usize {
        self.state.bundle_count.load(Ordering::Acquire)
    }

    /// The number of bytes that clients have read of all floods.
    pub(crate) fn flooded_bytes(&self) -> u64 {
        self.state.flooded_bytes.load(Ordering::Acquire)
    }

    /// The number of floods that ended because the client disconnected.
    pub(crate) fn ended_flood_count(&self) -> usize {
        self.state.ended_flood_count.load(Ordering::Acquire)
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pause between two bytes of [`Behavior::Trickle`].
const TRICKLE_PAUSE: Duration = Duration::from_millis(5);

impl FakeState {
    async fn serve(&self, mut stream: TcpStream) {
        let (mut bytes, mut buffer, mut last_command) = (Vec::new(), vec![0; 64 * 1024], Vec::new());
        loop {
            while let Some((words, length)) = parse_command(&bytes) {
                bytes.drain(..length);
                // A GET after an HMGET reads the epoch of the node. Any other GET belongs to a vote.
                let stage =
                    if words[0] == b"GET" && last_command == b"HMGET" { Stage::NodeCommand } else { stage_of(&words) };
                last_command.clone_from(&words[0]);
                if self.answer(&mut stream, stage, &words).await.is_none() {
                    return;
                }
            }
            match stream.read(&mut buffer).await {
                Ok(length @ 1..) => bytes.extend(&buffer[..length]),
                _ => return,
            }
        }
    }

    /// Answers a command. Returns `None` if the connection has ended.
    async fn answer(&self, stream: &mut TcpStream, stage: Stage, words: &[Vec<u8>]) -> Option<()> {
        let (first_stage, behavior) = self.misbehavior.lock().expect("the mutex is not poisoned").clone();
        let misbehaves = stage == first_stage
            || first_stage == Stage::Greeting
            || (first_stage, stage) == (Stage::NodeCommand, Stage::Vote);
        let valid = self.valid_reply(words);
        let behavior = if misbehaves { behavior } else { Behavior::BehaveWell };
        if !matches!(behavior, Behavior::BehaveWell) {
            self.invalid_reply_count.fetch_add(1, Ordering::AcqRel);
        }
        match behavior {
            Behavior::BehaveWell => stream.write_all(&valid).await.ok(),
            Behavior::Send(reply) => stream.write_all(&reply).await.ok(),
            Behavior::Append(surplus) => stream.write_all(&[valid, surplus].concat()).await.ok(),
            Behavior::SendAndClose(reply) => {
                // If the write fails, the client has closed the connection already.
                let _ = stream.write_all(&reply).await;
                None
            }
            Behavior::Trickle(reply) => {
                for byte in reply {
                    stream.write_all(&[byte]).await.ok()?;
                    tokio::time::sleep(TRICKLE_PAUSE).await;
                }
                Some(())
            }
            Behavior::Flood(first, repeated) => {
                stream.write_all(&first).await.ok()?;
                let mut flooded = 0;
                while let Ok(written) = stream.write(&repeated[flooded % repeated.len()..]).await {
                    flooded += written;
                    self.flooded_bytes.fetch_add(written as u64, Ordering::AcqRel);
                    self.longest_flood_bytes.fetch_max(flooded as u64, Ordering::AcqRel);
                }
                self.ended_flood_count.fetch_add(1, Ordering::AcqRel);
                None
            }
            Behavior::Compute(reply) => stream.write_all(&reply(words)).await.ok(),
        }
    }

    /// The reply of a node that grants everything.
    fn valid_reply(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        if let Some(bundle) = Bundle::parse(words) {
            self.bundle_count.fetch_add(1, Ordering::AcqRel);
            return bundle.grant();
        }
        match word(0).as_str() {
            "HELLO" => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
            "INFO" => bulk(&format!(
                "redis_version:7.4.0\r\nrole:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n\
                 run_id:{run}\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\nevicted_keys:0\r\n",
                run = self.run_id
            )),
            "SCRIPT" => bulk(&"0".repeat(40)),
            "SUBSCRIBE" => push(&[bulk("subscribe"), bulk(&word(1)), int(1)]),
            "GET" if self.constants.lock().expect("the mutex is not poisoned").is_none() => b"_\r\n".to_vec(),
            "GET" => bulk(EPOCH_AND_FLOOR),
            "TIME" => array(&[bulk(&(now() / 1_000_000).to_string()), bulk(&(now() % 1_000_000).to_string())]),
            "HMGET" => array(&self.stored_fields()[1..].iter().map(|word| bulk(word)).collect::<Vec<_>>()),
            "CLIENT" | "SET" => b"+OK\r\n".to_vec(),
            // The number of keys tells which script this is.
            "EVALSHA" => match word(2).as_str() {
                "2" => self.node_command(words),
                "6" | "7" => grant(words),
                "4" => array(&[int(3), int(now()), int(1_000)]),
                _ => int(1),
            },
            _ => b"-ERR what?\r\n".to_vec(),
        }
    }

    /// The reply of a node that can vote. A fake node without a cluster joins the cluster that the client initializes.
    fn node_command(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        if word(5) == "hello" {
            let constants = [word(8), word(9), word(10), word(11)];
            *self.constants.lock().expect("the mutex is not poisoned") = Some(constants);
        }
        let mut parts = vec![int(1), int(now())];
        parts.extend(self.stored_fields().iter().map(|word| bulk(word)));
        array(&parts)
    }

    /// The stored epoch and floor, and then the other fields of the node's state.
    fn stored_fields(&self) -> Vec<String> {
        match &*self.constants.lock().expect("the mutex is not poisoned") {
            None => vec![String::new(); 12],
            Some([cluster, nodes, max_ttl, max_clock_skew]) => {
                let words = [
                    EPOCH_AND_FLOOR,
                    &self.run_id,
                    cluster,
                    nodes,
                    max_ttl,
                    max_clock_skew,
                    "0",
                    "",
                    "3300000",
                    "0",
                    "0",
                    "",
                ];
                words.map(str::to_owned).to_vec()
            }
        }
    }
}

/// A command with several requests.
pub(crate) enum Bundle {
    /// The fences that the acquires propose.
    Acquires(Vec<i64>),
    /// The number of releases.
    Releases(usize),
}

impl Bundle {
    /// Parses a command with several requests. Each request begins with the key of a lock. An acquire has four
    /// arguments, and five common arguments precede the acquires. A release has two arguments.
    pub(crate) fn parse(words: &[Vec<u8>]) -> Option<Self> {
        let arguments = words.get(3..).filter(|_| words[0] == b"EVALSHA" && words[2] == b"0")?;
        let parse_requests = |start: usize, length: usize| {
            let requests = arguments.get(start..)?.chunks(length);
            let is_request = |words: &[Vec<u8>]| words.len() == length && words[0].starts_with(b"quorlock:");
            (requests.len() > 1 && requests.clone().all(is_request)).then_some(requests)
        };
        if let Some(acquires) = parse_requests(5, 4) {
            let proposal = |acquire: &[Vec<u8>]| String::from_utf8_lossy(&acquire[2]).parse().unwrap_or(0);
            return Some(Self::Acquires(acquires.map(proposal).collect()));
        }
        parse_requests(0, 2).map(|releases| Self::Releases(releases.len()))
    }

    /// The reply of a node that grants everything.
    fn grant(&self) -> Vec<u8> {
        match self {
            Self::Acquires(proposals) => {
                array(&[vec![int(now())], proposals.iter().map(|fence| int(*fence)).collect()].concat())
            }
            Self::Releases(count) => array(&vec![int(1); *count]),
        }
    }
}

/// The stored epoch and floor of every fake node.
pub(crate) const EPOCH_AND_FLOOR: &str = "0000000000000000000000000000000e 7";

/// A reply that grants the proposed fence.
pub(crate) fn grant(words: &[Vec<u8>]) -> Vec<u8> {
    array(&[int(1), int(now()), int(proposal(words))])
}

/// The fence that an acquire or a renewal proposes.
pub(crate) fn proposal(words: &[Vec<u8>]) -> i64 {
    let keys: usize = words.get(2).and_then(|keys| String::from_utf8_lossy(keys).parse().ok()).unwrap_or(0);
    words.get(3 + keys + 2).and_then(|fence| String::from_utf8_lossy(fence).parse().ok()).unwrap_or(0)
}

/// The wall clock in microseconds, like the clock in a node's replies.
pub(crate) fn now() -> i64 {
    i64::try_from(crate::common::observe::wall_micros()).expect("the time fits 64 bits")
}

/// The stage to which a command belongs, unless it is a GET after an HMGET.
fn stage_of(words: &[Vec<u8>]) -> Stage {
    match (words.first().map(Vec::as_slice), words.get(2).map(Vec::as_slice)) {
        (Some(b"CLIENT" | b"HELLO" | b"INFO" | b"SCRIPT" | b"SUBSCRIBE"), _) => Stage::Greeting,
        (Some(b"EVALSHA"), Some(b"2")) | (Some(b"HMGET" | b"TIME"), _) => Stage::NodeCommand,
        _ => Stage::Vote,
    }
}
