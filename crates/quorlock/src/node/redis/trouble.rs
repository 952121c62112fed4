//! What is wrong, in words: those of servers are cut, and free of control characters.

use super::value::Value;
use crate::node::Trouble;

/// The longest that a server is quoted, in bytes.
const WORDS_BYTES_MAX: usize = 512;

/// The value, unless it is an error that ends the connection.
pub(super) fn checked(value: Value) -> Result<Value, Trouble> {
    match value {
        Value::Error(error) => Err(trouble(&error)),
        value => Ok(value),
    }
}

/// What a server's error means for the link.
pub(super) fn trouble(error: &str) -> Trouble {
    let text = describe(error);
    match code(error) {
        "WRONGPASS" => Trouble::Denied(format!("authentication failed: {text}")),
        "NOPERM" | "NOAUTH" => Trouble::Denied(text),
        _ => Trouble::Broken(text),
    }
}

/// The first word of an error.
pub(super) fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// An error in words, without the parts of a command that it may repeat.
pub(super) fn describe(error: &str) -> String {
    readable(error.split(", with args").next().unwrap_or_default())
}

/// What a server says, fit to be shown.
pub(super) fn readable(words: &str) -> String {
    let mut end = words.len().min(WORDS_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].replace(char::is_control, "\u{fffd}")
}

pub(super) fn malformed(what: &str) -> Trouble {
    Trouble::Broken(format!("a malformed reply to {what}"))
}

#[cfg(test)]
mod tests;
