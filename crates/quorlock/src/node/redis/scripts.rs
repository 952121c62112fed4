//! The scripts that mirror the core's rules for a node, and the keys that they work on.
//!
//! What several scripts need is written once and put together here: a line `--#name` stands for the fragment of that
//! name, and the core's limits stand under their own names. A fragment that is only needed now and then sits where it
//! is needed: the server makes its functions anew in every run that gets there.

use std::sync::LazyLock;

use ::redis::Script;
use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::ticket::{Channel, ENTRY_LEASE, WAITERS_MAX};
use quorlock_core::vote::FREE_LISTED_MAX;

use crate::node::place::{Place, RESERVED_PREFIX};

/// A script and the name by which the server knows it.
pub(crate) struct Loaded {
    pub(crate) source: String,
    pub(crate) sha: String,
}

impl Loaded {
    fn new(body: &str) -> Self {
        let source = FRAGMENTS.iter().fold(body.to_owned(), |source, (name, text)| source.replace(name, text));
        let source = source
            .replace("ENTRY_LEASE", &ENTRY_LEASE.as_millis().to_string())
            .replace("WAITERS_MAX", &WAITERS_MAX.to_string())
            .replace("FREE_LISTED_MAX", &FREE_LISTED_MAX.to_string())
            .replace("FENCE_MAX", &Fence::MAX.to_string())
            .replace("HINT_CHANNEL", &format!("'{}'", hint_prefix()))
            .replace("RESERVED_PREFIX", &format!("'{RESERVED_PREFIX}'"));
        Self { sha: Script::new(&source).get_hash().to_owned(), source }
    }
}

/// Those that contain others come first.
const FRAGMENTS: [(&str, &str); 10] = [
    ("--#begin", include_str!("begin.lua")),
    ("--#period", include_str!("period.lua")),
    ("--#fence", include_str!("fence.lua")),
    ("--#line", include_str!("line.lua")),
    ("--#refuse", include_str!("refuse.lua")),
    ("--#entries", include_str!("entries.lua")),
    ("--#note", include_str!("note.lua")),
    ("--#leave", include_str!("leave.lua")),
    ("--#write_fence", include_str!("write_fence.lua")),
    ("--#write_line", include_str!("write_line.lua")),
];

/// Everything that is loaded in the handshake.
pub(crate) struct Scripts {
    pub(crate) acquire: Loaded,
    pub(crate) enter: Loaded,
    pub(crate) release: Loaded,
    pub(crate) inspect: Loaded,
    pub(crate) check: Loaded,
    pub(crate) search: Loaded,
    pub(crate) errand: Loaded,
    pub(crate) plain_extend: Loaded,
    pub(crate) plain_release: Loaded,
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    acquire: Loaded::new(include_str!("acquire.lua")),
    enter: Loaded::new(include_str!("enter.lua")),
    release: Loaded::new(include_str!("release.lua")),
    inspect: Loaded::new(include_str!("inspect.lua")),
    check: Loaded::new(include_str!("check.lua")),
    search: Loaded::new(include_str!("search.lua")),
    errand: Loaded::new(include_str!("errand.lua")),
    plain_extend: Loaded::new(include_str!("plain_extend.lua")),
    plain_release: Loaded::new(include_str!("plain_release.lua")),
});

impl Scripts {
    pub(crate) fn all(&self) -> [&Loaded; 9] {
        let Self { acquire, enter, release, inspect, check, search, errand, plain_extend, plain_release } = self;
        [acquire, enter, release, inspect, check, search, errand, plain_extend, plain_release]
    }
}

pub(crate) fn epoch_key() -> String {
    format!("{RESERVED_PREFIX}epoch")
}

pub(crate) fn meta_key() -> String {
    format!("{RESERVED_PREFIX}meta")
}

pub(crate) fn fence_key(place: &Place) -> String {
    format!("{RESERVED_PREFIX}fence:{}", place.key)
}

/// Who has entered, unless the vote is exclusive: a hash with a field for each attempt, void unless its `period` is
/// what the vote says.
pub(crate) fn holds_key(place: &Place) -> String {
    format!("{RESERVED_PREFIX}holds:{}", place.key)
}

/// Who waits, by ticket: one string, since every vote has to read it.
pub(crate) fn line_key(place: &Place) -> String {
    format!("{RESERVED_PREFIX}line:{}", place.key)
}

pub(crate) fn tombstone_key(attempt: LeaseId) -> String {
    format!("{RESERVED_PREFIX}done:{}", attempt.reveal())
}

/// Where one client hears hints.
pub(crate) fn hint_channel(channel: Channel) -> String {
    format!("{}{}", hint_prefix(), channel.digits())
}

fn hint_prefix() -> String {
    format!("{RESERVED_PREFIX}hint:")
}
