//! Records the commands that one cycle sends to a node, with the Redis command MONITOR. The minimal client (the floor)
//! and redis-benchmark (the ceiling) send the same commands. A *bundle* is one command with several requests.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quorlock::Client;
use quorlock_testkit::RedisServer;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::worker::ours::cycle;

/// The name that is locked during the recording. The names of callers, which replace it, have the same length.
const NAME: &str = "recorded/000000";
const NAME_START: &str = "recorded/";
/// The number of cycles in a recording.
const CYCLES: usize = 3;
/// How often a recording is tried.
const ATTEMPTS: usize = 20;
/// The time limit for reading a recording. A command may be missing, because a cycle does not wait for a slow node.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The commands of an acquire and of its release on one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    acquire: Vec<String>,
    release: Vec<String>,
    /// The value of the vote's key while the lock is held.
    value: String,
}

impl Recording {
    /// Records the commands on every node. They differ, because they contain the node's epoch.
    pub(crate) async fn record(servers: &[RedisServer], client: &Client, plain: bool) -> Result<Vec<Self>, Failure> {
        for _ in 0..ATTEMPTS {
            let mut monitors =
                servers.iter().map(|server| Monitor::open(server.addr())).collect::<Result<Vec<_>, _>>()?;
            for _ in 0..CYCLES {
                cycle(client, NAME, plain).await?;
            }
            let recordings = monitors.iter_mut().map(Self::read_from).collect::<Result<Option<Vec<_>>, _>>()?;
            if let Some(recordings) = recordings {
                let verified = servers.iter().zip(recordings).map(|(server, recording)| recording.verified(server));
                return verified.collect();
            }
        }
        Err("no cycle consisted of one acquire and one release".into())
    }

    /// Reads the commands of all cycles, and returns those of the last cycle, because the first acquire of a name differs
    /// from later acquires. `None` if a cycle did not consist of one acquire and one release on this node.
    fn read_from(monitor: &mut Monitor) -> Result<Option<Self>, Failure> {
        let (mut commands, deadline) = (Vec::new(), Instant::now() + TIME_LIMIT);
        while commands.len() < 2 * CYCLES {
            let Some(command) = monitor.next_containing(NAME, deadline)? else { return Ok(None) };
            commands.push(command);
        }
        let first_words = |command: &Vec<String>| command.iter().take(2).cloned().collect::<Vec<_>>();
        let (Some(release), Some(acquire)) = (commands.pop(), commands.pop()) else {
            return Ok(None);
        };
        let are_pairs = commands.chunks(2).all(|pair| {
            first_words(&pair[0]) == first_words(&acquire) && first_words(&pair[1]) == first_words(&release)
        });
        Ok((are_pairs && first_words(&acquire) != first_words(&release)).then_some(Self {
            acquire,
            release,
            value: String::new(),
        }))
    }

    /// Sends the recorded commands, and checks that they acquire and release.
    fn verified(mut self, server: &RedisServer) -> Result<Self, Failure> {
        let send = |words: &[String]| server.try_command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let vote = || server.try_command(&["GET", self.key()]);
        send(&self.acquire)?;
        let value = vote()?.as_str().map(str::to_owned);
        send(&self.release)?;
        let vote_after_release = vote()?;
        match value {
            Some(value) if vote_after_release.is_nil() => self.value = value,
            _ => return Err("the recorded commands do not repeat the cycle".into()),
        }
        Ok(self)
    }

    /// The key of the vote: the shortest word that contains the name.
    pub(crate) fn key(&self) -> &str {
        let keys = self.acquire.iter().filter(|word| word.contains(NAME));
        keys.min_by_key(|word| word.len()).map_or("", String::as_str)
    }

    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// The acquire and the release of a caller, as bytes. They are the recorded commands with the caller's name.
    pub(crate) fn of_caller(&self, caller: usize) -> (Vec<u8>, Vec<u8>) {
        let name = name_of(caller);
        let wire = |words: &[String]| wire(words.iter().map(|word| word.replace(NAME, &name)));
        (wire(&self.acquire), wire(&self.release))
    }

    /// The acquire and the release for redis-benchmark, with a random number after the vote's key. Other keys are the
    /// same in all commands.
    pub(crate) fn with_random_keys(&self) -> [Command; 2] {
        [&self.acquire, &self.release].map(|words| {
            let random = |word: &String| if word == self.key() { with_random_number(word) } else { word.clone() };
            Command { words: words.iter().map(random).collect(), requests: 1 }
        })
    }

