//! The table of all settings, which the flags, the environment, the file and `quorlock config` share.

use clap::{Arg, ArgAction, ArgMatches};

use crate::config::Flags;
use crate::config::value::Kind;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The name of the setting in the file.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Option<&'static str>,
    /// The description in the help.
    pub(crate) about: &'static str,
}

macro_rules! keys {
    ($($name:literal $kind:expr, $default:expr, $about:literal;)*) => {
        /// Every setting.
        pub(crate) const KEYS: &[Key] = &[$(Key { name: $name, kind: $kind, default: $default, about: $about }),*];
    };
}

keys! {
    "nodes" Kind::Nodes, None,
        "use three or more redis:// or rediss:// (TLS) URLs; or one of these, sqlite:PATH, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE or redis+cluster://HOST:PORT [default: a file in the user's state directory]";
    "require_cluster" Kind::Switch, Some("false"),
        "exit with 78 instead of using sqlite:, memory: or the default file";
    "username" Kind::Text("NAME"), None,
        "log in as NAME to nodes whose URL has no password";
    "password_file" Kind::Text("FILE"), None,
        "read the password for nodes whose URL has none; or set $QUORLOCK_PASSWORD";
    "key_template" Kind::Text("TEMPLATE"), Some("quorlock:{name}"),
        "store a lock under this Redis key; {name} alone shares locks with other Redlock clients";
    "ttl" Kind::Duration, Some("30s"),
        "free a lock this long after its host dies, or after the last renewal";
    "kill_grace" Kind::Duration, Some("5s"),
        "wait this long between SIGTERM and SIGKILL";
    "label" Kind::Text("TEXT"), None,
        "show this text to waiters; by default the command's name";
    "max_ttl" Kind::Duration, Some("60s"),
        "the longest ttl that is allowed; the same for all clients of a cluster";
    "max_clock_skew" Kind::Duration, Some("10s"),
        "let the nodes' clocks differ by this much; the same for all clients of a cluster";
    "max_clock_step_back" Kind::Duration, Some("10s"),
        "let a node's clock step back by this much";
    "node_deadline" Kind::Duration, None,
        "wait this long for a node, at most half of the ttl [default: a twentieth of the ttl, at most 200ms]";
    "danger_trust_restarts" Kind::Switch, Some("false"),
        "skip the quarantine of nodes that lost their memory: this can allow two holders, and repeat fences";
    "color" Kind::Choice(&["auto", "always", "never"]), Some("auto"),
        "use colours: auto, always or never; NO_COLOR is honoured";
}

impl Key {
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    pub(crate) fn variable(&self) -> String {
        format!("QUORLOCK_{}", self.name.to_uppercase())
    }

    /// Returns whether every command has the flag.
    pub(crate) fn is_global(&self) -> bool {
        !["ttl", "kill_grace", "label"].contains(&self.name)
    }

    fn arg(&self) -> Arg {
        let (first, rest) = self.about.split_at(1);
        let default = self.default.filter(|_| self.kind != Kind::Switch);
        let default = default.map_or_else(String::new, |default| format!(" [default: {default}]"));
        let help = format!("{}{rest}{default} [env: {}]", first.to_uppercase(), self.variable());
        let heading = if self.name == "color" { "Printing" } else { "Nodes" };
        let arg = Arg::new(self.name).long(self.name.replace('_', "-")).help(help).global(true);
        let arg = arg.help_heading(heading);
        match self.kind {
            Kind::Switch => arg.action(ArgAction::SetTrue),
            Kind::Text(value) => arg.value_name(value),
            Kind::Duration => arg.value_name("DURATION"),
            Kind::Choice(_) => arg.value_name("WHEN"),
            Kind::Nodes => arg.value_name("URL,URL,.."),
        }
    }
}

/// Returns the global flags, which every command has.
pub(crate) fn flag_args() -> impl Iterator<Item = Arg> {
    KEYS.iter().filter(|key| key.is_global()).map(Key::arg)
}

/// Returns the settings that the user gave as global flags.
pub(crate) fn typed_flags(matches: &ArgMatches) -> Flags {
    let text = |key: &'static Key| match key.kind {
        Kind::Switch => matches.get_flag(key.name).then(|| (key, "true".to_owned())),
        _ => Some((key, matches.get_one::<String>(key.name)?.clone())),
    };
    KEYS.iter().filter(|key| key.is_global()).filter_map(text).collect()
}

/// Returns the key with this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
