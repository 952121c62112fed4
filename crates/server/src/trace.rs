//! Every request has a number, a line in the log and a place in the metrics. Nothing that is in its body is in either.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::auth::Peer;
use crate::metrics::Call;
use crate::problem::{Code, word};
use crate::service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest number of a request that is taken over from the caller.
const REQUEST_ID_MAX: usize = 128;

/// Follows a request through the service. A call is known by its path in the document, not by that of the request, so
/// that names stay out of the log and the metrics.
pub(crate) async fn follow(
    State(service): State<Service>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let call = path.map_or(Call::OTHER, |path| Call::found(path.as_str()));
    let began = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        trace_id = Empty,
        parent_id = Empty,
        peer = request.extensions().get::<Peer>().map(|peer| tracing::field::display(peer.address())),
        caller = Empty,
        %method,
        call = call.as_str()
    );
    if let Some((trace, parent)) = request.headers().get("traceparent").and_then(|text| trace_of(text.to_str().ok()?)) {
        span.record("trace_id", trace).record("parent_id", parent);
    }
    let mut followed = Followed { service: &service, span: &span, began, is_answered: false };
    let mut response = next.run(request).instrument(span.clone()).await;
    followed.is_answered = true;
    response.headers_mut().insert(REQUEST_ID, id);
    let (status, code, took) =
        (response.status().as_u16(), response.extensions().get::<Code>().copied(), began.elapsed());
    service.metrics().answered(call, &method, status, code, took);
    span.in_scope(|| {
        tracing::info!(status, code = code.map(word), took_us = took.as_micros() as u64, "answered");
    });
    response
}

/// A request on its way. Dropped before it is answered, its caller is gone: that is told as well.
struct Followed<'a> {
    service: &'a Service,
    span: &'a Span,
    began: Instant,
    is_answered: bool,
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            hung_up(self.service, self.span, self.began);
        }
    }
}

/// Tells of a caller that did not wait for its answer, or for the end of its waiting.
pub(crate) fn hung_up(service: &Service, span: &Span, began: Instant) {
    service.metrics().hangups.inc();
    span.in_scope(|| tracing::info!(took_us = began.elapsed().as_micros() as u64, "hung up"));
}

/// The caller's own number, if it is one, and else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |id: &&HeaderValue| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=REQUEST_ID_MAX).contains(&id.len()) && id.as_bytes().iter().all(plain)
    };
    headers.get(REQUEST_ID).filter(is_plain).map_or_else(fresh_id, Clone::clone)
}

/// Sixteen hexadecimal digits.
fn fresh_id() -> HeaderValue {
    let bits = fastrand::u64(..);
    let digits: [u8; 16] = std::array::from_fn(|at| b"0123456789abcdef"[(bits >> (60 - 4 * at)) as usize & 15]);
    // Digits can stand in a header, whichever.
    HeaderValue::from_bytes(&digits).unwrap_or_else(|_| bits.into())
}

/// The trace and the caller's span, of a `traceparent` as W3C has it.
fn trace_of(text: &str) -> Option<(&str, &str)> {
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
    fn a_trace_is_read_as_it_is_written() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(trace_of(&good), Some((trace, "b7ad6b7169203331")));
        for wrong in
            ["", "00", &good[1..], &good.to_uppercase(), &good.replace('7', "x"), &good.replacen("00", "ff", 1)]
        {
            assert_eq!(trace_of(wrong), None, "{wrong}");
        }
        assert_eq!(trace_of(&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))), None);
    }

    #[test]
    fn a_number_that_is_none_is_replaced() {
        let number =
            |text: &'static str| request_id(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_static(text))]));
        assert_eq!(number("abc-1"), "abc-1");
        for none in ["a b", ""] {
            let fresh = number(none);
            let digits = fresh.to_str().unwrap();
            assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok(), "{none:?}: {digits}");
        }
    }
}
