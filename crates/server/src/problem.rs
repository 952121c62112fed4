//! Problem details (RFC 9457), with the same codes as the library's errors.

mod from;

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorlock::{Holder, NodeVote, Quorum, Tally};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::view::{NodesView, millis};

/// The shortest pause before a retry.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The vote of a quarantined node.
const QUARANTINED: &str = "quarantined";
/// The vote of a node that did not answer and is not known to be quarantined.
const SILENT: &str = "silent";

/// Defines the codes of problems. Each code has a status and a title.
macro_rules! codes {
    ($($code:ident $status:ident $title:literal)*) => {
        /// The code of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum Code {
            $(#[doc = $title] $code),*
        }

        const CODES: &[(Code, StatusCode, &str)] = &[$((Code::$code, StatusCode::$status, $title)),*];
    };
}

codes! {
    LockHeld CONFLICT "The lock is held"
    WaitTimeout CONFLICT "Timed out waiting for the lock"
    LeaseLost GONE "The lease is lost"
    NotHolder FORBIDDEN "The lease id does not belong to this name"
    NotHeld CONFLICT "Nobody holds the lock"
    OtherLease CONFLICT "Another lease holds the lock"
    KeySpent GONE "The key was released"
    SlotsMismatch CONFLICT "The lock is in use with another number of slots"
    Upgrade CONFLICT "The owner holds the lock shared, and cannot get it exclusively"
    NoQuorum SERVICE_UNAVAILABLE "Too few nodes voted"
    TooSlow SERVICE_UNAVAILABLE "A majority granted too late"
    InvalidName BAD_REQUEST "Invalid lock name"
    TtlOutOfRange BAD_REQUEST "The ttl is out of range"
    InvalidRequest BAD_REQUEST "Invalid request"
    BodyTooLarge PAYLOAD_TOO_LARGE "The body is too long"
    RequestTimeout REQUEST_TIMEOUT "Timed out reading the request"
    UnsupportedMediaType UNSUPPORTED_MEDIA_TYPE "Content-Type must be application/json"
    NotFound NOT_FOUND "No call has this path"
    MethodNotAllowed METHOD_NOT_ALLOWED "The path does not support this method"
    Unauthenticated UNAUTHORIZED "Authentication failed"
    Forbidden FORBIDDEN "The caller does not have the permission"
    RateLimited TOO_MANY_REQUESTS "Too many requests"
    Draining SERVICE_UNAVAILABLE "The service is about to stop"
    Internal INTERNAL_SERVER_ERROR "Internal error"
}

impl Code {
    /// Returns the status and the title.
    fn describe(self) -> (StatusCode, &'static str) {
        let row = CODES.iter().find(|(code, ..)| *code == self);
        row.map_or((StatusCode::INTERNAL_SERVER_ERROR, ""), |(_, status, title)| (*status, title))
    }
}

/// A problem. The details are boxed, so that a `Result` stays small.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<ProblemDetails>);

/// The details of a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDetails {
    /// `urn:quorlock:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// The meaning of the code.
    title: &'static str,
    /// The HTTP status of the answer.
    status: u16,
    /// The description of this occurrence of the problem.
    detail: String,
    /// The code of the problem.
    code: Code,
    /// The holder of the lock, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<quorlock::HolderView>,
    /// The time until the lease of the holder ends, unless the holder renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// The highest fence that a node reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// The vote of each node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeAnswer>,
    /// The pause before a retry. If too few nodes vote because of quarantines, the time until enough quarantines have
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The vote of one node.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NodeAnswer {
    /// The URL of the node, without secrets.
    node: String,
    /// `granted`, `refused`, `quarantined` (the node lost its memory, and may not vote yet) or `silent`.
    vote: &'static str,
    /// The description of the vote.
    why: String,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let (status, title) = code.describe();
        let is_temporary = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        Self(Box::new(ProblemDetails {
            kind: format!("urn:quorlock:problem:{}", code_text(code)),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            code,
            holder: None,
            remaining_ms: None,
            fence: None,
            nodes: Vec::new(),
            retry_after_ms: is_temporary.then_some(millis(RETRY_PAUSE_MIN)),
        }))
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, detail)
    }

    /// Adds a prefix to the detail.
    pub(crate) fn with_prefix(mut self, prefix: impl fmt::Display) -> Self {
        self.0.detail = format!("{prefix}: {}", self.0.detail);
        self
    }

    pub(crate) fn draining() -> Self {
        Self::new(Code::Draining, "this replica is about to stop: send the request to another replica, or retry later")
    }

    /// Returns the problem for a cluster in which too few nodes can vote.
    pub(crate) fn no_majority(nodes: &NodesView) -> Self {
        let detail = format!("{} of {} nodes can vote", nodes.voting, nodes.nodes.len());
        let mut problem = Self::new(Code::NoQuorum, detail);
        let without_vote = nodes.nodes.iter().filter_map(|node| {
            let why = node.trouble.clone()?;
            let vote = if node.quarantine_ms.is_some() { QUARANTINED } else { SILENT };
            Some(NodeAnswer { node: node.node.clone(), vote, why })
        });
        problem.0.nodes = without_vote.collect();
        let quarantines = nodes.nodes.iter().filter_map(|node| node.quarantine_ms).map(Duration::from_millis);
        problem.retry_not_before(Quorum::quarantine_left(nodes.nodes.len(), nodes.voting, quarantines.collect()))
    }

    /// Sets the pause before a retry. Changes nothing if `pause` is `None`: nobody knows when a retry may succeed.
    fn retry_not_before(self, pause: Option<Duration>) -> Self {
        match pause {
            Some(pause) => self.retry_after(pause.max(RETRY_PAUSE_MIN)),
            None => self,
        }
    }

    pub(crate) fn retry_after(mut self, pause: Duration) -> Self {
        self.0.retry_after_ms = Some(millis(pause));
        self
    }

    /// Returns a complete HTTP response, for a connection whose request is not read.
    pub(crate) fn to_http(&self) -> Vec<u8> {
        // Strings and numbers can always be serialized.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n",
            self.0.code.describe().0,
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

/// Returns the code as it is written in JSON.
pub(crate) fn code_text(code: Code) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// The content type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Strings and numbers can always be serialized.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let ProblemDetails { code, retry_after_ms, .. } = *self.0;
        let mut response = (code.describe().0, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
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

/// Returns the responses with these statuses, for the `OpenAPI` document.
pub(crate) fn responses(statuses: &[u16]) -> impl Iterator<Item = (String, RefOr<utoipa::openapi::Response>)> {
    statuses.iter().map(|status| {
        let titles = CODES.iter().filter(|(_, known, _)| known == status).map(|(_, _, title)| *title);
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemDetails::name()))).build();
        let response = ResponseBuilder::new().description(titles.collect::<Vec<_>>().join("; "));
        (status.to_string(), response.content(PROBLEM_JSON, content).build().into())
    })
}
