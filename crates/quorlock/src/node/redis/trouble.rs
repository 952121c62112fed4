//! Describes errors. Text from servers is truncated and stripped of control characters.

use quorlock_core::name::cut;

use super::resp::Value;
use crate::node::Trouble;

/// The longest quotation of a server's text, in bytes.
const QUOTE_BYTES_MAX: usize = 512;

/// Returns the value. Fails if it is an error.
pub(super) fn checked(value: Value) -> Result<Value, Trouble> {
    match value {
        Value::Error(error) => Err(trouble(&error)),
        value => Ok(value),
    }
}

/// Classifies a server's error.
pub(super) fn trouble(error: &str) -> Trouble {
    let text = describe(error);
    match code(error) {
        "WRONGPASS" => Trouble::Denied(format!("authentication failed: {text}")),
        "NOPERM" | "NOAUTH" => Trouble::Denied(text),
        _ => Trouble::Broken(text),
    }
}

/// Returns the first word of an error.
pub(super) fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// Describes an error. Omits the arguments of the command, which the error may repeat and which may be secret.
pub(super) fn describe(error: &str) -> String {
    readable(error.split(", with args").next().unwrap_or_default())
}

/// Makes a server's text safe to show.
pub(super) fn readable(text: &str) -> String {
    cut(text, QUOTE_BYTES_MAX).replace(char::is_control, "\u{fffd}")
}

pub(super) fn malformed(what: &str) -> Trouble {
    Trouble::Broken(format!("a malformed reply to {what}"))
}

#[cfg(test)]
mod tests;
