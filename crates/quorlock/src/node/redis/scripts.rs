//! The scripts that mirror the core's rules for a node, and the keys that they work on.

use std::sync::LazyLock;

use ::redis::Script;
use quorlock_core::name::LeaseId;

use crate::node::place::{Place, RESERVED_PREFIX};

/// A script and the name by which the server knows it.
pub(crate) struct Loaded {
    pub(crate) source: &'static str,
    pub(crate) sha: String,
}

impl Loaded {
    fn new(source: &'static str) -> Self {
        Self { source, sha: Script::new(source).get_hash().to_owned() }
    }
}

/// Everything that is loaded in the handshake.
pub(crate) struct Scripts {
    pub(crate) acquire: Loaded,
    pub(crate) release: Loaded,
    pub(crate) errand: Loaded,
    pub(crate) plain_extend: Loaded,
    pub(crate) plain_release: Loaded,
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    acquire: Loaded::new(include_str!("acquire.lua")),
    release: Loaded::new(include_str!("release.lua")),
    errand: Loaded::new(include_str!("errand.lua")),
    plain_extend: Loaded::new(include_str!("plain_extend.lua")),
    plain_release: Loaded::new(include_str!("plain_release.lua")),
});

impl Scripts {
    pub(crate) fn all(&self) -> [&Loaded; 5] {
        [&self.acquire, &self.release, &self.errand, &self.plain_extend, &self.plain_release]
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

pub(crate) fn tombstone_key(attempt: LeaseId) -> String {
    format!("{RESERVED_PREFIX}done:{}", attempt.reveal())
}
