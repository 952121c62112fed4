//! What is read from a request, with problems for whatever cannot be.

use std::error::Error;
use std::iter::successors;

use axum::body::to_bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use serde::de::{self, DeserializeOwned};
use serde_json::error::Category;

use crate::problem::{Code, Problem};
use crate::service::Service;

/// A body of JSON, within the limits.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Service> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !is_json(kind) {
            let detail = "the header content-type has to be application/json";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let limits = service.limits();
        let bytes_max = limits.body_bytes();
        let too_long = || Problem::new(Code::BodyTooLarge, format!("the body is longer than {bytes_max} bytes"));
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > bytes_max) {
            return Err(too_long());
        }
        let read = tokio::time::timeout(limits.read, to_bytes(request.into_body(), bytes_max)).await;
        let bytes = read
            .map_err(|_| Problem::new(Code::RequestTimeout, format!("no whole body within {:?}", limits.read)))?
            .map_err(|error| if is_too_long(&error) { too_long() } else { Problem::invalid("the body has no end") })?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::invalid(without_values::<T>(&bytes, &error)))
    }
}

/// Rather than broken, or broken off.
fn is_too_long(error: &axum::Error) -> bool {
    error.source().and_then(|source| source.downcast_ref::<LengthLimitError>()).is_some()
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// What is wrong with a body, without a word of what is in it: it names a place and a field, never a value, since there may
/// be a secret in it.
fn without_values<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> String {
    let place = format!("line {} column {}", error.line(), error.column());
    if error.classify() != Category::Data {
        return format!("the body at {place}: this is not JSON");
    }
    let text = error.to_string();
    let text = &text[..text.rfind(" at line").unwrap_or(text.len())];
    // Which field it is costs time to follow: only a body that cannot be read is read that way.
    let followed = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(body));
    let path = followed.err().map(|error| error.path().to_string()).unwrap_or_default();
    // The name of a field that there is not is in the message already.
    let unknown = text.strip_prefix("unknown field `").and_then(|text| text.split('`').next());
    let path = unknown.and_then(|unknown| path.strip_suffix(unknown)).unwrap_or(&path).trim_end_matches('.');
    let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
    if is_about_fields(text) {
        return format!("the body at {place}: {field}{text}");
    }
    let expected = text.rfind("expected ").map_or("", |at| &text[at + "expected ".len()..]);
    format!("the body at {place}: {field}a value of the wrong kind: expected {}", in_words(expected))
}

/// Whether a message of serde's is about the name of a field, and not about its value.
fn is_about_fields(text: &str) -> bool {
    ["missing field", "unknown field", "duplicate field"].iter().any(|what| text.starts_with(what))
}

/// What serde expects, for people who do not write Rust.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => WHOLE_NUMBER,
        "a sequence" => "a list",
        text if text.starts_with("struct ") => "an object",
        text => text,
    }
}

const WHOLE_NUMBER: &str = "a whole number, 0 or more";

/// What stands behind the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Service> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Service) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Problem::invalid(about_query(&error))),
        }
    }
}

/// What is wrong with a query.
fn about_query(error: &QueryRejection) -> String {
    let sources = successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    let mut known = sources.filter_map(|error| error.downcast_ref::<serde_path_to_error::Error<de::value::Error>>());
    let Some(error) = known.next() else { return "the query cannot be read".into() };
    let text = error.inner().to_string();
    if is_about_fields(&text) {
        return format!("the query: {}", text.replace(" field ", " parameter "));
    }
    // All others are texts, and any text is one.
    format!("the query: {}: expected {WHOLE_NUMBER}", error.path())
}

/// The name in the path.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<Service> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, service).await {
            Ok(Path(name)) => Ok(Self(name)),
            // Any other text may be one.
            Err(_) => Err(Problem::new(Code::InvalidName, "the name in the path is not UTF-8")),
        }
    }
}

#[cfg(test)]
mod tests;
