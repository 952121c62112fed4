//! Records the commands that one cycle sends to a node, with the Redis command MONITOR. The minimal client (the floor)
//! and redis-benchmark (the ceiling) send the same commands.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quorlock::Client;
use quorlock_testkit::RedisServer;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::worker::ours::cycle;

/// The name that is locked during the recording. The names that replace it have the same length.
const NAME: &str = "recorded/000000";
const NAME_START: &str = "recorded/";
const CYCLES: usize = 3;
const ATTEMPTS: usize = 20;
/// The time limit for all cycles of one recording. A slow node may miss a cycle.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The commands of an acquire and of its release, without the commands that a batch sends only once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    acquire: Vec<String>,
    release: Vec<String>,
    /// The value of the vote's key between the acquire and the release.
    value: String,
}

impl Recording {
    /// Records the commands on every node, because they contain the node's epoch.
    pub(crate) async fn take(servers: &[RedisServer], client: &Client, plain: bool) -> Result<Vec<Self>, Failure> {
        for _ in 0..ATTEMPTS {
            let mut monitors =
                servers.iter().map(|server| Monitor::open(server.addr())).collect::<Result<Vec<_>, _>>()?;
            for _ in 0..CYCLES {
                cycle(client, NAME, plain).await?;
            }
            let received = monitors.iter_mut().map(Self::read_reply).collect::<Result<Option<Vec<_>>, _>>()?;
            if let Some(recordings) = received {
                let verified = servers.iter().zip(recordings).map(|(server, recording)| recording.verified(server));
                return verified.collect();
            }
        }
        Err("no cycle consisted of one acquire and one release".into())
    }

    /// Returns the commands of the last cycle, because the first acquire of a name differs from later acquires. `None`
    /// if a cycle took a second round, or did not reach this node.
    fn read_reply(monitor: &mut Monitor) -> Result<Option<Self>, Failure> {
        let (mut commands, deadline) = (Vec::new(), Instant::now() + TIME_LIMIT);
        while commands.len() < 2 * CYCLES {
            let Some(command) = monitor.next_about(NAME, deadline)? else { return Ok(None) };
            commands.push(command);
        }
        let shape = |command: &Vec<String>| command.iter().take(2).cloned().collect::<Vec<_>>();
        let (Some(release), Some(acquire)) = (commands.pop(), commands.pop()) else {
            return Ok(None);
        };
        let pairs =
            commands.chunks(2).all(|pair| shape(&pair[0]) == shape(&acquire) && shape(&pair[1]) == shape(&release));
        Ok((pairs && shape(&acquire) != shape(&release)).then_some(Self { acquire, release, value: String::new() }))
    }

    /// Sends the recorded commands, and checks that they acquire and release.
    fn verified(mut self, server: &RedisServer) -> Result<Self, Failure> {
        let say = |words: &[String]| server.try_command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let vote = || server.try_command(&["GET", self.key()]);
        say(&self.acquire)?;
        let value = vote()?.as_str().map(str::to_owned);
        say(&self.release)?;
        let left = vote()?;
        match value {
            Some(value) if left.is_nil() => self.value = value,
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

    /// The acquire and the release of a caller, as bytes. The caller's name replaces the recorded name in every word.
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

    /// Like [`Recording::with_random_keys`], but with several requests in one command, as our library sends them under
    /// load. Only fenced acquires share a command, as in our library.
    pub(crate) fn with_random_keys_and_shared_commands(&self, shared_commands: &SharedCommands) -> [Command; 2] {
        let [acquire, release] = self.with_random_keys();
        // The votes have the value of this recording, so the releases must have this value, too.
        let releases = shared_commands
            .releases
            .as_ref()
            .map(|shared_command| shared_command.with_words_of_request(self.value()).with_random_keys(self.key()));
        let acquires =
            shared_commands.acquires.as_ref().map(|shared_command| shared_command.with_random_keys(self.key()));
        [acquires.unwrap_or(acquire), releases.unwrap_or(release)]
    }
}

/// A command for redis-benchmark, and the number of requests in it.
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    pub(crate) requests: usize,
}

fn with_random_number(key: &str) -> String {
    format!("{key}__rand_int__")
}

/// The commands that quorlock sends to one node when many callers send requests at once.
#[derive(Default)]
pub(crate) struct SharedCommands {
    acquires: Option<SharedCommand>,
    releases: Option<SharedCommand>,
}

/// A script call for several requests: the call, the words that all requests share, and the words of one request after
/// its key.
#[derive(Clone)]
struct SharedCommand {
    script: Vec<String>,
    shared: Vec<String>,
    per_request: Vec<String>,
}

/// The number of concurrent callers during the recording.
const CALLERS: usize = 64;
/// The number of requests in a command that is built from the recording.
const REQUESTS_PER_COMMAND: usize = 16;

impl SharedCommands {
    /// Records on every node.
    pub(crate) async fn take(servers: &[RedisServer], client: &Client, plain: bool) -> Result<Vec<Self>, Failure> {
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
            let read_reply = |monitor| Self::read_reply(monitor, plain);
            if let Some(shared_commands) = monitors.iter_mut().map(read_reply).collect::<Result<Option<Vec<_>>, _>>()? {
                return Ok(shared_commands);
            }
        }
        Err("no command had several requests".into())
    }

