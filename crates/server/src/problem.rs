//! What went wrong, as RFC 9457 has it, under the same names as the library's errors.

mod from;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorlock::{Holder, NodeVote, Quorum, Tally};
use serde::Serialize;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::view::{NodesView, millis};

/// When to ask again, unless something better is known.
const PAUSE: Duration = Duration::from_secs(1);

/// What a node that has not voted is said to be.
const QUARANTINED: &str = "quarantined";
const SILENT: &str = "silent";

/// Which problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Code {
    /// Somebody else holds the lock.
    LockHeld,
    /// Somebody else held it for as long as the caller wanted to wait.
    WaitTimeout,
    /// The lease is over, and stays so.
    LeaseLost,
    /// This is no lease of that name.
    NotHolder,
    /// Nobody holds the lock.
    NotHeld,
    /// Another lease stands than the one that was meant.
    OtherLease,
    /// The key was released: it is of no more use.
    KeySpent,
    /// The semaphore is in use with another number of slots.
    SlotsMismatch,
    /// The caller reads what it wants to write.
    Upgrade,
    /// Too few nodes voted: the others did not answer, or may not vote yet.
    NoQuorum,
    /// A majority granted, but too late for the lease to be of use.
    TooSlow,
    /// The name cannot be one.
    InvalidName,
    /// The ttl is out of bounds.
    TtlOutOfRange,
    /// The request cannot be understood.
    InvalidRequest,
    /// The body is longer than allowed.
    BodyTooLarge,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The body is not said to be JSON.
    UnsupportedMediaType,
    /// There is no such call.
    NotFound,
    /// There is such a call, with another method.
    MethodNotAllowed,
    /// Who asks is not known.
    Unauthenticated,
    /// Who asks may not do this.
    Forbidden,
    /// Too many requests, or too many waiters.
    RateLimited,
    /// The service is about to stop.
    Draining,
    /// A mistake of the service.
    Internal,
}

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::InvalidName | Self::TtlOutOfRange | Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::NotHolder => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::LockHeld
            | Self::WaitTimeout
            | Self::NotHeld
            | Self::OtherLease
            | Self::SlotsMismatch
            | Self::Upgrade => StatusCode::CONFLICT,
            Self::LeaseLost | Self::KeySpent => StatusCode::GONE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoQuorum | Self::TooSlow | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Whether the same request may well be answered otherwise in a moment.
    fn is_passing(self) -> bool {
        matches!(self.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }

    fn title(self) -> &'static str {
        match self {
            Self::LockHeld => "The lock is held",
            Self::WaitTimeout => "The lock was not to be had for as long as it was waited for",
            Self::LeaseLost => "The lease is lost",
            Self::NotHolder => "This is no lease of that name",
            Self::NotHeld => "Nobody holds the lock",
            Self::OtherLease => "Another lease stands",
            Self::KeySpent => "The key was released",
            Self::SlotsMismatch => "It is in use with another number of slots",
            Self::Upgrade => "The owner reads what it wants to write",
            Self::NoQuorum => "Too few nodes voted",
            Self::TooSlow => "A majority granted too late",
            Self::InvalidName => "The name cannot be one",
            Self::TtlOutOfRange => "The ttl is out of bounds",
            Self::InvalidRequest => "The request cannot be understood",
            Self::BodyTooLarge => "The body is too long",
            Self::RequestTimeout => "The request did not arrive in time",
            Self::UnsupportedMediaType => "The body is not said to be JSON",
            Self::NotFound => "There is no such call",
            Self::MethodNotAllowed => "The call has another method",
            Self::Unauthenticated => "Who asks is not known",
            Self::Forbidden => "Who asks may not do this",
            Self::RateLimited => "Too many requests",
            Self::Draining => "The service is about to stop",
            Self::Internal => "A mistake of the service",
        }
    }
}

/// What went wrong. Small, since every call may come to one.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<Account>);

