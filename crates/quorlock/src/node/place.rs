//! Where a name's record is kept on a node.

use quorlock_core::name::Name;

use crate::error::ConfigError;

/// Companion keys start with this, and no lock's key may.
pub(crate) const RESERVED_PREFIX: &str = "quorlock~";

/// How a name becomes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTemplate(String);

impl KeyTemplate {
    pub(crate) const DEFAULT: &str = "quorlock:{name}";

    pub(crate) fn new(template: &str) -> Result<Self, ConfigError> {
        if template.matches("{name}").count() != 1 {
            return Err(ConfigError::KeyTemplate { template: template.into() });
        }
        Ok(Self(template.into()))
    }

    /// The place of a name.
    pub(crate) fn place(&self, name: &Name) -> Result<Place, ConfigError> {
        let key = self.0.replace("{name}", name.as_str());
        if key.starts_with(RESERVED_PREFIX) {
            return Err(ConfigError::ReservedKey { key });
        }
        Ok(Place { name: name.clone(), key })
    }
}

/// A name and the key that it has on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: Name,
    pub(crate) key: String,
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
    fn a_lock_cannot_sit_on_a_companion_key() {
        let bare = KeyTemplate::new("{name}").unwrap();
        let place = |name| bare.place(&Name::new(name).unwrap());
        assert_eq!(place("invoices/42").unwrap().key, "invoices/42");
        assert!(place("quorlock~epoch").is_err());
        assert!(place("quorlock:fine").is_ok());
    }
}
