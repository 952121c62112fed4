//! Where a name's record is kept on a node.

use quorlock_core::name::Name;

use crate::error::ConfigError;
use crate::node::redis::slot::Slot;

/// Companion keys start with this, and no lock's key may.
pub(crate) const RESERVED_PREFIX: &str = "quorlock~";

/// How a name becomes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTemplate {
    /// What stands before the name.
    before: String,
    /// What stands behind it.
    after: String,
    in_cluster: bool,
}

impl Default for KeyTemplate {
    fn default() -> Self {
        Self::new(Self::DEFAULT).expect("it contains {name} once")
    }
}

impl KeyTemplate {
    pub(crate) const DEFAULT: &str = "quorlock:{name}";

    pub(crate) fn new(template: &str) -> Result<Self, ConfigError> {
        match template.split_once("{name}") {
            Some((before, after)) if !after.contains("{name}") => {
                Ok(Self { before: before.into(), after: after.into(), in_cluster: false })
            }
            _ => Err(ConfigError::setting("key_template", template, "contain {name} exactly once")),
        }
    }

    /// The same keys, in a Redis Cluster.
    pub(crate) fn in_cluster(self) -> Self {
        Self { in_cluster: true, ..self }
    }

    /// The key of a name.
    pub(crate) fn key(&self, name: &Name) -> Result<LockKey, ConfigError> {
        let text = [&self.before, name.as_str(), &self.after].concat();
        if text.starts_with(RESERVED_PREFIX) {
            return Err(ConfigError::ReservedKey { key: text });
        }
        let slot = self.in_cluster.then(|| Slot::of(&text));
        Ok(LockKey { name: name.clone(), text, slot })
    }

    /// The keys of all names that begin like this.
    pub(crate) fn span(&self, beginning: &str) -> KeySpan {
        let Self { before, after, .. } = self;
        KeySpan {
            start: format!("{before}{beginning}"),
            end: after.clone(),
            is_fixed: !before.is_empty() || !after.is_empty(),
        }
    }

    /// Whose key it is, if it is one.
    pub(crate) fn name_of(&self, key: &str) -> Option<Name> {
        let name = key.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        Name::new(name).ok().filter(|_| !key.starts_with(RESERVED_PREFIX))
    }
}

/// Where a group of names has its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySpan {
    pub(crate) start: String,
    pub(crate) end: String,
    /// Whether the template has a part of its own by which a key can be told from other data.
    pub(crate) is_fixed: bool,
}

impl KeySpan {
    pub(crate) fn fits(&self, key: &str) -> bool {
        key.starts_with(&self.start) && key.ends_with(&self.end)
    }
}

/// A name, and the key under which every node stores its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockKey {
    pub(crate) name: Name,
    pub(crate) text: String,
    /// Where that is in a Redis Cluster, for a client of one.
    pub(crate) slot: Option<Slot>,
}

impl LockKey {
    /// What companion keys have before the rest of their names, so that they live where the key does.
    pub(crate) fn tag(&self) -> String {
        self.slot.map(|slot| format!("{{{}}}:", slot.tag())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_its_name_once() {
        assert!(KeyTemplate::new("locks/{name}/x").is_ok());
        for wrong in ["", "name", "{name}{name}"] {
            assert!(KeyTemplate::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_leads_back_to_its_name() {
        let template = KeyTemplate::new("locks/{name}:x").unwrap();
        let name = Name::new("a/{b}").unwrap();
        let key = template.key(&name).unwrap().text;
        assert_eq!(template.name_of(&key), Some(name));
        for foreign in ["locks/:x", "locks/a", "a:x", "locks/a:x "] {
            assert_eq!(template.name_of(foreign), None, "{foreign}");
        }
        let bare = KeyTemplate::new("{name}").unwrap();
        assert_eq!(bare.name_of("quorlock~epoch"), None);
        assert_eq!(bare.name_of("a"), Name::new("a").ok());
    }

    #[test]
    fn a_span_has_the_keys_of_its_names() {
        let template = KeyTemplate::new("locks/{name}:x").unwrap();
        let span = template.span("in");
        for (name, fits) in [("in", true), ("invoices", true), ("i", false), ("", false)] {
            assert_eq!(span.fits(&format!("locks/{name}:x")), fits, "{name}");
        }
        assert!(span.is_fixed && !KeyTemplate::new("{name}").unwrap().span("in").is_fixed);
    }

    #[test]
    fn a_lock_cannot_sit_on_a_companion_key() {
        let bare = KeyTemplate::new("{name}").unwrap();
        let key = |name| bare.key(&Name::new(name).unwrap());
        assert_eq!(key("invoices/42").unwrap().text, "invoices/42");
        assert!(key("quorlock~epoch").is_err());
        assert!(key("quorlock:fine").is_ok());
    }
}
