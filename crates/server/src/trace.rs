//! Gives every request an id, logs the request, and counts it in the metrics. Nothing from the body of the request is
//! logged or counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::auth::Peer;
use crate::problem::{Code, code_text};
use crate::service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is accepted from the caller.
const REQUEST_ID_MAX: usize = 128;

/// Logs and counts a request. The log and the metrics contain the path template of the call, and not the path, so that
/// they contain no names of locks.
pub(crate) async fn trace_request(
    State(service): State<Arc<Service>>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let call = path.as_ref().map_or("other", MatchedPath::as_str);
    let id = request_id(request.headers());
    let method = request.method().clone();
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        trace_id = Empty,
        parent_id = Empty,
        peer = request.extensions().get::<Arc<Peer>>().map(|peer| tracing::field::display(peer.address)),
        caller = Empty,
        %method,
        call
    );
    let traceparent = request.headers().get("traceparent").and_then(|text| text.to_str().ok());
    if let Some((trace, parent)) = traceparent.and_then(parse_traceparent) {
        span.record("trace_id", trace).record("parent_id", parent);
    }
    let unanswered = UnansweredRequest::new(&service, span.clone());
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    let (status, code) = (response.status().as_u16(), response.extensions().get::<Code>().copied());
    let took = unanswered.log_answer(|took_us| tracing::info!(status, code = code.map(code_text), took_us, "answered"));
    service.metrics.count_answer(call, &method, status, code, took);
    response
}

/// A request that was not answered yet. If this value is dropped, the caller has hung up, and the hang-up is logged and
/// counted.
pub(crate) struct UnansweredRequest {
    service: Arc<Service>,
    span: Span,
    began: Instant,
    is_answered: bool,
}

impl UnansweredRequest {
    pub(crate) fn new(service: &Arc<Service>, span: Span) -> Self {
        Self { service: Arc::clone(service), span, began: Instant::now(), is_answered: false }
    }

    /// Logs the answer with `log`, which gets the time since the request began in microseconds. Returns this time.
    pub(crate) fn log_answer(mut self, log: impl FnOnce(u64)) -> Duration {
        self.is_answered = true;
        let took = self.began.elapsed();
        self.span.in_scope(|| log(took.as_micros() as u64));
        took
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.service.metrics.hangups.inc();
            self.span.in_scope(|| tracing::info!(took_us = self.began.elapsed().as_micros() as u64, "hung up"));
        }
    }
}

/// Returns the request id that the caller sent if it is valid, or else a new request id.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_valid = |id: &&HeaderValue| {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=REQUEST_ID_MAX).contains(&id.len()) && id.as_bytes().iter().all(is_allowed)
    };
    headers.get(REQUEST_ID).filter(is_valid).map_or_else(random_id, Clone::clone)
}

/// Returns sixteen random hexadecimal digits.
fn random_id() -> HeaderValue {
    let bits = fastrand::u64(..);
    HeaderValue::from_str(&format!("{bits:016x}")).unwrap_or_else(|_| bits.into())
}

/// Returns the trace id and the parent span id of a W3C `traceparent`.
fn parse_traceparent(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_known = is_hex(version, 2) && version != "ff" && is_hex(flags, 2);
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    (is_known && is_hex(trace, 32) && is_hex(parent, 16) && is_set(trace) && is_set(parent)).then_some((trace, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_parsed() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(parse_traceparent(&good), Some((trace, "b7ad6b7169203331")));
        for wrong in
            ["", "00", &good[1..], &good.to_uppercase(), &good.replace('7', "x"), &good.replacen("00", "ff", 1)]
        {
            assert_eq!(parse_traceparent(wrong), None, "{wrong}");
        }
        assert_eq!(parse_traceparent(&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))), None);
    }

    #[test]
    fn an_invalid_request_id_is_replaced() {
        let id_for =
            |text: &'static str| request_id(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_static(text))]));
        assert_eq!(id_for("abc-1"), "abc-1");
        for invalid in ["a b", ""] {
            let new = id_for(invalid);
            let digits = new.to_str().unwrap();
            assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok(), "{invalid:?}: {digits}");
        }
    }
}
