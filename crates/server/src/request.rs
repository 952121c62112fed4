//! What is read from a request, with problems for whatever cannot be.

use std::error::Error;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;

use crate::problem::{Code, Problem};
use crate::service::Service;

/// A body of JSON, within the limits.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Service> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !is_json(kind) {
            return Err(Problem::new(Code::UnsupportedMediaType, "the body has to be application/json"));
        }
        let limits = service.limits();
        let too_long = || {
            let detail = format!("the body is longer than {} bytes", limits.body_bytes);
            Problem::new(Code::BodyTooLarge, detail)
        };
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > limits.body_bytes) {
            return Err(too_long());
        }
        let read = tokio::time::timeout(limits.read, to_bytes(request.into_body(), limits.body_bytes)).await;
        let bytes = read
            .map_err(|_| Problem::new(Code::RequestTimeout, format!("no whole body within {:?}", limits.read)))?
            .map_err(|error| if is_too_long(&error) { too_long() } else { Problem::invalid("the body has no end") })?;
        // The message names a place and a field, never a value: there may be a secret in it.
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::invalid(without_values(&error)))
    }
}

/// Rather than broken, or broken off.
fn is_too_long(error: &axum::Error) -> bool {
    error.source().and_then(|source| source.downcast_ref::<LengthLimitError>()).is_some()
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// What is wrong with a body, without a word of what is in it.
fn without_values(error: &serde_json::Error) -> String {
    let place = format!("line {} column {}", error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Data => {
            let text = error.to_string();
            let shown = ["missing field", "unknown field", "duplicate field"];
            let end = text.rfind(" at line").unwrap_or(text.len());
            if shown.iter().any(|what| text.starts_with(what)) {
                format!("the body at {place}: {}", &text[..end])
            } else {
                let expected = text[..end].rfind("expected").map_or("", |at| &text[at..end]);
                format!("the body at {place}: a value of the wrong kind: {expected}")
            }
        }
        _ => format!("the body at {place}: this is not JSON"),
    }
}

/// What stands behind the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Service> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Service) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Problem::invalid(error.body_text())),
        }
    }
}

/// The name in the path.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<Service> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, service).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(error) => Err(Problem::new(Code::InvalidName, error.body_text())),
        }
    }
}
