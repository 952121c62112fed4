//! Looking for names, page by page.

use ::redis::{Cmd, Value, cmd};

use super::super::scripts::{Home, companion};
use super::super::{describe, malformed};
use super::{FATAL, says, text};
use crate::node::key::{KeySpan, RESERVED_PREFIX};
use crate::node::{Answer, PAGE_MAX, PAGE_STEPS_MAX, Page, Search, Trouble};

/// A page of a search as a command.
pub(in crate::node::redis) fn search(home: Home, search: &Search) -> Cmd {
    let KeySpan { start, end, is_fixed } = &search.span;
    let keys = format!("{}*{}", literal(start), literal(end));
    let companions = |kind: &str| format!("{RESERVED_PREFIX}{kind}{}{keys}", home.tag_pattern());
    let votes = if *is_fixed { keys.clone() } else { companions(companion::FENCE) };
    let after = if search.after.is_empty() { "0" } else { &search.after };
    let mut command = cmd("EVALSHA");
    command
        .arg(&home.scripts().search.sha)
        .arg(0)
        .arg(after)
        .arg(PAGE_MAX)
        .arg(PAGE_STEPS_MAX)
        .arg(votes)
        .arg(companions(companion::QUEUE))
        .arg(u8::from(*is_fixed));
    command
}

/// A pattern that fits this text and nothing else.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // As a class of one letter: a server of a Cluster would take a tag for the only slot that is meant.
            '{' => pattern.push_str("[{]"),
            '*' | '?' | '[' | ']' | '\\' => pattern.extend(['\\', letter]),
            _ => pattern.push(letter),
        }
    }
    pattern
}

/// The answer to a search. Keys that are not text are left out: they cannot be names.
pub(in crate::node::redis) fn page(value: &Value) -> Result<Answer, Trouble> {
    match value {
        Value::ServerError(error) if FATAL.iter().any(|code| says(error, code)) => {
            Err(Trouble::Broken(describe(&error.clone().into())))
        }
        Value::ServerError(error) => Ok(Answer::Failed(describe(&error.clone().into()))),
        Value::Array(parts) => match parts.as_slice() {
            [next, Value::Array(keys)] => {
                let next = text(next).ok_or_else(|| malformed("a search"))?;
                let keys = keys.iter().filter_map(text).collect();
                Ok(Answer::Page(Page { keys, next: (next != "0").then_some(next) }))
            }
            _ => Err(malformed("a search")),
        },
        _ => Err(malformed("a search")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_pattern_stands_for_its_text() {
        assert_eq!(literal("a/{b}*[c]?\\"), "a/[{]b}\\*\\[c\\]\\?\\\\");
    }
}
