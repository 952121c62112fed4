//! A fake server that completes the handshake like a node, and can misbehave from any point on.
#![allow(dead_code, reason = "floods.rs uses a part of this")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::resp::{array, bulk, command, int, push};

/// The stage from which a fake misbehaves. It answers everything before like a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// From the first byte of a connection.
    Greeting,
    /// From the first command about the node.
    NodeCommand,
    /// From the first other command: votes, releases, inspections.
    Vote,
}

/// The behaviour of a fake.
#[derive(Clone)]
pub(crate) enum Deed {
    /// Replies like a node that grants everything.
    Behave,
    /// Sends these bytes instead of a reply.
    Say(Vec<u8>),
    /// Sends these bytes after a valid reply.
    Add(Vec<u8>),
    /// Sends these bytes and closes the connection.
    SayAndLeave(Vec<u8>),
    /// Sends these bytes one by one.
    Drip(Vec<u8>),
    /// Sends the first bytes once, and the second until the client disconnects.
    Flood(Vec<u8>, Vec<u8>),
    /// Sends the result of this function.
    Mangle(Mangle),
}

/// Maps the words of a command to a reply.
pub(crate) type Mangle = Arc<dyn Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync>;

impl Deed {
    pub(crate) fn mangle(mangle: impl Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::Mangle(Arc::new(mangle))
    }
}

