//! A server that knows how a node shakes hands, and may forget its manners at any point.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::resp::{array, bulk, command, int, push};

/// From when on a fake misbehaves: everything before is answered as a node would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// From the first byte of a connection.
    Greeting,
    /// When it is asked about itself.
    NodeCommand,
    /// When it is asked for anything else: votes, releases, looks.
    Vote,
}

/// What a fake does instead of answering a question.
#[derive(Clone)]
pub(crate) enum Deed {
    /// Answers as a node would that grants everything.
    Behave,
    /// Says this.
    Say(Vec<u8>),
    /// Says this after the answer that a node would give.
    Add(Vec<u8>),
    /// Says this and hangs up.
    SayAndLeave(Vec<u8>),
    /// Says this byte by byte.
    Drip(Vec<u8>),
    /// Says the first once, and the second until nobody listens any more.
    Flood(Vec<u8>, Vec<u8>),
    /// Says what this makes of a grant.
    Mangle(Mangle),
}

/// From a command, word by word, to an answer.
pub(crate) type Mangle = Arc<dyn Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync>;

impl Deed {
    pub(crate) fn mangle(mangle: impl Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::Mangle(Arc::new(mangle))
    }
}

/// A fake server. Dropped, it is gone.
pub(crate) struct Fake {
    addr: SocketAddr,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

/// What a fake has seen, and how it behaves.
struct Told {
    /// The constants of the cluster that it claims to belong to: its name, nodes, `max_ttl` and the max clock skew.
    constants: Mutex<Option<[String; 4]>>,
    /// Its own name for its run.
    run: String,
    manners: Mutex<(From, Deed)>,
    /// How many questions it has answered badly.
    deeds: AtomicUsize,
    /// How many commands were for several names.
    bundles: AtomicUsize,
    /// How many bytes were taken of the longest flood, and of all of them.
    flooded: AtomicU64,
    pushed: AtomicU64,
    /// How many floods were ended by the other side.
    floods_ended: AtomicUsize,
}

impl Fake {
    /// In a cluster with these constants, or in none yet.
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

    /// Behaves otherwise from now on.
    pub(crate) fn turn(&self, from: From, deed: Deed) {
        *self.told.manners.lock().expect("nobody panics with it") = (from, deed);
    }

    /// How many questions it has answered badly.
    pub(crate) fn deeds(&self) -> usize {
        self.told.deeds.load(Ordering::Acquire)
    }

    /// How many bytes of the longest flood the other side has taken.
    pub(crate) fn flooded(&self) -> u64 {
        self.told.flooded.load(Ordering::Acquire)
    }

    /// How many commands for several names it was sent.
    pub(crate) fn bundles(&self) -> usize {
        self.told.bundles.load(Ordering::Acquire)
    }

    /// How many bytes of all floods the other side has taken.
    pub(crate) fn pushed(&self) -> u64 {
        self.told.pushed.load(Ordering::Acquire)
    }

    /// How many floods were ended by the other side.
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
                // A look at the node ends with the epoch; any other question about it is one about votes.
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

    /// `None` when the connection is over.
    async fn answer(&self, stream: &mut TcpStream, stage: From, words: &[Vec<u8>]) -> Option<()> {
        let (from, deed) = self.manners.lock().expect("nobody panics with it").clone();
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
                // It leaves either way.
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

    /// What a node would answer that grants everything.
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
            "GET" if self.constants.lock().expect("nobody panics with it").is_none() => b"_\r\n".to_vec(),
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

    /// How it stands: able to vote, in whatever cluster it is told to be in.
    fn node_command(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        if word(5) == "hello" {
            let constants = [word(8), word(9), word(10), word(11)];
            *self.constants.lock().expect("nobody panics with it") = Some(constants);
        }
        let mut parts = vec![int(1), int(now())];
        parts.extend(self.standing().iter().map(|word| bulk(word)));
        array(&parts)
    }

    /// The mark, and the fields of meta.
    fn standing(&self) -> Vec<String> {
        match &*self.constants.lock().expect("nobody panics with it") {
            None => vec![String::new(); 12],
            Some([cluster, nodes, max_ttl, max_clock_skew]) => {
                let words =
                    [MARK, &self.run, cluster, nodes, max_ttl, max_clock_skew, "0", "", "3300000", "0", "0", ""];
                words.map(str::to_owned).to_vec()
            }
        }
    }
}

/// A command for several names.
pub(crate) enum Bundle {
    /// The proposals of those who ask.
    Acquires(Vec<i64>),
    /// How many let go.
    Releases(usize),
}

impl Bundle {
    /// Told by its arguments: for each name, what begins with the key of a lock.
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

    /// What a node answers that grants everything.
    fn granted(&self) -> Vec<u8> {
        match self {
            Self::Acquires(proposals) => {
                array(&[vec![int(now())], proposals.iter().map(|fence| int(*fence)).collect()].concat())
            }
            Self::Releases(count) => array(&vec![int(1); *count]),
        }
    }
}

/// The life that every fake is in.
pub(crate) const MARK: &str = "0000000000000000000000000000000e 7";

/// A grant of what was proposed.
pub(crate) fn grant(words: &[Vec<u8>]) -> Vec<u8> {
    array(&[int(1), int(now()), int(proposal(words))])
}

/// The fence that an acquire or a renewal asks for.
pub(crate) fn proposal(words: &[Vec<u8>]) -> i64 {
    let keys: usize = words.get(2).and_then(|keys| String::from_utf8_lossy(keys).parse().ok()).unwrap_or(0);
    words.get(3 + keys + 2).and_then(|fence| String::from_utf8_lossy(fence).parse().ok()).unwrap_or(0)
}

/// The wall clock, which a node's answers carry.
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