    /// Reads the first command of each kind. A plain acquire is one `SET`, which cannot contain several requests.
    fn read_reply(monitor: &mut Monitor, plain: bool) -> Result<Option<Self>, Failure> {
        let (mut received, deadline) = (Self::default(), Instant::now() + TIME_LIMIT);
        while received.releases.is_none() || received.acquires.is_none() && !plain {
            let Some(words) = monitor.next_about(NAME_START, deadline)? else { return Ok(None) };
            let Some((is_release, shared_command)) = SharedCommand::read(&words) else { continue };
            if is_release { &mut received.releases } else { &mut received.acquires }.get_or_insert(shared_command);
        }
        Ok(Some(received))
    }
}

impl SharedCommand {
    /// Parses a recorded command. After each key, a release has its attempt, and an acquire has three words. All
    /// acquires of a command share five words.
    fn read(words: &[String]) -> Option<(bool, Self)> {
        let (script, arguments) =
            words.split_at_checked(3).filter(|(script, _)| script[0] == "EVALSHA" && script[2] == "0")?;
        let is_release = arguments.len() % 2 == 0;
        let (shared, requests) = arguments.split_at_checked(if is_release { 0 } else { 5 })?;
        let each = if is_release { 2 } else { 4 };
        if requests.len() % each != 0 || requests.len() < each * 2 {
            return None;
        }
        Some((
            is_release,
            Self { script: script.to_vec(), shared: shared.to_vec(), per_request: requests[1..each].to_vec() },
        ))
    }

    /// The same command with another word after each key.
    fn with_words_of_request(&self, words_of_request: &str) -> Self {
        Self { per_request: vec![words_of_request.into()], ..self.clone() }
    }

    fn with_random_keys(&self, key: &str) -> Command {
        let mut words = [self.script.clone(), self.shared.clone()].concat();
        for _ in 0..REQUESTS_PER_COMMAND {
            words.push(with_random_number(key));
            words.extend(self.per_request.iter().cloned());
        }
        Command { words, requests: REQUESTS_PER_COMMAND }
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
        match monitor.line()?.trim() {
            "+OK" => Ok(monitor),
            other => Err(format!("no MONITOR: {other}").into()),
        }
    }

    /// The next command of a client that contains this name. `None` if no such command arrives before the deadline.
    /// Commands of scripts do not count. Other commands may contain text that is not plain, because a new connection
    /// loads scripts.
    fn next_about(&mut self, name: &str, deadline: Instant) -> Result<Option<Vec<String>>, Failure> {
        while Instant::now() < deadline {
            let line = match self.line() {
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

    fn line(&mut self) -> std::io::Result<String> {
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
    while let Some(begun) = rest.strip_prefix('"') {
        let mut word = String::new();
        let mut letters = begun.char_indices();
        loop {
            match letters.next().ok_or("a word without an end")? {
                (end, '"') => {
                    rest = begun[end + 1..].trim_start();
                    break;
                }
                (_, '\\') => match letters.next() {
                    Some((_, letter @ ('"' | '\\'))) => word.push(letter),
                    // Our library sends no bytes that MONITOR would escape like this.
                    _ => return Err("a word that is not plain text".into()),
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
    fn every_caller_has_keys_of_its_own() {
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
    fn a_command_with_several_requests_can_be_built_with_any_number_of_requests() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let read = |text: &str| SharedCommand::read(&words(text));
        let (is_release, shared_command) = read("EVALSHA sha 0 a 1 b 2").unwrap();
        let command = shared_command.with_random_keys("k");
        assert!(
            is_release
                && command.requests == REQUESTS_PER_COMMAND
                && command.words.len() == 3 + 2 * REQUESTS_PER_COMMAND
        );
        assert_eq!(command.words[..5], words("EVALSHA sha 0 k__rand_int__ 1"));
        let (is_release, shared_command) = read("EVALSHA sha 0 m t s r h a 1 p w b 2 p w").unwrap();
        let command = shared_command.with_random_keys("k").words;
        assert!(!is_release && command.len() == 3 + 5 + 4 * REQUESTS_PER_COMMAND);
        assert_eq!(command[command.len() - 8..], words("k__rand_int__ 1 p w k__rand_int__ 1 p w"));
        for other in
            ["EVALSHA sha 1 a 1", "SET a b NX PX 1", "EVALSHA sha 0 a 1", "EVALSHA sha 0 m t s r h a 1 p w", "EVALSHA"]
        {
            assert!(read(other).is_none(), "{other}");
        }
    }
}
