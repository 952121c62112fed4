//! A service, and somebody who calls it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use quorlock_testkit::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::common::User;

/// Longer than any test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// For a service and its nodes: leases, and the quarantine of a node, may last longer than any test, so that a busy
/// machine does not end them.
pub(crate) const LONG: [&str; 2] = ["--max-ttl", "1h"];
/// The longest of such leases.
pub(crate) const LONG_MS: u64 = 3_600_000;

/// A running `quorlock serve`.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) address: String,
    log: Arc<Mutex<String>>,
    agent: ureq::Agent,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn text(&self, field: &str) -> String {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {self:?}")).to_owned()
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.body[field].as_u64().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// That it is this problem.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["type"], format!("urn:quorlock:problem:{code}"));
        assert_eq!(self.body["status"], status);
        self
    }

    /// The lease, as renewals and releases name it.
    pub(crate) fn lease(&self) -> Value {
        json!({"name": self.text("name"), "lease_id": self.text("lease_id")})
    }
}

impl Service {
    /// On the user's own file.
    pub(crate) fn start(user: &User) -> Self {
        Self::with(user, &[])
    }

    pub(crate) fn with(user: &User, arguments: &[&str]) -> Self {
        let listens = arguments.contains(&"--listen");
        let listen: &[&str] = if listens { &[] } else { &["--listen", "127.0.0.1:0"] };
        Self::of(user.quorlock(&[&["serve"], listen, arguments].concat()))
    }

    /// One that may have so many files open.
    pub(crate) fn with_files(user: &User, files: usize, arguments: &[&str]) -> Self {
        let served = user.quorlock(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
        command.arg(served.get_program()).args(served.get_args());
        for (name, value) in served.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::of(command)
    }

    /// One whose log nobody reads but the test.
    pub(crate) fn unread(user: &User, arguments: &[&str]) -> (Self, ChildStderr) {
        let command = user.quorlock(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        Self::begin(command)
    }

    fn of(command: Command) -> Self {
        let (service, stderr) = Self::begin(command);
        let kept = Arc::clone(&service.log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        service
    }

    fn begin(mut command: Command) -> (Self, ChildStderr) {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serving on ").unwrap_or_else(|| {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            panic!("it says {line:?}: {log}");
        });
        (Self { address: address.to_owned(), child, log: Arc::default(), agent: agent(None) }, stderr)
    }

    /// The host and the port.
    pub(crate) fn socket(&self) -> &str {
        self.address.split_once("://").unwrap().1
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        patiently(|| self.get_once(path))
    }

    /// Without a second try where the nodes of a busy machine were late.
    pub(crate) fn get_once(&self, path: &str) -> Answer {
        answer(self.agent.get(self.url(path)).call())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        patiently(|| self.post_once(path, body))
    }

    pub(crate) fn post_once(&self, path: &str, body: &Value) -> Answer {
        answer(self.agent.post(self.url(path)).send_json(body))
    }

    pub(crate) fn get_as(&self, token: &str, path: &str) -> Answer {
        patiently(|| answer(self.agent.get(self.url(path)).header("authorization", format!("Bearer {token}")).call()))
    }

    pub(crate) fn post_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        patiently(|| {
            let request = self.agent.post(self.url(path)).header("authorization", format!("Bearer {token}"));
            answer(request.send_json(body))
        })
    }

    pub(crate) fn lock(&self, body: &Value) -> Answer {
        self.post("/v1/leases", body)
    }

    #[track_caller]
    pub(crate) fn release(&self, granted: &Answer) {
        self.post("/v1/leases/release", &granted.lease()).expect(204);
    }

    /// How a name stands now, and not a moment ago.
    pub(crate) fn status(&self, name: &str) -> Value {
        self.get_fresh(&format!("/v1/locks/{name}"))
    }

    /// What the nodes say when they are read after this was called.
    pub(crate) fn get_fresh(&self, path: &str) -> Value {
        let asked = unix_millis();
        let mut told = Value::Null;
        eventually("the nodes are read", || {
            told = self.get_once(path).body;
            told["as_of"].as_u64().is_some_and(|as_of| as_of >= asked)
        });
        told
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// A stream that tells how the waiting for a lock goes.
    pub(crate) fn wait(&self, body: &Value) -> Events {
        let request = agent(None).post(self.url("/v1/leases")).header("accept", "text/event-stream");
        Events::new(request.send_json(body).unwrap())
    }

    /// The stream of what changes.
    pub(crate) fn follow(&self, last: Option<&str>) -> Events {
        let request = agent(None).get(self.url("/v1/events"));
        let request = if let Some(last) = last { request.header("last-event-id", last) } else { request };
        Events::new(request.call().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        crate::common::signal(self.child.id(), name);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// As callers do: whoever is told that the nodes were late asks again.
pub(crate) fn patiently(mut ask: impl FnMut() -> Answer) -> Answer {
    let mut told = ask();
    let is_late = |told: &Answer| ["no-quorum", "too-slow"].iter().any(|code| told.body["code"] == *code);
    eventually("the nodes are in time", || {
        if is_late(&told) {
            told = ask();
        }
        !is_late(&told)
    });
    told
}

/// Servers that are one cluster and may vote, and their URLs as `--nodes` takes them.
pub(crate) fn cluster(user: &User, size: usize) -> (Vec<RedisServer>, String) {
    cluster_with(user, size, &[])
}

/// The same with other constants.
pub(crate) fn cluster_with(user: &User, size: usize, constants: &[&str]) -> (Vec<RedisServer>, String) {
    let servers = RedisServer::start_many(size);
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    let init = || user.run(&[&["nodes", "init", "--yes", "--nodes", &nodes], constants].concat()).status.success();
    eventually("all of them can be used", init);
    (servers, nodes)
}

pub(crate) fn agent(tls: Option<ureq::tls::TlsConfig>) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    let config = if let Some(tls) = tls { config.tls_config(tls) } else { config };
    config.build().into()
}

pub(crate) fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = response.unwrap();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    let text = response.body_mut().with_config().limit(100_000_000).read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status: response.status().as_u16(), kind, body }
}

/// Events as they come. Dropped, the connection is closed.
pub(crate) struct Events {
    lines: BufReader<Box<dyn Read + Send>>,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) what: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Events {
    pub(crate) fn new(response: ureq::http::Response<ureq::Body>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { lines: BufReader::new(Box::new(response.into_body().into_reader())) }
    }

    /// The next event; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event { what: String::new(), id: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", what)) => what.clone_into(&mut event.what),
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if line.trim().is_empty() && !event.what.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// The next event of this kind.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str) -> Event {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("the stream ended before {what:?}"));
            if event.what == what {
                return event;
            }
        }
    }
}