/// A fake server, which stops when it is dropped.
pub(crate) struct Fake {
    addr: SocketAddr,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

/// The state of a fake.
struct Told {
    /// The constants of its cluster: name, nodes, `max_ttl` and `max_clock_skew`.
    constants: Mutex<Option<[String; 4]>>,
    /// Its run id.
    run: String,
    manners: Mutex<(From, Deed)>,
    /// The number of misbehaved replies.
    deeds: AtomicUsize,
    /// The number of commands with several names.
    bundles: AtomicUsize,
    /// The number of bytes that clients have read of the longest flood, and of all floods.
    flooded: AtomicU64,
    pushed: AtomicU64,
    /// The number of floods that a client ended.
    floods_ended: AtomicUsize,
}

impl Fake {
    /// Starts a fake that belongs to a cluster with these constants, or is blank.
    pub(crate) async fn start(constants: Option<[String; 4]>, from: From, deed: Deed) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let addr = listener.local_addr().expect("it is bound");
        let manners = Mutex::new((from, deed));
        let told = Arc::new(Told {
            constants: Mutex::new(constants),
            run: format!("fake-{}", addr.port()),
            manners,
            deeds: AtomicUsize::new(0),
            bundles: AtomicUsize::new(0),
            flooded: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            floods_ended: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&told);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { shared.talk(stream).await });
            }
        });
        Self { addr, told, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Changes the behaviour.
    pub(crate) fn turn(&self, from: From, deed: Deed) {
        *self.told.manners.lock().expect("the mutex is not poisoned") = (from, deed);
    }

    /// The number of misbehaved replies.
    pub(crate) fn deeds(&self) -> usize {
        self.told.deeds.load(Ordering::Acquire)
    }

    /// The number of bytes that clients have read of the longest flood.
    pub(crate) fn flooded(&self) -> u64 {
        self.told.flooded.load(Ordering::Acquire)
    }

    /// The number of commands with several names.
    pub(crate) fn bundles(&self) -> usize {
        self.told.bundles.load(Ordering::Acquire)
    }

    /// The number of bytes that clients have read of all floods.
    pub(crate) fn pushed(&self) -> u64 {
        self.told.pushed.load(Ordering::Acquire)
    }

    /// The number of floods that a client ended.
    pub(crate) fn floods_ended(&self) -> usize {
        self.told.floods_ended.load(Ordering::Acquire)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The longest pause between two bytes of a drip.
const DRIP: Duration = Duration::from_millis(5);

impl Told {
    async fn talk(&self, mut stream: TcpStream) {
        let (mut bytes, mut room, mut last) = (Vec::new(), vec![0; 64 * 1024], Vec::new());
        loop {
            while let Some((words, length)) = command(&bytes) {
                bytes.drain(..length);
                // A command about the node ends with the epoch; any other GET is about votes.
                let stage = if words[0] == b"GET" && last == b"HMGET" { From::NodeCommand } else { stage(&words) };
                last.clone_from(&words[0]);
                if self.answer(&mut stream, stage, &words).await.is_none() {
                    return;
                }
            }
            match stream.read(&mut room).await {
                Ok(length @ 1..) => bytes.extend(&room[..length]),
                _ => return,
            }
        }
    }

    /// Returns `None` when the connection is over.
    async fn answer(&self, stream: &mut TcpStream, stage: From, words: &[Vec<u8>]) -> Option<()> {
        let (from, deed) = self.manners.lock().expect("the mutex is not poisoned").clone();
        let misbehaves = stage == from || from == From::Greeting || (from, stage) == (From::NodeCommand, From::Vote);
        let honest = self.behave(words);
        let deed = if misbehaves { deed } else { Deed::Behave };
        if !matches!(deed, Deed::Behave) {
            self.deeds.fetch_add(1, Ordering::AcqRel);
        }
        match deed {
            Deed::Behave => stream.write_all(&honest).await.ok(),
            Deed::Say(said) => stream.write_all(&said).await.ok(),
            Deed::Add(more) => stream.write_all(&[honest, more].concat()).await.ok(),
            Deed::SayAndLeave(said) => {
                // The connection is closed in any case.
                let _ = stream.write_all(&said).await;
                None
            }
            Deed::Drip(said) => {
                for byte in said {
                    stream.write_all(&[byte]).await.ok()?;
                    tokio::time::sleep(DRIP).await;
                }
                Some(())
            }
            Deed::Flood(first, then) => {
                stream.write_all(&first).await.ok()?;
                let mut flooded = 0;
                while let Ok(taken) = stream.write(&then[flooded % then.len()..]).await {
                    flooded += taken;
                    self.pushed.fetch_add(taken as u64, Ordering::AcqRel);
                    self.flooded.fetch_max(flooded as u64, Ordering::AcqRel);
                }
                self.floods_ended.fetch_add(1, Ordering::AcqRel);
                None
            }
            Deed::Mangle(mangle) => stream.write_all(&mangle(words)).await.ok(),
        }
    }

    /// The reply of a node that grants everything.
    fn behave(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        if let Some(bundle) = Bundle::of(words) {
            self.bundles.fetch_add(1, Ordering::AcqRel);
            return bundle.granted();
        }
        match word(0).as_str() {
            "HELLO" => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
            "INFO" => bulk(&format!(
                "redis_version:7.4.0\r\nrole:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n\
                 run_id:{run}\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\n",
                run = self.run
            )),
            "SCRIPT" => bulk(&"0".repeat(40)),
            "SUBSCRIBE" => push(&[bulk("subscribe"), bulk(&word(1)), int(1)]),
            "GET" if self.constants.lock().expect("the mutex is not poisoned").is_none() => b"_\r\n".to_vec(),
            "GET" => bulk(MARK),
            "TIME" => array(&[bulk(&(now() / 1_000_000).to_string()), bulk(&(now() % 1_000_000).to_string())]),
            "HMGET" => array(&self.standing()[1..].iter().map(|word| bulk(word)).collect::<Vec<_>>()),
            "CLIENT" | "SET" => b"+OK\r\n".to_vec(),
            "EVALSHA" => match word(2).as_str() {
                "2" => self.node_command(words),
                "6" | "7" => grant(words),
                "4" => array(&[int(3), int(now()), int(1_000)]),
                _ => int(1),
            },
            _ => b"-ERR what?\r\n".to_vec(),
        }
    }

    /// The state of a node that can vote, in the cluster that the client initialized.
    fn node_command(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        if word(5) == "hello" {
            let constants = [word(8), word(9), word(10), word(11)];
            *self.constants.lock().expect("the mutex is not poisoned") = Some(constants);
        }
        let mut parts = vec![int(1), int(now())];
        parts.extend(self.standing().iter().map(|word| bulk(word)));
        array(&parts)
    }

    /// The epoch mark, and the fields of meta.
    fn standing(&self) -> Vec<String> {
        match &*self.constants.lock().expect("the mutex is not poisoned") {
            None => vec![String::new(); 12],
            Some([cluster, nodes, max_ttl, max_clock_skew]) => {
                let words =
                    [MARK, &self.run, cluster, nodes, max_ttl, max_clock_skew, "0", "", "3300000", "0", "0", ""];
                words.map(str::to_owned).to_vec()
            }
        }
    }
}

/// A command with several names.
pub(crate) enum Bundle {
    /// The fences that the acquires propose.
    Acquires(Vec<i64>),
    /// The number of releases.
    Releases(usize),
}

impl Bundle {
    /// Recognized by its arguments: each request begins with the key of a lock.
    pub(crate) fn of(words: &[Vec<u8>]) -> Option<Self> {
        let arguments = words.get(3..).filter(|_| words[0] == b"EVALSHA" && words[2] == b"0")?;
        let each = |from: usize, length: usize| {
            let all = arguments.get(from..)?.chunks(length);
            let is_one = |one: &[Vec<u8>]| one.len() == length && one[0].starts_with(b"quorlock:");
            (all.len() > 1 && all.clone().all(is_one)).then_some(all)
        };
        if let Some(asked) = each(5, 4) {
            let proposal = |asked: &[Vec<u8>]| String::from_utf8_lossy(&asked[2]).parse().unwrap_or(0);
            return Some(Self::Acquires(asked.map(proposal).collect()));
        }
        each(0, 2).map(|released| Self::Releases(released.len()))
    }

    /// The reply of a node that grants everything.
    fn granted(&self) -> Vec<u8> {
        match self {
            Self::Acquires(proposals) => {
                array(&[vec![int(now())], proposals.iter().map(|fence| int(*fence)).collect()].concat())
            }
            Self::Releases(count) => array(&vec![int(1); *count]),
        }
    }
}

/// The epoch mark of every fake.
pub(crate) const MARK: &str = "0000000000000000000000000000000e 7";

/// A grant of the proposed fence.
pub(crate) fn grant(words: &[Vec<u8>]) -> Vec<u8> {
    array(&[int(1), int(now()), int(proposal(words))])
}

/// The fence that an acquire or a renewal proposes.
pub(crate) fn proposal(words: &[Vec<u8>]) -> i64 {
    let keys: usize = words.get(2).and_then(|keys| String::from_utf8_lossy(keys).parse().ok()).unwrap_or(0);
    words.get(3 + keys + 2).and_then(|fence| String::from_utf8_lossy(fence).parse().ok()).unwrap_or(0)
}

/// The wall clock, as in a node's replies.
pub(crate) fn now() -> i64 {
    i64::try_from(crate::common::observe::wall_micros()).expect("a few thousand years are left")
}

fn stage(words: &[Vec<u8>]) -> From {
    match (words.first().map(Vec::as_slice), words.get(2).map(Vec::as_slice)) {
        (Some(b"CLIENT" | b"HELLO" | b"INFO" | b"SCRIPT" | b"SUBSCRIBE"), _) => From::Greeting,
        (Some(b"EVALSHA"), Some(b"2")) | (Some(b"HMGET" | b"TIME"), _) => From::NodeCommand,
        _ => From::Vote,
    }
}
