//! An HTTP client for tests of the service.

#![expect(clippy::return_self_not_must_use, reason = "assertions return the answer")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use ureq::tls::TlsConfig;

use crate::eventually;

/// The timeout of a request. It is longer than any test waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum size of an answer.
const BODY_BYTES_MAX: u64 = 100_000_000;

/// A caller of one service.
#[derive(Debug)]
pub struct Caller {
    /// The service's URL, without a path.
    pub address: String,
    agent: ureq::Agent,
}

impl Caller {
    /// Creates a caller of the service at this URL.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), agent: agent(None) }
    }

    /// The host and the port.
    pub fn host_and_port(&self) -> &str {
        self.address.split_once("://").expect("an address has a scheme").1
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Requests a lock, and returns the connection without reading the answer. Dropping the connection ends the request.
    pub fn lock_without_answer(&self, body: &Value) -> TcpStream {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.host_and_port()).expect("the service listens");
        let head = "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{body}", body.len()).expect("the service takes a request");
        stream
    }

    /// Gets a path. Repeats the request as [`retry_while_nodes_are_late`] does.
    pub fn get(&self, path: &str) -> Answer {
        retry_while_nodes_are_late(|| self.get_once(path))
    }

    /// Gets a path, without repeating the request.
    pub fn get_once(&self, path: &str) -> Answer {
        answer(self.agent.get(self.url(path)).call())
    }

    /// Posts a body. Repeats the request as [`retry_while_nodes_are_late`] does.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        retry_while_nodes_are_late(|| self.post_once(path, body))
    }

    /// Posts a body, without repeating the request.
    pub fn post_once(&self, path: &str, body: &Value) -> Answer {
        answer(self.agent.post(self.url(path)).send_json(body))
    }

    /// [`get`](Self::get) with a bearer token.
    pub fn get_as(&self, token: &str, path: &str) -> Answer {
        retry_while_nodes_are_late(|| {
            answer(self.agent.get(self.url(path)).header("authorization", format!("Bearer {token}")).call())
        })
    }

    /// [`post`](Self::post) with a bearer token.
    pub fn post_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        retry_while_nodes_are_late(|| {
            let request = self.agent.post(self.url(path)).header("authorization", format!("Bearer {token}"));
            answer(request.send_json(body))
        })
    }

    /// Requests a lease.
    pub fn lock(&self, body: &Value) -> Answer {
        self.post("/v1/leases", body)
    }

    /// Releases a lease.
    #[track_caller]
    pub fn release(&self, granted: &Answer) {
        self.post("/v1/leases/release", &granted.lease()).expect(204);
    }

    /// The state of a lock, which the service read from the nodes after this call began.
    pub fn status(&self, name: &str) -> Value {
        self.get_fresh(&format!("/v1/locks/{name}"))
    }

    /// The body of an answer whose data the service read from the nodes after this call began.
    pub fn get_fresh(&self, path: &str) -> Value {
        let called_at = unix_millis();
        let mut body = Value::Null;
        eventually("the service to read the nodes", || {
            body = self.get_once(path).body;
            body["as_of"].as_u64().is_some_and(|as_of| as_of >= called_at)
        });
        body
    }

    /// Waits for a lock. The answer is a stream of events.
    pub fn wait(&self, body: &Value) -> Events {
        let request = agent(None).post(self.url("/v1/leases")).header("accept", "text/event-stream");
        Events::new(request.send_json(body).expect("the service answers"))
    }

    /// Follows all changes, from the event after the one with the id `last` on, or from now on.
    pub fn follow(&self, last: Option<&str>) -> Events {
        let request = agent(None).get(self.url("/v1/events"));
        let request = if let Some(last) = last { request.header("last-event-id", last) } else { request };
        Events::new(request.call().expect("the service answers"))
    }
}

/// An answer of the service.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The content type.
    pub content_type: String,
    /// The body. If it is not JSON, a string with its text.
    pub body: Value,
}

impl Answer {
    /// A field that is a string.
    pub fn text(&self, field: &str) -> String {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {self:?}")).to_owned()
    }

    /// A field that is a number.
    pub fn number(&self, field: &str) -> u64 {
        self.body[field].as_u64().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }

    /// Asserts the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Asserts that the answer is the problem with this code.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.content_type, "application/problem+json");
        assert_eq!(self.body["type"], format!("urn:quorlock:problem:{code}"));
        assert_eq!(self.body["status"], status);
        self
    }

    /// The granted lease, as the body of a renewal or a release.
    pub fn lease(&self) -> Value {
        json!({"name": self.text("name"), "lease_id": self.text("lease_id")})
    }
}

/// Sends a request, and repeats it while the answer is that the nodes did not reply in time, because a test may run on a
/// busy machine.
pub fn retry_while_nodes_are_late(mut send: impl FnMut() -> Answer) -> Answer {
    let mut latest = send();
    let is_late = |answer: &Answer| ["no-quorum", "too-slow"].iter().any(|code| answer.body["code"] == *code);
    eventually("the nodes to reply in time", || {
        if is_late(&latest) {
            latest = send();
        }
        !is_late(&latest)
    });
    latest
}

/// An HTTP client with its own connections.
pub fn agent(tls: Option<TlsConfig>) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(REQUEST_TIMEOUT));
    let config = if let Some(tls) = tls { config.tls_config(tls) } else { config };
    config.build().into()
}

/// Reads a response to its end.
pub fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = response.expect("the service answers");
    let content_type =
        response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_string();
    let text = body.expect("the body is complete and is text");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status: response.status().as_u16(), content_type, body }
}

/// A stream of server-sent events. Dropping this closes the connection.
pub struct Events {
    lines: BufReader<Box<dyn Read + Send>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

/// One server-sent event.
#[derive(Debug)]
pub struct Event {
    /// The name of the event.
    pub name: String,
    /// The id of the event, or an empty string.
    pub id: String,
    /// The data of the event.
    pub data: Value,
}

impl Events {
    /// The events of a response.
    pub fn new(response: ureq::http::Response<ureq::Body>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { lines: BufReader::new(Box::new(response.into_body().into_reader())) }
    }

    /// The next event. `None` at the end of the stream.
    #[expect(clippy::should_implement_trait, reason = "a test reads them one by one")]
    pub fn next(&mut self) -> Option<Event> {
        let mut event = Event { name: String::new(), id: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", data)) => event.data = serde_json::from_str(data).expect("data is JSON"),
                _ if line.trim().is_empty() && !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// The next event with this name. Skips other events.
    #[track_caller]
    pub fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("the stream ended before {name:?}"));
            if event.name == name {
                return event;
            }
        }
    }
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the time is after 1970");
    u64::try_from(now.as_millis()).expect("the time fits into 64 bits")
}