/// What went wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Account {
    /// `urn:quorlock:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// The code in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// This case in words, with its numbers.
    detail: String,
    /// Which problem it is.
    code: Code,
    /// Who holds the lock, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<quorlock::HolderView>,
    /// How long that lease lasts at most, unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// The highest fence that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// Who said what, node by node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeAnswer>,
    /// When it makes sense to ask again: where too few nodes vote because of quarantines, when enough of them have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// What one node said.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NodeAnswer {
    /// The node, without secrets.
    node: String,
    /// `granted`, `refused`, `quarantined` (it lost its memory, and may not vote yet) or `silent`.
    vote: &'static str,
    /// In words.
    why: String,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Account {
            kind: format!("urn:quorlock:problem:{}", word(code)),
            title: code.title(),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
            holder: None,
            remaining_ms: None,
            fence: None,
            nodes: Vec::new(),
            retry_after_ms: code.is_passing().then_some(millis(PAUSE)),
        }))
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, detail)
    }

    /// With where in the request it is.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.detail = format!("{place}: {}", self.0.detail);
        self
    }

    pub(crate) fn draining() -> Self {
        Self::new(Code::Draining, "this replica is about to stop: ask another, or again")
    }

    /// Nothing can be locked: too few nodes vote.
    pub(crate) fn no_majority(nodes: &NodesView) -> Self {
        let detail = format!("{} of {} nodes vote", nodes.voting, nodes.nodes.len());
        let mut problem = Self::new(Code::NoQuorum, detail);
        let others = nodes.nodes.iter().filter_map(|node| {
            let why = node.trouble.clone()?;
            let vote = if node.quarantine_ms.is_some() { QUARANTINED } else { SILENT };
            Some(NodeAnswer { node: node.node.clone(), vote, why })
        });
        problem.0.nodes = others.collect();
        let left = nodes.nodes.iter().filter_map(|node| node.quarantine_ms).map(Duration::from_millis);
        problem.not_before(Quorum::quarantine_left(nodes.nodes.len(), nodes.voting, left.collect()))
    }

    /// It makes no sense to ask before this, if it is known.
    fn not_before(self, pause: Option<Duration>) -> Self {
        match pause {
            Some(pause) => self.retry_after(pause.max(PAUSE)),
            None => self,
        }
    }

    pub(crate) fn retry_after(mut self, pause: Duration) -> Self {
        self.0.retry_after_ms = Some(millis(pause));
        self
    }

    /// As the whole answer to a request that is not read.
    pub(crate) fn to_http(&self) -> Vec<u8> {
        // A string and numbers can always be written down.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n",
            self.0.code.status(),
            body.len()
        );
        [head.as_bytes(), &body].concat()
    }

    fn with_holder(mut self, holder: Option<&Holder>) -> Self {
        self.0.holder = holder.map(quorlock::HolderView::from);
        self
    }

    fn with_nodes(mut self, tally: &Tally) -> Self {
        let nodes = tally.by_node().map(|(node, vote)| NodeAnswer {
            node: node.to_owned(),
            vote: match vote {
                NodeVote::Granted => "granted",
                NodeVote::Refused(_) => "refused",
                NodeVote::Silent(why) if why.quarantine_left().is_some() => QUARANTINED,
                NodeVote::Silent(_) => SILENT,
            },
            why: vote.to_string(),
        });
        self.0.nodes = nodes.collect();
        self
    }
}

/// The code as it is written.
pub(crate) fn word(code: Code) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// What a problem's body is called.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // A string and numbers can always be written down.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let Account { code, retry_after_ms, .. } = *self.0;
        let mut response = (code.status(), [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        let headers = response.headers_mut();
        if let Some(pause) = retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(pause.div_ceil(1_000).max(1)));
        }
        if code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(code);
        response
    }
}

/// What a call may answer instead of what it is for, in words.
const STATUSES: [(u16, &str); 12] = [
    (400, "The request cannot be understood, or asks for what cannot be"),
    (401, "Who asks is not known"),
    (403, "Who asks may not do this, or has no lease of that name"),
    (404, "There is no such call: a name of dots alone is taken for a path"),
    (408, "The request did not arrive in time"),
    (409, "Somebody else's lease stands in the way"),
    (410, "The lease is lost, or the key was released"),
    (413, "The body is too long"),
    (415, "The body is not said to be JSON"),
    (429, "Too many requests"),
    (500, "A mistake of the service"),
    (503, "Too few nodes voted, or the service is about to stop"),
];

fn responses(statuses: &[u16]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
    let schema = || Ref::from_schema_name(Account::name());
    let response = |about: &str| {
        let content = ContentBuilder::new().schema(Some(schema())).build();
        ResponseBuilder::new().description(about).content(PROBLEM_JSON, content).build()
    };
    let described = STATUSES.into_iter().filter(|(status, _)| statuses.contains(status));
    described.map(|(status, about)| (status.to_string(), response(about).into())).collect()
}

/// Of a call with a body.
impl IntoResponses for Problem {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        responses(&[400, 401, 403, 404, 408, 409, 410, 413, 415, 429, 500, 503])
    }
}

/// The problems of a call that only looks.
pub(crate) struct Unseen;

impl IntoResponses for Unseen {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        responses(&[400, 401, 403, 404, 429, 500, 503])
    }
}

/// The only problem of whether a replica can be used.
pub(crate) struct NotReady;

impl IntoResponses for NotReady {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        responses(&[503])
    }
}
