//! What is wrong, in words: those of servers are cut, and say nothing to terminals.

use ::redis::{ErrorKind, RedisError};

use crate::node::Trouble;

/// The longest that a server is quoted, in bytes.
const WORDS_BYTES_MAX: usize = 512;

/// What a server's error means for the link.
pub(super) fn trouble(error: &RedisError) -> Trouble {
    let text = describe(error);
    match error.kind() {
        ErrorKind::AuthenticationFailed => Trouble::Denied(text),
        _ if error.code() == Some("WRONGPASS") => Trouble::Denied(format!("authentication failed: {text}")),
        _ if matches!(error.code(), Some("NOPERM" | "NOAUTH")) => Trouble::Denied(text),
        _ => Trouble::Broken(text),
    }
}

/// An error in words, without the parts of a command that it may repeat.
pub(super) fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            let detail = detail.split(", with args").next().unwrap_or_default();
            readable(&format!("{code} {detail}"))
        }
        (Some(code), None) => readable(code),
        (None, _) => readable(&error.to_string()),
    }
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
