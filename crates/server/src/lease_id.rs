//! The lease id that callers get: a secret, signed word.
//!
//! The signature proves that a replica of this service made the word. A release stores a tombstone (a note that the
//! lease is over) on every node, even if there is no such lease, so the service must reject forged words.

use quorlock::DetachedLease;

use crate::auth::{hex, sha256};
use crate::problem::{Code, Problem};

/// The prefix of the id of a lease that was requested with an idempotency key. Releasing the lease releases the key.
const KEYED: &str = "key.";
/// The number of bytes of the signature at the end of a word.
const SIGNATURE_BYTES: usize = 16;
/// The length of the longest lease id. JSON escapes none of its characters.
pub(crate) const LEASE_ID_BYTES_MAX: usize = KEYED.len() + DetachedLease::TEXT_BYTES_MAX + 1 + 2 * SIGNATURE_BYTES;

/// A lease in the form that callers get.
pub(crate) struct LeaseWord {
    pub(crate) lease: DetachedLease,
    /// Whether it was requested with a key.
    pub(crate) is_keyed: bool,
}

/// Signs words, and reads words that it or another replica signed.
///
/// The signing key is derived from the cluster's id, which every replica reads from the nodes and callers never see.
pub(crate) struct Signer {
    key: [u8; 32],
}

impl Signer {
    pub(crate) fn new(cluster_id: &str) -> Self {
        Self { key: sha256(format!("quorlock lease {cluster_id}").as_bytes()) }
    }

    /// Reads a word, which must be for this name.
    pub(crate) fn read(&self, name: &str, word: &str) -> Result<LeaseWord, Problem> {
        let foreign =
            || Problem::new(Code::NotHolder, "the lease_id is invalid: send it exactly as the service returned it");
        let (body, signature) = word.rsplit_once('.').ok_or_else(foreign)?;
        if !is_same(signature, &self.sign(body)) {
            return Err(foreign());
        }
        let (text, is_keyed) = body.strip_prefix(KEYED).map_or((body, false), |text| (text, true));
        let lease: DetachedLease = text.parse().map_err(|_| foreign())?;
        if lease.name().as_str() != name {
            return Err(Problem::new(Code::NotHolder, format!("the lease_id belongs to another name than {name:?}")));
        }
        Ok(LeaseWord { lease, is_keyed })
    }

    pub(crate) fn reveal(&self, word: &LeaseWord) -> String {
        let prefix = if word.is_keyed { KEYED } else { "" };
        let text = format!("{prefix}{}", word.lease.reveal());
        format!("{text}.{}", self.sign(&text))
    }

    /// Hashes twice with the key, which prevents length extension.
    fn sign(&self, body: &str) -> String {
        let inner = sha256(&[&self.key, body.as_bytes()].concat());
        let outer = sha256(&[self.key, inner].concat());
        hex(&outer[..SIGNATURE_BYTES])
    }
}

/// Compares in constant time.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use quorlock::{Client, MemoryNodes};

    use super::*;

    #[tokio::test]
    async fn a_word_is_read_whole_or_not_at_all() {
        let client = Client::builder().memory(&MemoryNodes::new(1)).connect().await.unwrap();
        let signer = Signer::new(&client.cluster_id().expect("its node is there"));
        let lease = client.lock("a").acquire().await.unwrap().detach().unwrap();
        for is_keyed in [false, true] {
            let word = signer.reveal(&LeaseWord { lease: lease.clone(), is_keyed });
            let read = signer.read("a", &word).unwrap();
            assert_eq!((read.lease.reveal(), read.is_keyed), (lease.reveal(), is_keyed));
            for cut in 1..word.len() {
                assert!(signer.read("a", &word[cut..]).is_err(), "without its first {cut} bytes");
                assert!(signer.read("a", &word[..cut]).is_err(), "only its first {cut} bytes");
            }
            assert!(signer.read("a", &format!("{KEYED}{word}")).is_err());
            assert!(signer.read("b", &word).is_err());
            assert!(Signer::new("another cluster").read("a", &word).is_err());
        }
        assert!(signer.read("a", &lease.reveal()).is_err(), "nobody has signed it");
    }
}