    /// Like [`Recording::with_random_keys`], but with bundles, as our library sends them under load. Our library does not
    /// bundle plain acquires, so these remain single requests.
    pub(crate) fn bundled_with_random_keys(&self, bundles: &Bundles) -> [Command; 2] {
        let [acquire, release] = self.with_random_keys();
        // The votes have the value of this recording, so the releases must have this value, too.
        let releases =
            bundles.releases.as_ref().map(|bundle| bundle.with_argument(self.value()).with_random_keys(self.key()));
        let acquires = bundles.acquires.as_ref().map(|bundle| bundle.with_random_keys(self.key()));
        [acquires.unwrap_or(acquire), releases.unwrap_or(release)]
    }
}

/// A command for redis-benchmark, with the number of its requests.
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    pub(crate) requests: usize,
}

fn with_random_number(key: &str) -> String {
    format!("{key}__rand_int__")
}

/// The bundles that our library sends to one node if there are many concurrent callers.
#[derive(Default)]
pub(crate) struct Bundles {
    acquires: Option<Bundle>,
    releases: Option<Bundle>,
}

/// A call of a script for several requests.
#[derive(Clone)]
struct Bundle {
    /// The command, the script and the number of keys.
    script_call: Vec<String>,
    /// The arguments that all requests share.
    shared: Vec<String>,
    /// The arguments of one request, after its key.
    of_request: Vec<String>,
}

/// The number of concurrent callers during a recording of bundles.
const CALLERS: usize = 64;
/// The number of requests in a bundle for redis-benchmark.
const REQUESTS_PER_BUNDLE: usize = 16;

impl Bundles {
    /// Records the bundles on every node.
    pub(crate) async fn record(servers: &[RedisServer], client: &Client, plain: bool) -> Result<Vec<Self>, Failure> {
        for _ in 0..ATTEMPTS {
            let mut monitors =
                servers.iter().map(|server| Monitor::open(server.addr())).collect::<Result<Vec<_>, _>>()?;
            let callers = (0..CALLERS).map(|caller| async move {
                for _ in 0..CYCLES {
                    cycle(client, &name_of(caller), plain).await?;
                }
                Ok::<(), Failure>(())
            });
            futures_util::future::try_join_all(callers).await?;
            let read = |monitor| Self::read_from(monitor, plain);
            if let Some(bundles) = monitors.iter_mut().map(read).collect::<Result<Option<Vec<_>>, _>>()? {
                return Ok(bundles);
            }
        }
        Err("our library sent no bundle".into())
    }

    /// Reads the first bundle of acquires and the first bundle of releases. Plain acquires are not bundled. `None` if a
    /// bundle is missing at the time limit.
    fn read_from(monitor: &mut Monitor, plain: bool) -> Result<Option<Self>, Failure> {
        let (mut found, deadline) = (Self::default(), Instant::now() + TIME_LIMIT);
        while found.releases.is_none() || found.acquires.is_none() && !plain {
            let Some(words) = monitor.next_containing(NAME_START, deadline)? else { return Ok(None) };
            let Some((is_release, bundle)) = Bundle::parse(&words) else { continue };
            if is_release { &mut found.releases } else { &mut found.acquires }.get_or_insert(bundle);
        }
        Ok(Some(found))
    }
}

impl Bundle {
    /// Parses a recorded command. Returns whether it is a bundle of releases, and the bundle. `None` if the command is not
    /// a bundle. After each key, a release has its attempt, and an acquire has three words. All acquires of a bundle share
    /// five words.
    fn parse(words: &[String]) -> Option<(bool, Self)> {
        let (script_call, arguments) =
            words.split_at_checked(3).filter(|(call, _)| call[0] == "EVALSHA" && call[2] == "0")?;
        let is_release = arguments.len() % 2 == 0;
        let (shared, requests) = arguments.split_at_checked(if is_release { 0 } else { 5 })?;
        let words_per_request = if is_release { 2 } else { 4 };
        if requests.len() % words_per_request != 0 || requests.len() < words_per_request * 2 {
            return None;
        }
        Some((
            is_release,
            Self {
                script_call: script_call.to_vec(),
                shared: shared.to_vec(),
                of_request: requests[1..words_per_request].to_vec(),
            },
        ))
    }

    /// The same bundle with another argument after each key.
    fn with_argument(&self, argument: &str) -> Self {
        Self { of_request: vec![argument.into()], ..self.clone() }
    }

