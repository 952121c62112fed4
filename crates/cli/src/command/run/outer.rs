//! The runs around this one, by the environment that they gave to their commands.

use quorlock::Owner;
use serde::{Deserialize, Serialize};

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Exclusive,
    Shared,
    Slots,
}

/// One run around this one: what it holds, how, and as whom.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Around {
    name: String,
    pub(super) kind: Kind,
    owner: Option<String>,
}

/// All runs around this one on the same nodes, the nearest last.
#[derive(Clone, Default)]
pub(super) struct Outer(Vec<Around>);

impl Outer {
    /// Reads the environment. Whatever was held on other nodes is none of this one's.
    pub(super) fn inherited(nodes: &str, template: &str) -> Self {
        Self::read(|key| std::env::var(key).ok(), nodes, template)
    }

    fn read(var: impl Fn(&str) -> Option<String>, nodes: &str, template: &str) -> Self {
        let is = |key: &str, value: &str| var(key).as_deref() == Some(value);
        let is_same = is("QUORLOCK_NODES", nodes) && is("QUORLOCK_KEY_TEMPLATE", template);
        let Some(name) = var("QUORLOCK_NAME").filter(|_| is_same) else { return Self::default() };
        let further = var("QUORLOCK_OUTER").and_then(|text| serde_json::from_str(&text).ok());
        let kind = match var("QUORLOCK_KIND").as_deref() {
            Some("shared") => Kind::Shared,
            Some("slots") => Kind::Slots,
            _ => Kind::Exclusive,
        };
        let mut all: Vec<Around> = further.unwrap_or_default();
        all.push(Around { name, kind, owner: var("QUORLOCK_OWNER") });
        Self(all)
    }

    /// The nearest that holds this name.
    pub(super) fn of(&self, name: &str) -> Option<&Around> {
        self.0.iter().rev().find(|around| around.name == name)
    }

    /// What the command is told of the runs around its own.
    pub(super) fn to_environment(&self) -> Option<String> {
        // They are made of text: that cannot fail, and without it a deeper run waits for the lock like anybody else.
        (!self.0.is_empty()).then(|| serde_json::to_string(&self.0).ok()).flatten()
    }
}

impl Around {
    /// As whom it holds.
    pub(super) fn owner(&self) -> Option<Owner> {
        self.owner.as_deref().and_then(Owner::parse)
    }
}

impl Kind {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Slots => "slots",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(environment: &[(&str, &str)], nodes: &str) -> Outer {
        let var = |key: &str| environment.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        Outer::read(var, nodes, "{name}")
    }

    #[test]
    fn the_runs_around_are_known_by_their_names() {
        let owner = Owner::new();
        let text = owner.reveal();
        let place = [("QUORLOCK_NODES", "n"), ("QUORLOCK_KEY_TEMPLATE", "{name}")];
        let outermost = read(&[&place[..], &[("QUORLOCK_NAME", "a"), ("QUORLOCK_OWNER", &text)]].concat(), "n");
        let chain = outermost.to_environment().unwrap();
        let inner = [("QUORLOCK_NAME", "b"), ("QUORLOCK_KIND", "slots"), ("QUORLOCK_OUTER", &*chain)];
        let both = [&place[..], &inner].concat();
        let outer = read(&both, "n");
        assert!(outer.of("a").unwrap().owner() == Some(owner));
        assert_eq!(outer.of("b").unwrap().kind, Kind::Slots);
        assert!(outer.of("c").is_none());
        assert!(read(&both, "others").of("a").is_none(), "on other nodes");
    }
}
