//! Extractors for the parts of a request. An extractor returns a problem if its part is invalid.

use std::error::Error;
use std::iter::successors;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request};
use serde::de::{self, DeserializeOwned};

use crate::problem::{Code, Problem};
use crate::service::Service;

/// The parameters of the query.
pub(crate) type Params<T> = Result<Query<T>, QueryRejection>;
/// The name of a lock, from the path.
pub(crate) type Name = Result<Path<String>, PathRejection>;

/// A JSON body that is within the limits.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Service>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        let limits = service.limits;
        match tokio::time::timeout(limits.read_timeout, Json::from_request(request, service)).await {
            Ok(Ok(Json(body))) => Ok(Self(body)),
            Ok(Err(JsonRejection::MissingJsonContentType(_))) => {
                let detail = "the header Content-Type must be application/json";
                Err(Problem::new(Code::UnsupportedMediaType, detail))
            }
            Ok(Err(JsonRejection::BytesRejection(BytesRejection::FailedToBufferBody(
                FailedToBufferBody::LengthLimitError(_),
            )))) => {
                Err(Problem::new(Code::BodyTooLarge, format!("the body is longer than {} bytes", limits.body_bytes())))
            }
            Ok(Err(JsonRejection::BytesRejection(_))) => Err(Problem::invalid("the body is incomplete or malformed")),
            Ok(Err(error)) => Err(Problem::invalid(body_error(&error))),
            Err(_) => {
                Err(Problem::new(Code::RequestTimeout, format!("the body took longer than {:?}", limits.read_timeout)))
            }
        }
    }
}

impl From<PathRejection> for Problem {
    /// The only parameter in a path is a name, so the only possible error is a name that is not UTF-8.
    fn from(_: PathRejection) -> Self {
        Self::new(Code::InvalidName, "the name of the lock in the path is not UTF-8")
    }
}

impl From<QueryRejection> for Problem {
    fn from(error: QueryRejection) -> Self {
        Self::invalid(query_error(&error))
    }
}

/// Returns the first error of type `T` among the error, its source, the source of its source, and so on.
fn find_error<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// Returns the message for an invalid body. The message names a position and a field, but no value, because a value may
/// be a secret.
fn body_error(error: &JsonRejection) -> String {
    let data = match error {
        JsonRejection::JsonDataError(_) => find_error::<serde_path_to_error::Error<serde_json::Error>>(error),
        _ => None,
    };
    let Some(data) = data else { return "the body is not valid JSON".into() };
    let text = data.inner().to_string();
    let text = &text[..text.rfind(" at line").unwrap_or(text.len())];
    // The path of an unknown field ends with the name of the field, which the text already contains.
    let path = data.path().to_string();
    let unknown = text.strip_prefix("unknown field `").and_then(|text| text.split('`').next());
    let path = unknown.and_then(|unknown| path.strip_suffix(unknown)).unwrap_or(&path).trim_end_matches('.');
    let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let position = format!("line {} column {}", data.inner().line(), data.inner().column());
    if names_a_field(text) {
        return format!("the body at {position}: {field}{text}");
    }
    let expected = text.rfind("expected ").map_or("", |at| &text[at + "expected ".len()..]);
    format!("the body at {position}: {field}wrong type: expected {}", type_in_words(expected))
}

/// Returns whether a message of serde is about the name of a field, and not about the value of a field.
fn names_a_field(text: &str) -> bool {
    ["missing field", "unknown field", "duplicate field"].iter().any(|start| text.starts_with(start))
}

/// Returns the type that serde expects, in words for users of any language: for example `a list` for `a sequence`.
fn type_in_words(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => WHOLE_NUMBER,
        "a sequence" => "a list",
        text if text.starts_with("struct ") => "an object",
        text => text,
    }
}

const WHOLE_NUMBER: &str = "a whole number, 0 or more";

/// Returns the message for an invalid query.
fn query_error(error: &QueryRejection) -> String {
    let Some(error) = find_error::<serde_path_to_error::Error<de::value::Error>>(error) else {
        return "the query is malformed".into();
    };
    let text = error.inner().to_string();
    if names_a_field(&text) {
        return format!("the query: {}", text.replace(" field ", " parameter "));
    }
    // Every parameter is a number or a string, and every value of a string is valid.
    format!("the query: {}: expected {WHOLE_NUMBER}", error.path())
}

#[cfg(test)]
mod tests;
