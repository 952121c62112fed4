//! The Lua scripts that implement the core's rules for a node, and the keys that they use.

mod include;

use std::sync::LazyLock;

use quorlock_core::name::{Channel, LeaseId, OwnerId};
use sha1_smol::Sha1;

use crate::node::LockKey;
use crate::node::key::RESERVED_PREFIX;
use include::include;

/// The fields of the meta key, in the order of the script's reply.
pub(crate) const META_FIELDS: [&str; 11] = [
    "run",
    "cluster",
    "nodes",
    "max_ttl",
    "skew",
    "elapsed",
    "founders",
    "quarantine",
    "suspended",
    "restarts",
    "promotion",
];

/// A script and its SHA-1.
pub(crate) struct LoadedScript {
    pub(crate) source: String,
    pub(crate) sha: String,
}

impl LoadedScript {
    fn new(body: &str, server_kind: ServerKind) -> Self {
        let source = include(body, server_kind);
        Self { sha: Sha1::from(&source).digest().to_string(), source }
    }
}

/// Declares the scripts that are loaded in the handshake, with their files.
macro_rules! scripts {
    ($($script:ident: $file:literal,)*) => {
        /// A script that is loaded in the handshake.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Script { $($script),* }

        /// In the order of [`Script`].
        const BODIES: [&str; [$($file),*].len()] = [$(include_str!($file)),*];
    };
}

scripts! {
    Acquire: "scripts/acquire.lua",
    Enter: "scripts/enter.lua",
    Release: "scripts/release.lua",
    Inspect: "scripts/inspect.lua",
    Check: "scripts/check.lua",
    Search: "scripts/search.lua",
    Break: "scripts/break.lua",
    NodeCommand: "scripts/node.lua",
    Roster: "scripts/roster.lua",
    PlainExtend: "scripts/plain_extend.lua",
    PlainRelease: "scripts/plain_release.lua",
    AcquireAll: "scripts/acquire_all.lua",
    RenewAll: "scripts/renew_all.lua",
    PlainExtendAll: "scripts/plain_extend_all.lua",
    ReleaseAll: "scripts/release_all.lua",
    PlainReleaseAll: "scripts/plain_release_all.lua",
}

static SCRIPTS: LazyLock<[LoadedScript; BODIES.len()]> =
    LazyLock::new(|| BODIES.map(|body| LoadedScript::new(body, ServerKind::Server)));
static CLUSTER_SCRIPTS: LazyLock<[LoadedScript; BODIES.len()]> =
    LazyLock::new(|| BODIES.map(|body| LoadedScript::new(body, ServerKind::Cluster)));

/// The script that tries commands for `quorlock doctor`. Only the doctor loads it.
pub(crate) static PROBE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("scripts/probe.lua"), ServerKind::Server));

/// The kind of server that the scripts run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// A server that has all keys.
    Server,
    /// A server of a Redis Cluster, which has the keys of some slots.
    Cluster,
}

impl ServerKind {
    pub(crate) fn of(key: &LockKey) -> Self {
        if key.slot.is_some() { Self::Cluster } else { Self::Server }
    }

    fn pick<T: ?Sized>(self, server: &'static T, cluster: &'static T) -> &'static T {
        match self {
            Self::Server => server,
            Self::Cluster => cluster,
        }
    }

    pub(crate) fn scripts(self) -> &'static [LoadedScript] {
        // Not `pick`: that would also expand the scripts that are not used.
        match self {
            Self::Server => &*SCRIPTS,
            Self::Cluster => &*CLUSTER_SCRIPTS,
        }
    }

    pub(crate) fn sha(self, script: Script) -> &'static str {
        &self.scripts()[script as usize].sha
    }

    /// Returns the key of the node's epoch. In a Cluster all of the node's own keys are in one slot.
    pub(crate) fn epoch_key(self) -> &'static str {
        self.pick("quorlock~epoch", "quorlock~{node}:epoch")
    }

    pub(crate) fn meta_key(self) -> &'static str {
        self.pick("quorlock~meta", "quorlock~{node}:meta")
    }

    /// Returns the key of what the node stores about its roster.
    pub(crate) fn membership_key(self) -> &'static str {
        self.pick("quorlock~membership", "quorlock~{node}:membership")
    }

    pub(crate) fn history_key(self) -> &'static str {
        self.pick("quorlock~history", "quorlock~{node}:history")
    }

    /// Returns a glob pattern for the hash tag at the start of a companion key's name.
    pub(crate) fn tag_pattern(self) -> &'static str {
        self.pick("", "[{]*}:")
    }
}

/// The prefixes of companion keys, after the reserved prefix.
pub(crate) mod companion {
    pub(crate) const FENCE: &str = "fence:";
    /// Entries of a vote that is not exclusive: a hash with a field for each attempt. Void unless its field `held_mode`
    /// equals the vote.
    pub(crate) const HOLDS: &str = "holds:";
    /// The queue, sorted by ticket.
    pub(crate) const QUEUE: &str = "queue:";
    /// The queue, sorted by the last millisecond in which the position is kept.
    pub(crate) const KEPT: &str = "kept:";
    /// The requests of waiters: a hash with a field for each queue position. Fields of positions that are not in the
    /// queue are ignored.
    #[cfg(test)]
    pub(crate) const ASKED: &str = "asked:";
    /// Tombstones: of an attempt, by its id; of a retired owner, by the lock's key and the owner.
    pub(crate) const DONE: &str = "done:";
}

pub(crate) fn companion_key(which: &str, key: &LockKey) -> String {
    format!("{RESERVED_PREFIX}{which}{}{}", key.tag(), key.text)
}

pub(crate) fn tombstone_key(key: &LockKey, attempt: LeaseId) -> String {
    format!("{}{}", tombstone_prefix(key), attempt.reveal())
}

/// Returns the key of a retired owner's tombstone for a name. It ends with the owner, and is longer than the key of any
/// attempt's tombstone.
pub(crate) fn retired_key(key: &LockKey, owner: OwnerId) -> String {
    format!("{}{}:{}", tombstone_prefix(key), key.text, owner.reveal())
}

/// Returns the prefix of the keys of tombstones.
pub(crate) fn tombstone_prefix(key: &LockKey) -> String {
    format!("{RESERVED_PREFIX}{}{}", companion::DONE, key.tag())
}

/// The channel on which all clients learn of broken locks. Each message is a lock's key.
pub(crate) const BROKEN_CHANNEL: &str = "quorlock~broken";
/// The beginning of the channels of hints.
const HINT_PREFIX: &str = "quorlock~hint:";

/// Returns the channel of one client's hints.
pub(crate) fn hint_channel(channel: Channel) -> String {
    format!("{HINT_PREFIX}{}", channel.digits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest argument that a server accepts before authentication. If an argument is longer, the server closes
    /// the connection.
    const WORD_MAX: usize = 16 * 1_024;

    #[test]
    fn every_script_is_short_enough_to_be_sent_before_authentication() {
        for script in ServerKind::Server.scripts().iter().chain(ServerKind::Cluster.scripts()) {
            let length = script.source.len();
            assert!(length < WORD_MAX * 7 / 8, "{length} bytes: {}", &script.source[..100]);
        }
    }
}
