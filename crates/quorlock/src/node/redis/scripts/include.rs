//! Assembles a script from its parts.
//!
//! A line `--#name` includes the fragment of that name, and a name in capitals is a constant. Rarely needed fragments
//! are included inside the branch that needs them, because the server creates a fragment's functions on every run that
//! reaches it.

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::request::{ENTRY_LEASE, WAITERS_MAX};
use quorlock_core::terms::PERMITS_MAX;
use quorlock_core::vote::{FREE_LISTED_MAX, QUEUE_LISTED_MAX};

use super::{BROKEN_CHANNEL, HINT_PREFIX, META_FIELDS, ServerKind, companion};
use crate::node::key::RESERVED_PREFIX;

/// Replaces fragments and constants, and removes comments. The size matters: before authentication, a server closes the
/// connection if an argument exceeds 16 KiB.
///
/// # Panics
/// Panics if a fragment is unknown.
pub(super) fn include(body: &str, server_kind: ServerKind) -> String {
    let mut source = String::new();
    for line in body.lines().map(str::trim_start) {
        match line.strip_prefix("--#") {
            Some(name) => source += &include(fragment(name, server_kind), server_kind),
            None if line.is_empty() || line.starts_with("--") => {}
            None => {
                source += &replace_constants(line, server_kind);
                source.push('\n');
            }
        }
    }
    source
}

fn fragment(name: &str, server_kind: ServerKind) -> &'static str {
    match (name, server_kind) {
        // In a Redis Cluster the epoch is in another slot and the script cannot read it. The script trusts the client
        // instead, whose connections to all masters end when a master loses its memory.
        ("life", ServerKind::Cluster) => "got[1] = ARGV[1] ~= '' and ARGV[1]",
        // A Cluster permits only declared keys.
        ("life", ServerKind::Server)
        | ("wanted" | "hand_on" | "keep_request" | "forget_request", ServerKind::Cluster) => "",
        // The request of the first waiter.
        ("wanted", ServerKind::Server) => "if not keeps then wanted = redis.call('HMGET', ASKED, first[1])[1] end",
        ("forget_request", ServerKind::Server) => "redis.call('HDEL', ASKED, gone)",
        ("hand_on", ServerKind::Server) => include_str!("fragments/hand_on.lua"),
        ("keep_request", ServerKind::Server) => include_str!("fragments/keep_request.lua"),
        ("acquire", _) => include_str!("acquire.lua"),
        ("release", _) => include_str!("release.lua"),
        ("begin", _) => include_str!("fragments/begin.lua"),
        ("digest", _) => include_str!("fragments/digest.lua"),
        ("each", _) => include_str!("fragments/each.lua"),
        ("entries", _) => include_str!("fragments/entries.lua"),
        ("fault", _) => include_str!("fragments/fault.lua"),
        ("fence", _) => include_str!("fragments/fence.lua"),
        ("hint", _) => include_str!("fragments/hint.lua"),
        ("note", _) => include_str!("fragments/note.lua"),
        ("other_epoch", _) => include_str!("fragments/other_epoch.lua"),
        ("other_program", _) => include_str!("fragments/other_program.lua"),
        ("held_mode", _) => include_str!("fragments/held_mode.lua"),
        ("queue", _) => include_str!("fragments/queue.lua"),
        ("quiet", _) => include_str!("fragments/quiet.lua"),
        ("refuse", _) => include_str!("fragments/refuse.lua"),
        ("write_fence", _) => include_str!("fragments/write_fence.lua"),
        _ => panic!("a script includes --#{name}, which is not a fragment"),
    }
}

fn replace_constants(line: &str, server_kind: ServerKind) -> String {
    let mut replaced = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        match constant(token, server_kind) {
            Some(value) => replaced += &value,
            None => replaced += token,
        }
        rest = after;
    }
    replaced
}

fn constant(name: &str, server_kind: ServerKind) -> Option<String> {
    let key = |kind: &str| format!("'{RESERVED_PREFIX}{kind}'");
    // Scripts derive the name from the key of its queue.
    let name_of_queue = || format!("string.sub(queue, {})", RESERVED_PREFIX.len() + companion::QUEUE.len() + 1);
    Some(match name {
        "ASKED" => format!("'{RESERVED_PREFIX}asked:' .. {}", name_of_queue()),
        "WHICH" => name_of_queue(),
        "FENCE_OF" => key(companion::FENCE),
        "DONE_OF" => key(companion::DONE),
        "QUEUE_OF" => key(companion::QUEUE),
        "KEPT_OF" => key(companion::KEPT),
        "HOLDS_OF" => key(companion::HOLDS),
        "RESERVED_PREFIX" => key(""),
        "META_FIELDS" => META_FIELDS.map(|field| format!("'{field}'")).join(", "),
        "EPOCH_KEY" => format!("'{}'", server_kind.epoch_key()),
        "HINT_CHANNEL" => format!("'{HINT_PREFIX}'"),
        "BROKEN_CHANNEL" => format!("'{BROKEN_CHANNEL}'"),
        // A Lua pattern for the hash tag at the start of a companion key's name.
        "TAG" if server_kind == ServerKind::Cluster => "'{%d+}:'".into(),
        "TAG" => "''".into(),
        "ENTRY_LEASE" => ENTRY_LEASE.as_millis().to_string(),
        "WAITERS_MAX" => WAITERS_MAX.to_string(),
        "FREE_LISTED_MAX" => FREE_LISTED_MAX.to_string(),
        "QUEUE_LISTED_MAX" => QUEUE_LISTED_MAX.to_string(),
        "FENCE_MAX" => Fence::MAX.to_string(),
        "PERMITS_MAX" => PERMITS_MAX.to_string(),
        "NOBODY" => format!("'{}'", Digest::NOBODY),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "--#feence, which is not a fragment")]
    fn a_misspelt_fragment_is_an_error() {
        include("--#fence\n--#feence", ServerKind::Server);
    }

    #[test]
    fn constants_are_replaced_as_whole_words() {
        assert_eq!(
            include("local x = DONE_OF .. XDONE_OF -- TAG", ServerKind::Cluster),
            "local x = 'quorlock~done:' .. XDONE_OF -- '{%d+}:'\n"
        );
    }
}
