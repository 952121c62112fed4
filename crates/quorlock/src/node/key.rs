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
    prefix: String,
    /// The text after the name.
    suffix: String,
    /// Whether the keys are stored in a Redis Cluster.
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
            Some((prefix, suffix)) if !suffix.contains("{name}") => {
                Ok(Self { prefix: prefix.into(), suffix: suffix.into(), in_cluster: false })
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
        let text = [&self.prefix, name.as_str(), &self.suffix].concat();
        if text.starts_with(RESERVED_PREFIX) {
            return Err(ConfigError::ReservedKey { key: text });
        }
        let slot = self.in_cluster.then(|| Slot::of(&text));
        Ok(LockKey { name: name.clone(), text, slot })
    }

    /// Returns the span of the keys of all names that start with `name_prefix`.
    pub(crate) fn span(&self, name_prefix: &str) -> KeySpan {
        let Self { prefix, suffix, .. } = self;
        KeySpan {
            start: format!("{prefix}{name_prefix}"),
            end: suffix.clone(),
            has_fixed_text: !prefix.is_empty() || !suffix.is_empty(),
        }
    }

    /// Returns the name that has this key, or `None` if the key does not belong to a lock.
    pub(crate) fn name_of(&self, key: &str) -> Option<Name> {
        let name = key.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)?;
        Name::new(name).ok().filter(|_| !key.starts_with(RESERVED_PREFIX))
    }
}

/// The keys of all names with a common prefix: keys with this start and this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySpan {
    pub(crate) start: String,
    pub(crate) end: String,
    /// Whether the template has text besides the name. This text distinguishes keys of locks from other data.
    pub(crate) has_fixed_text: bool,
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
        for other_key in ["locks/:x", "locks/a", "a:x", "locks/a:x "] {
            assert_eq!(template.name_of(other_key), None, "{other_key}");
        }
        let name_only = KeyTemplate::new("{name}").unwrap();
        assert_eq!(name_only.name_of("quorlock~epoch"), None);
        assert_eq!(name_only.name_of("a"), Name::new("a").ok());
    }

    #[test]
    fn a_span_contains_the_keys_of_names_with_its_prefix() {
        let template = KeyTemplate::new("locks/{name}:x").unwrap();
        let span = template.span("in");
        for (name, matches) in [("in", true), ("invoices", true), ("i", false), ("", false)] {
            assert_eq!(span.matches(&format!("locks/{name}:x")), matches, "{name}");
        }
        assert!(span.has_fixed_text && !KeyTemplate::new("{name}").unwrap().span("in").has_fixed_text);
    }

    #[test]
    fn a_name_whose_key_would_be_a_companion_key_is_rejected() {
        let name_only = KeyTemplate::new("{name}").unwrap();
        let key = |name| name_only.key(&Name::new(name).unwrap());
        assert_eq!(key("invoices/42").unwrap().text, "invoices/42");
        assert!(key("quorlock~epoch").is_err());
        assert!(key("quorlock:fine").is_ok());
    }
}