    /// The bundle for redis-benchmark.
    fn with_random_keys(&self, key: &str) -> Command {
        let mut words = [self.script_call.clone(), self.shared.clone()].concat();
        for _ in 0..REQUESTS_PER_BUNDLE {
            words.push(with_random_number(key));
            words.extend(self.of_request.iter().cloned());
        }
        Command { words, requests: REQUESTS_PER_BUNDLE }
    }
}

fn name_of(caller: usize) -> String {
    format!("{NAME_START}{caller:06}")
}

fn wire(words: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// A connection in MONITOR mode.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn open(server: SocketAddr) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut monitor = Self(BufReader::new(stream));
        match monitor.read_line()?.trim() {
            "+OK" => Ok(monitor),
            other => Err(format!("no MONITOR: {other}").into()),
        }
    }

    /// The next command of a client that contains this name. `None` if no such command arrives before the deadline.
    /// Ignores the commands that scripts execute. Does not parse commands without the name, because they may be scripts
    /// with text that [`unquoted`] does not accept.
    fn next_containing(&mut self, name: &str, deadline: Instant) -> Result<Option<Vec<String>>, Failure> {
        while Instant::now() < deadline {
            let line = match self.read_line() {
                Ok(line) => line,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error.into()),
            };
            let (from, words) = line.split_once("] ").ok_or("MONITOR printed an unexpected line")?;
            if !from.ends_with("lua") && words.contains(name) {
                return unquoted(words.trim_end()).map(Some);
            }
        }
        Ok(None)
    }

    fn read_line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

/// Splits a line such as `"SET" "a\"b"` into words.
fn unquoted(text: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(after_quote) = rest.strip_prefix('"') {
        let mut word = String::new();
        let mut letters = after_quote.char_indices();
        loop {
            match letters.next().ok_or("a word without an end")? {
                (end, '"') => {
                    rest = after_quote[end + 1..].trim_start();
                    break;
                }
                (_, '\\') => match letters.next() {
                    Some((_, letter @ ('"' | '\\'))) => word.push(letter),
                    // The commands of our library have no bytes that MONITOR escapes in another way.
                    _ => return Err("a word with an unknown escape".into()),
                },
                (_, letter) => word.push(letter),
            }
        }
        words.push(word);
    }
    if rest.is_empty() { Ok(words) } else { Err(format!("not a command: {text}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_quotes() {
        let words = unquoted(r#""SET" "a \"b\" \\" "" "x""#).unwrap();
        assert_eq!(words, ["SET", r#"a "b" \"#, "", "x"]);
        assert!(unquoted(r#""SET" "a"#).is_err());
        assert!(unquoted("SET a").is_err());
    }

    #[test]
    fn every_caller_has_its_own_keys() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let recording = Recording {
            acquire: words("SET quorlock:recorded/000000 id"),
            release: words("EVALSHA 1 quorlock:recorded/000000 quorlock~queue:quorlock:recorded/000000"),
            value: "id".into(),
        };
        let (acquire, release) = recording.of_caller(17);
        assert_eq!(acquire, b"*3\r\n$3\r\nSET\r\n$24\r\nquorlock:recorded/000017\r\n$2\r\nid\r\n");
        assert!(!String::from_utf8(release).unwrap().contains("000000"));
        let [_, random] = recording.with_random_keys();
        assert_eq!(random.words[2], "quorlock:recorded/000000__rand_int__");
        assert_eq!(random.words[3], "quorlock~queue:quorlock:recorded/000000");
    }

    #[test]
    fn a_recorded_bundle_is_built_with_another_number_of_requests() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let parse = |text: &str| Bundle::parse(&words(text));
        let (is_release, bundle) = parse("EVALSHA sha 0 a 1 b 2").unwrap();
        let command = bundle.with_random_keys("k");
        assert!(
            is_release && command.requests == REQUESTS_PER_BUNDLE && command.words.len() == 3 + 2 * REQUESTS_PER_BUNDLE
        );
        assert_eq!(command.words[..5], words("EVALSHA sha 0 k__rand_int__ 1"));
        let (is_release, bundle) = parse("EVALSHA sha 0 m t s r h a 1 p w b 2 p w").unwrap();
        let command = bundle.with_random_keys("k").words;
        assert!(!is_release && command.len() == 3 + 5 + 4 * REQUESTS_PER_BUNDLE);
        assert_eq!(command[command.len() - 8..], words("k__rand_int__ 1 p w k__rand_int__ 1 p w"));
        for other in
            ["EVALSHA sha 1 a 1", "SET a b NX PX 1", "EVALSHA sha 0 a 1", "EVALSHA sha 0 m t s r h a 1 p w", "EVALSHA"]
        {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
