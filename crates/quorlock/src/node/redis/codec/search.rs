//! Looking for names: one step of a scan after the other.

use ::redis::{Cmd, Value, cmd};

use super::super::scripts::Home;
use super::super::{describe, malformed};
use super::{FATAL, says, text};
use crate::node::place::KeySpan;
use crate::node::{PAGE_MAX, Page, Search, Trouble};

/// A step of a scan as a command.
pub(in crate::node::redis) fn search(home: Home, search: &Search) -> Cmd {
    let mut command = cmd("EVALSHA");
    let KeySpan { start, end, is_fixed } = &search.span;
    let after = if search.after.is_empty() { "0" } else { &search.after };
    command
        .arg(&home.scripts().search.sha)
        .arg(0)
        .arg(after)
        .arg(PAGE_MAX)
        .arg(start)
        .arg(end)
        .arg(u8::from(*is_fixed));
    command
}

/// What the step has found, or why there was none. Keys that are not text are nobody's name.
pub(in crate::node::redis) fn page(value: &Value) -> Result<Result<Page, String>, Trouble> {
    match value {
        Value::ServerError(error) if FATAL.iter().any(|code| says(error, code)) => {
            Err(Trouble::Broken(describe(&error.clone().into())))
        }
        Value::ServerError(error) => Ok(Err(describe(&error.clone().into()))),
        Value::Array(parts) => match parts.as_slice() {
            [next, Value::Array(keys)] => {
                let next = text(next).ok_or_else(|| malformed("a search"))?;
                Ok(Ok(Page { keys: keys.iter().filter_map(text).collect(), next: (next != "0").then_some(next) }))
            }
            _ => Err(malformed("a search")),
        },
        _ => Err(malformed("a search")),
    }
}
