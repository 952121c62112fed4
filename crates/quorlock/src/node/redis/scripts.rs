//! The scripts that mirror the core's rules for a node, and the keys that they work on.

mod include;

use std::sync::LazyLock;

use ::redis::Script;
use quorlock_core::mode::OwnerId;
use quorlock_core::name::LeaseId;
use quorlock_core::ticket::Channel;

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
        Self { sha: Script::new(&source).get_hash().to_owned(), source }
    }
}

/// What the scripts run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A server that has all keys.
    Server,
    /// A server of a Redis Cluster, which has those of some slots.
    Cluster,
}

impl Home {
    pub(crate) fn of(key: &LockKey) -> Self {
        if key.slot.is_some() { Self::Cluster } else { Self::Server }
    }

    pub(crate) fn scripts(self) -> &'static Scripts {
        match self {
            Self::Server => &SCRIPTS,
            Self::Cluster => &CLUSTER_SCRIPTS,
        }
    }

    /// The node's own keys.
    pub(crate) fn epoch_key(self) -> String {
        self.own_key("epoch")
    }

    pub(crate) fn meta_key(self) -> String {
        self.own_key("meta")
    }

    pub(crate) fn history_key(self) -> String {
        self.own_key("history")
    }

    fn own_key(self, what: &str) -> String {
        match self {
            Self::Server => format!("{RESERVED_PREFIX}{what}"),
            // Both in one slot.
            Self::Cluster => format!("{RESERVED_PREFIX}{{node}}:{what}"),
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

/// Everything that is loaded in the handshake.
pub(crate) struct Scripts {
    pub(crate) acquire: Loaded,
    pub(crate) enter: Loaded,
    pub(crate) release: Loaded,
    pub(crate) inspect: Loaded,
    pub(crate) check: Loaded,
    pub(crate) search: Loaded,
    pub(crate) breaking: Loaded,
    pub(crate) node_command: Loaded,
    pub(crate) plain_extend: Loaded,
    pub(crate) plain_release: Loaded,
    pub(crate) acquire_all: Loaded,
    pub(crate) renew_all: Loaded,
    pub(crate) plain_extend_all: Loaded,
    pub(crate) release_all: Loaded,
    pub(crate) plain_release_all: Loaded,
    /// Where the mark of the node's epoch is.
    pub(crate) epoch_key: String,
}

static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Home::Server));
static CLUSTER_SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Home::Cluster));

/// What the doctor tries: loaded by nobody else.
pub(crate) static PROBE: LazyLock<Loaded> =
    LazyLock::new(|| Loaded::new(include_str!("scripts/probe.lua"), Home::Server));

impl Scripts {
    fn new(home: Home) -> Self {
        let loaded = |body| Loaded::new(body, home);
        Self {
            acquire: loaded(include_str!("scripts/acquire.lua")),
            enter: loaded(include_str!("scripts/enter.lua")),
            release: loaded(include_str!("scripts/release.lua")),
            inspect: loaded(include_str!("scripts/inspect.lua")),
            check: loaded(include_str!("scripts/check.lua")),
            search: loaded(include_str!("scripts/search.lua")),
            breaking: loaded(include_str!("scripts/break.lua")),
            node_command: loaded(include_str!("scripts/node.lua")),
            plain_extend: loaded(include_str!("scripts/plain_extend.lua")),
            plain_release: loaded(include_str!("scripts/plain_release.lua")),
            acquire_all: loaded(include_str!("scripts/acquire_all.lua")),
            renew_all: loaded(include_str!("scripts/renew_all.lua")),
            plain_extend_all: loaded(include_str!("scripts/plain_extend_all.lua")),
            release_all: loaded(include_str!("scripts/release_all.lua")),
            plain_release_all: loaded(include_str!("scripts/plain_release_all.lua")),
            epoch_key: home.epoch_key(),
        }
    }

    pub(crate) fn all(&self) -> [&Loaded; 15] {
        let Self { acquire, enter, release, inspect, check, search, breaking, node_command, .. } = self;
        let Self { plain_extend, plain_release, acquire_all, renew_all, release_all, .. } = self;
        let Self { plain_extend_all, plain_release_all, .. } = self;
        [
            acquire,
            enter,
            release,
            inspect,
            check,
            search,
            breaking,
            node_command,
            plain_extend,
            plain_release,
            acquire_all,
            renew_all,
            plain_extend_all,
            release_all,
            plain_release_all,
        ]
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

fn companion(key: &LockKey, which: &str) -> String {
    format!("{RESERVED_PREFIX}{which}{}{}", key.tag(), key.text)
}

pub(crate) fn fence_key(key: &LockKey) -> String {
    companion(key, companion::FENCE)
}

pub(crate) fn holds_key(key: &LockKey) -> String {
    companion(key, companion::HOLDS)
}

pub(crate) fn queue_key(key: &LockKey) -> String {
    companion(key, companion::QUEUE)
}

pub(crate) fn kept_key(key: &LockKey) -> String {
    companion(key, companion::KEPT)
}

#[cfg(test)]
pub(crate) fn asked_key(key: &LockKey) -> String {
    companion(key, companion::ASKED)
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
        for script in Home::Server.scripts().all().into_iter().chain(Home::Cluster.scripts().all()) {
            let length = script.source.len();
            assert!(length < WORD_MAX * 7 / 8, "{length} bytes: {}", &script.source[..100]);
        }
    }
}
