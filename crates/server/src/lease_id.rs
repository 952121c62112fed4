//! What a caller has of a lease: one word, which is a secret.

use std::fmt::Write;

use quorlock::HandedLease;

use crate::auth::sha256;
use crate::problem::{Code, Problem};

/// What the word begins with if the lease was asked for with a key: it is the key that is released then.
const KEYED: &str = "key.";
/// How many bytes of its hash such a word ends with: without its beginning it is no lease, and no other becomes one by it.
const SUM_BYTES: usize = 4;

/// A lease, as the service gives it away.
pub(crate) struct LeaseWord {
    pub(crate) lease: HandedLease,
    /// Whether it was asked for with a key.
    pub(crate) is_keyed: bool,
}

impl LeaseWord {
    /// Reads the word, which has to be for this name.
    pub(crate) fn read(name: &str, word: &str) -> Result<Self, Problem> {
        let garbled = || Problem::new(Code::NotHolder, "this is no lease_id: send the whole of it, as it was given");
        let is_keyed = word.starts_with(KEYED);
        let text = if is_keyed { without_sum(word) } else { Some(word) };
        let lease: HandedLease = text.and_then(|text| text.parse().ok()).ok_or_else(garbled)?;
        if lease.name().as_str() != name {
            return Err(Problem::new(Code::NotHolder, format!("this is a lease of another name than {name:?}")));
        }
        Ok(Self { lease, is_keyed })
    }

    pub(crate) fn reveal(&self) -> String {
        let word = self.lease.reveal();
        if !self.is_keyed {
            return word;
        }
        let keyed = format!("{KEYED}{word}");
        let sum = sum_of(&keyed);
        format!("{keyed}.{sum}")
    }
}

fn without_sum(word: &str) -> Option<&str> {
    let (keyed, sum) = word.rsplit_once('.')?;
    keyed.strip_prefix(KEYED).filter(|_| sum == sum_of(keyed))
}

fn sum_of(keyed: &str) -> String {
    sha256(keyed.as_bytes())[..SUM_BYTES].iter().fold(String::new(), |mut sum, byte| {
        // Writing to a string cannot fail.
        let _ = write!(sum, "{byte:02x}");
        sum
    })
}

#[cfg(test)]
mod tests {
    use quorlock::{Client, MemoryNodes};

    use super::*;

    #[tokio::test]
    async fn a_word_is_read_whole_or_not_at_all() {
        let client = Client::builder().memory(&MemoryNodes::new(1)).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap().hand_over().unwrap();
        for is_keyed in [false, true] {
            let word = LeaseWord { lease: lease.clone(), is_keyed }.reveal();
            let read = LeaseWord::read("a", &word).unwrap();
            assert_eq!((read.lease.reveal(), read.is_keyed), (lease.reveal(), is_keyed));
            for cut in 1..word.len() {
                assert!(LeaseWord::read("a", &word[cut..]).is_err(), "without its first {cut} bytes");
                assert!(LeaseWord::read("a", &word[..cut]).is_err(), "only its first {cut} bytes");
            }
            assert!(LeaseWord::read("a", &format!("{KEYED}{word}")).is_err());
            assert!(LeaseWord::read("b", &word).is_err());
        }
    }
}
