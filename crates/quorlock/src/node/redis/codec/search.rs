//! Searches for names, page by page.

use super::super::resp::{Commands, Value};
use super::super::scripts::{Script, ServerKind, companion};
use super::super::trouble::malformed;
use super::failed;
use crate::node::key::{KeySpan, RESERVED_PREFIX};
use crate::node::{Answer, PAGE_MAX, PAGE_STEPS_MAX, Page, Search, Trouble};

/// Writes the command that fetches the page at this cursor.
pub(in crate::node::redis) fn search(server_kind: ServerKind, search: &Search, cursor: &str, commands: &mut Commands) {
    let KeySpan { start, end, has_fixed_text } = &search.span;
    let keys = format!("{}*{}", literal(start), literal(end));
    let companions = |kind: &str| format!("{RESERVED_PREFIX}{kind}{}{keys}", server_kind.tag_pattern());
    // Without fixed text, the key of a vote can be any text. The script then searches for keys of fences.
    let votes = if *has_fixed_text { keys.clone() } else { companions(companion::FENCE) };
    commands.script(server_kind.sha(Script::Search), 0).word(cursor);
    commands.number(PAGE_MAX as u64).number(PAGE_STEPS_MAX as u64);
    commands.word(votes).word(companions(companion::QUEUE)).number(u64::from(*has_fixed_text));
}

/// Escapes text so that a glob pattern matches it literally.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // Write `{` as a character class: if a pattern has a hash tag, a Redis Cluster searches only its hash slot.
            '{' => pattern.push_str("[{]"),
            '*' | '?' | '[' | ']' | '\\' => pattern.extend(['\\', character]),
            _ => pattern.push(character),
        }
    }
    pattern
}

/// Parses a page. Skips keys that are not UTF-8, since they belong to no name.
pub(in crate::node::redis) fn page(value: &Value) -> Result<Answer, Trouble> {
    if let Value::Error(error) = value {
        return failed(error).map(Answer::Failed);
    }
    let found = || match value.as_array()? {
        [next, Value::Array(keys)] => {
            let keys = keys.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let next = Some(next.as_str()?.to_owned()).filter(|next| next != "0");
            Some(Answer::Page(Page { keys, next }))
        }
        _ => None,
    };
    found().ok_or_else(|| malformed("a search"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_pattern_matches_only_its_text() {
        assert_eq!(literal("a/{b}*[c]?\\"), "a/[{]b}\\*\\[c\\]\\?\\\\");
    }
}
