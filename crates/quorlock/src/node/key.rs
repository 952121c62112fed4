//! The keys under which nodes store the records of locks.

use quorlock_core::name::Name;

use crate::error::ConfigError;
use crate::node::LockKey;
use crate::node::redis::slot::Slot;

/// The prefix of companion keys, which are a lock's further keys, such as the key of its fence. A lock's own key must
/// not have this prefix.
pub(crate) const RESERVED_PREFIX: &str = "quorlock~";

/// Maps names to keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTemplate {
    /// The text before the name.
    before: String,
    /// The text after the name.
    after: String,
    in_cluster: bool,
}

impl Default for KeyTemplate {
    fn default() -> Self {
        Self::new(Self::DEFAULT).expect("the default template contains {name} once")
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

    /// Returns the same template for a Redis Cluster.
    pub(crate) fn in_cluster(self) -> Self {
        Self { in_cluster: true, ..self }
    }

    /// Returns the key of a name.
    pub(crate) fn key(&self, name: &Name) -> Result<LockKey, ConfigError> {
        let text = [&self.before, name.as_str(), &self.after].concat();
        if text.starts_with(RESERVED_PREFIX) {
            return Err(ConfigError::ReservedKey { key: text });
        }
        let slot = self.in_cluster.then(|| Slot::of(&text));
        Ok(LockKey { name: name.clone(), text, slot })
    }

    /// Returns the span of the keys of all names that start with `prefix`.
    pub(crate) fn span(&self, prefix: &str) -> KeySpan {
        let Self { before, after, .. } = self;
        KeySpan {
            start: format!("{before}{prefix}"),
            end: after.clone(),
            is_fixed: !before.is_empty() || !after.is_empty(),
        }
    }

    /// Returns the name that has this key, or `None` if the key does not belong to a lock.
    pub(crate) fn name_of(&self, key: &str) -> Option<Name> {
        let name = key.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        Name::new(name).ok().filter(|_| !key.starts_with(RESERVED_PREFIX))
    }
}

/// The keys of all names with a common prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySpan {
    pub(crate) start: String,
    pub(crate) end: String,
    /// Whether the template has fixed text that distinguishes keys of locks from other data.
    pub(crate) is_fixed: bool,
}

impl KeySpan {
    pub(crate) fn matches(&self, key: &str) -> bool {
        key.starts_with(&self.start) && key.ends_with(&self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_contains_the_placeholder_for_the_name_exactly_once() {
        assert!(KeyTemplate::new("locks/{name}/x").is_ok());
        for wrong in ["", "name", "{name}{name}"] {
            assert!(KeyTemplate::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_converted_back_to_its_name() {
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
    fn a_span_contains_the_keys_of_names_with_its_prefix() {
        let template = KeyTemplate::new("locks/{name}:x").unwrap();
        let span = template.span("in");
        for (name, matches) in [("in", true), ("invoices", true), ("i", false), ("", false)] {
            assert_eq!(span.matches(&format!("locks/{name}:x")), matches, "{name}");
        }
        assert!(span.is_fixed && !KeyTemplate::new("{name}").unwrap().span("in").is_fixed);
    }

    #[test]
    fn a_name_whose_key_would_be_a_companion_key_is_rejected() {
        let bare = KeyTemplate::new("{name}").unwrap();
        let key = |name| bare.key(&Name::new(name).unwrap());
        assert_eq!(key("invoices/42").unwrap().text, "invoices/42");
        assert!(key("quorlock~epoch").is_err());
        assert!(key("quorlock:fine").is_ok());
    }
}
