//! What can be set, in one table: files, environment and `quorlock config` all read it.

use crate::config::value::Kind;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its name in a file.
    pub(crate) name: &'static str,
    /// Its variable in the environment.
    pub(crate) variable: &'static str,
    /// Its flag.
    pub(crate) flag: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// What holds when nobody says anything.
    pub(crate) default: Option<&'static str>,
    /// What it is, in a few words.
    pub(crate) about: &'static str,
}

macro_rules! keys {
    ($($name:literal $variable:literal $flag:literal $kind:expr, $default:expr, $about:literal;)*) => {
        /// Everything that can be set.
        pub(crate) const KEYS: &[Key] = &[$(Key {
            name: $name,
            variable: $variable,
            flag: $flag,
            kind: $kind,
            default: $default,
            about: $about,
        }),*];
    };
}

keys! {
    "nodes" "QUORLOCK_NODES" "--nodes" Kind::Nodes, None,
        "where the locks live; a file in the user's state directory unless set";
    "require_cluster" "QUORLOCK_REQUIRE_CLUSTER" "--require-cluster" Kind::Switch, Some("false"),
        "refuse locks of this host alone: sqlite: and memory: nodes, and the default file";
    "username" "QUORLOCK_USERNAME" "--username" Kind::Text, None,
        "for nodes whose URL has no password; it goes with the password below";
    "password_file" "QUORLOCK_PASSWORD_FILE" "--password-file" Kind::Text, None,
        "a file with the password for nodes whose URL has none; or put it into $QUORLOCK_PASSWORD";
    "key_template" "QUORLOCK_KEY_TEMPLATE" "--key-template" Kind::Text, Some("quorlock:{name}"),
        "how a name becomes a Redis key";
    "ttl" "QUORLOCK_TTL" "--ttl" Kind::Duration, Some("30s"),
        "how long a lock outlives a machine that died";
    "kill_grace" "QUORLOCK_KILL_GRACE" "--kill-grace" Kind::Duration, Some("5s"),
        "what a command has between SIGTERM and SIGKILL";
    "label" "QUORLOCK_LABEL" "--label" Kind::Text, None,
        "shown to whoever finds a lock held; the command's name unless set";
    "max_ttl" "QUORLOCK_MAX_TTL" "--max-ttl" Kind::Duration, Some("60s"),
        "the longest ttl that the cluster allows; all its clients have to agree on it";
    "max_clock_skew" "QUORLOCK_MAX_CLOCK_SKEW" "--max-clock-skew" Kind::Duration, Some("10s"),
        "how far the nodes' clocks may be apart; all clients of a cluster have to agree on it";
    "max_clock_step_back" "QUORLOCK_MAX_CLOCK_STEP_BACK" "--max-clock-step-back" Kind::Duration, Some("10s"),
        "how far a node's clock may step back";
    "node_deadline" "QUORLOCK_NODE_DEADLINE" "--node-deadline" Kind::Duration, None,
        "how long to wait for a node; a twentieth of the ttl, at most 200ms, unless set";
    "danger_trust_restarts" "QUORLOCK_DANGER_TRUST_RESTARTS" "--danger-trust-restarts" Kind::Switch, Some("false"),
        "no quarantine for nodes that lost their memory: two holders, and fences that repeat, may come of it";
    "color" "QUORLOCK_COLOR" "--color" Kind::Choice(&["auto", "always", "never"]), Some("auto"),
        "whether to colour what is printed";
}

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
