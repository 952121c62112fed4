//! What a caller has of a lease: one word, which is a secret.

use quorlock::HandedLease;

use crate::problem::{Code, Problem};

/// What the word begins with if the lease was asked for with a key: it is the key that is released then.
const KEYED: &str = "key.";

/// A lease, as the service gives it away.
pub(crate) struct LeaseWord {
    pub(crate) lease: HandedLease,
    /// Whether it was asked for with a key.
    pub(crate) is_keyed: bool,
}

impl LeaseWord {
    /// Reads the word, which has to be for this name.
    pub(crate) fn read(name: &str, word: &str) -> Result<Self, Problem> {
        let (is_keyed, rest) = word.strip_prefix(KEYED).map_or((false, word), |rest| (true, rest));
        let lease: HandedLease = rest.parse().map_err(|error| Problem::new(Code::NotHolder, format!("{error}")))?;
        if lease.name().as_str() != name {
            return Err(Problem::new(Code::NotHolder, format!("this is a lease of another name than {name:?}")));
        }
        Ok(Self { lease, is_keyed })
    }

    pub(crate) fn reveal(&self) -> String {
        let word = self.lease.reveal();
        if self.is_keyed { format!("{KEYED}{word}") } else { word }
    }
}
