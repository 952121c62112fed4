//! Extractors for the parts of a request, which return a problem if a part is invalid.

use std::error::Error;
use std::iter::successors;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request};
use serde::de::{self, DeserializeOwned};

use crate::problem::{Code, Problem};
use crate::service::Service;

/// The parameters of a query.
pub(crate) type Params<T> = Result<Query<T>, QueryRejection>;
/// The name of a lock in a path.
pub(crate) type Name = Result<Path<String>, PathRejection>;

/// A JSON body, within the limits.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Service>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        let limits = service.limits;
        match tokio::time::timeout(limits.read_timeout, Json::from_request(request, service)).await {
            Ok(Ok(Json(body))) => Ok(Self(body)),
            Ok(Err(JsonRejection::MissingJsonContentType(_))) => {
                let detail = "the header content-type has to be application/json";
                Err(Problem::new(Code::UnsupportedMediaType, detail))
            }
            Ok(Err(JsonRejection::BytesRejection(BytesRejection::FailedToBufferBody(
                FailedToBufferBody::LengthLimitError(_),
            )))) => {
                Err(Problem::new(Code::BodyTooLarge, format!("the body is longer than {} bytes", limits.body_bytes())))
            }
            Ok(Err(JsonRejection::BytesRejection(_))) => Err(Problem::invalid("the body has no end")),
            Ok(Err(error)) => Err(Problem::invalid(about_body(&error))),
            Err(_) => {
                Err(Problem::new(Code::RequestTimeout, format!("no whole body within {:?}", limits.read_timeout)))
            }
        }
    }
}

impl From<PathRejection> for Problem {
    /// A name is the only parameter in a path, so the only error is text that is not UTF-8.
    fn from(_: PathRejection) -> Self {
        Self::new(Code::InvalidName, "the name in the path is not UTF-8")
    }
}

impl From<QueryRejection> for Problem {
    fn from(error: QueryRejection) -> Self {
        Self::invalid(about_query(&error))
    }
}

/// Returns the first error of this type among the error and its sources.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// Describes an invalid body. It names a position and a field, never a value, which may be a secret.
fn about_body(error: &JsonRejection) -> String {
    let data = match error {
        JsonRejection::JsonDataError(_) => find::<serde_path_to_error::Error<serde_json::Error>>(error),
        _ => None,
    };
    let Some(data) = data else { return "the body: this is not JSON".into() };
    let text = data.inner().to_string();
    let text = &text[..text.rfind(" at line").unwrap_or(text.len())];
    // The message already has the name of an unknown field.
    let path = data.path().to_string();
    let unknown = text.strip_prefix("unknown field `").and_then(|text| text.split('`').next());
    let path = unknown.and_then(|unknown| path.strip_suffix(unknown)).unwrap_or(&path).trim_end_matches('.');
    let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let place = format!("line {} column {}", data.inner().line(), data.inner().column());
    if is_about_fields(text) {
        return format!("the body at {place}: {field}{text}");
    }
    let expected = text.rfind("expected ").map_or("", |at| &text[at + "expected ".len()..]);
    format!("the body at {place}: {field}a value of the wrong kind: expected {}", in_words(expected))
}

/// Returns whether a message of serde is about the name of a field, and not about its value.
fn is_about_fields(text: &str) -> bool {
    ["missing field", "unknown field", "duplicate field"].iter().any(|what| text.starts_with(what))
}

/// Translates what serde expects for people who do not write Rust.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => WHOLE_NUMBER,
        "a sequence" => "a list",
        text if text.starts_with("struct ") => "an object",
        text => text,
    }
}

const WHOLE_NUMBER: &str = "a whole number, 0 or more";

/// Describes an invalid query.
fn about_query(error: &QueryRejection) -> String {
    let Some(error) = find::<serde_path_to_error::Error<de::value::Error>>(error) else {
        return "the query cannot be read".into();
    };
    let text = error.inner().to_string();
    if is_about_fields(&text) {
        return format!("the query: {}", text.replace(" field ", " parameter "));
    }
    // All other parameters are strings, which take any value.
    format!("the query: {}: expected {WHOLE_NUMBER}", error.path())
}

#[cfg(test)]
mod tests;
