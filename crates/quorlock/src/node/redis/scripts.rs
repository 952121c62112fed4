//! The scripts that mirror the core's rules for a node, and the keys that they work on.

mod include;

use std::sync::LazyLock;

use quorlock_core::mode::OwnerId;
use quorlock_core::name::LeaseId;
use quorlock_core::ticket::Channel;
use sha1_smol::Sha1;

use crate::node::key::{LockKey, RESERVED_PREFIX};
use include::include;

/// The fields of the meta key, in the order in which a node tells them.
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

/// A script and the name by which the server knows it.
pub(crate) struct Loaded {
    pub(crate) source: String,
    pub(crate) sha: String,
}

impl Loaded {
    fn new(body: &str, home: Home) -> Self {
        let source = include(body, home);
        Self { sha: Sha1::from(&source).digest().to_string(), source }
    }
}

/// A script that is loaded in the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    Acquire,
    Enter,
    Release,
    Inspect,
    Check,
    Search,
    Break,
    NodeCommand,
    PlainExtend,
    PlainRelease,
    AcquireAll,
    RenewAll,
    PlainExtendAll,
    ReleaseAll,
    PlainReleaseAll,
}

/// In the order of [`Script`].
const BODIES: [&str; 15] = [
    include_str!("scripts/acquire.lua"),
    include_str!("scripts/enter.lua"),
    include_str!("scripts/release.lua"),
    include_str!("scripts/inspect.lua"),
    include_str!("scripts/check.lua"),
    include_str!("scripts/search.lua"),
    include_str!("scripts/break.lua"),
    include_str!("scripts/node.lua"),
    include_str!("scripts/plain_extend.lua"),
    include_str!("scripts/plain_release.lua"),
    include_str!("scripts/acquire_all.lua"),
    include_str!("scripts/renew_all.lua"),
    include_str!("scripts/plain_extend_all.lua"),
    include_str!("scripts/release_all.lua"),
    include_str!("scripts/plain_release_all.lua"),
];

static SCRIPTS: LazyLock<[Loaded; BODIES.len()]> = LazyLock::new(|| BODIES.map(|body| Loaded::new(body, Home::Server)));
static CLUSTER_SCRIPTS: LazyLock<[Loaded; BODIES.len()]> =
    LazyLock::new(|| BODIES.map(|body| Loaded::new(body, Home::Cluster)));

/// The script with which the doctor tries commands. Nobody else loads it.
pub(crate) static PROBE: LazyLock<Loaded> =
    LazyLock::new(|| Loaded::new(include_str!("scripts/probe.lua"), Home::Server));

/// What the scripts run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A server that has all keys.
    Server,
    /// A server of a Redis Cluster, which has the keys of some slots.
    Cluster,
}

impl Home {
    pub(crate) fn of(key: &LockKey) -> Self {
        if key.slot.is_some() { Self::Cluster } else { Self::Server }
    }

    pub(crate) fn scripts(self) -> &'static [Loaded] {
        match self {
            Self::Server => &*SCRIPTS,
            Self::Cluster => &*CLUSTER_SCRIPTS,
        }
    }

    pub(crate) fn sha(self, script: Script) -> &'static str {
        &self.scripts()[script as usize].sha
    }

    /// The node's own keys. In a Cluster they are all in one slot.
    pub(crate) fn epoch_key(self) -> &'static str {
        match self {
            Self::Server => "quorlock~epoch",
            Self::Cluster => "quorlock~{node}:epoch",
        }
    }

    pub(crate) fn meta_key(self) -> &'static str {
        match self {
            Self::Server => "quorlock~meta",
            Self::Cluster => "quorlock~{node}:meta",
        }
    }

    pub(crate) fn history_key(self) -> &'static str {
        match self {
            Self::Server => "quorlock~history",
            Self::Cluster => "quorlock~{node}:history",
        }
    }

    /// The part of a companion key before the rest of its name, as a pattern for the server's own commands.
    pub(crate) fn tag_pattern(self) -> &'static str {
        match self {
            Self::Server => "",
            Self::Cluster => "[{]*}:",
        }
    }
}

/// What the keys that go with a name's own begin with, behind the reserved prefix.
pub(crate) mod companion {
    pub(crate) const FENCE: &str = "fence:";
    /// Who has entered, unless the vote is exclusive: a hash with a field for each attempt, void unless its `period` is
    /// what the vote says.
    pub(crate) const HOLDS: &str = "holds:";
    /// Who waits, by ticket.
    pub(crate) const QUEUE: &str = "queue:";
    /// Who waits, by the last millisecond in which the place is kept.
    pub(crate) const KEPT: &str = "kept:";
    /// What those in the queue wait for: a hash with a field for each place. What is there for others means nothing.
    #[cfg(test)]
    pub(crate) const ASKED: &str = "asked:";
    /// Tombstones: of an attempt, by its id, and of an owner that was retired, by the name's key and the owner.
    pub(crate) const DONE: &str = "done:";
}

pub(crate) fn companion_key(which: &str, key: &LockKey) -> String {
    format!("{RESERVED_PREFIX}{which}{}{}", key.tag(), key.text)
}

pub(crate) fn tombstone_key(key: &LockKey, attempt: LeaseId) -> String {
    format!("{}{}", tombstone_prefix(key), attempt.reveal())
}

/// The tombstone of an owner that was retired from a name. It ends with the owner, and no attempt's is as long.
pub(crate) fn retired_key(key: &LockKey, owner: OwnerId) -> String {
    format!("{}{}:{}", tombstone_prefix(key), key.text, owner.reveal())
}

/// What comes before the attempt in the keys of tombstones.
pub(crate) fn tombstone_prefix(key: &LockKey) -> String {
    format!("{RESERVED_PREFIX}{}{}", companion::DONE, key.tag())
}

/// Where all clients hear of locks that were broken: each message is a key.
pub(crate) fn broken_channel() -> String {
    format!("{RESERVED_PREFIX}broken")
}

/// Where one client hears hints.
pub(crate) fn hint_channel(channel: Channel) -> String {
    format!("{}{}", hint_prefix(), channel.digits())
}

fn hint_prefix() -> String {
    format!("{RESERVED_PREFIX}hint:")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server takes in one word from a client that has not said its password: a longer one ends the connection.
    const WORD_MAX: usize = 16 * 1_024;

    #[test]
    fn every_script_is_a_word_that_may_be_said_before_the_password_is_known() {
        for script in Home::Server.scripts().iter().chain(Home::Cluster.scripts()) {
            let length = script.source.len();
            assert!(length < WORD_MAX * 7 / 8, "{length} bytes: {}", &script.source[..100]);
        }
    }
}
