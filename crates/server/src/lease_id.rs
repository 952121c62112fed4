//! The lease id that callers get: a secret, signed text.
//!
//! The signature proves that a replica of this service made the lease id. A release stores a tombstone (a note that the
//! lease is over) on every node, even if there is no such lease. So a caller could fill the nodes with tombstones by
//! releasing forged lease ids, if the service accepted them.

use quorlock::DetachedLease;

use crate::auth::{hex, sha256};
use crate::problem::{Code, Problem};

/// The prefix of the id of a lease that was requested with an idempotency key. A release of the lease releases the key.
const KEYED_PREFIX: &str = "key.";
/// The number of bytes of the signature at the end of a lease id.
const SIGNATURE_BYTES: usize = 16;
/// The length of the longest lease id. JSON escapes none of its characters.
pub(crate) const LEASE_ID_BYTES_MAX: usize =
    KEYED_PREFIX.len() + DetachedLease::TEXT_BYTES_MAX + 1 + 2 * SIGNATURE_BYTES;

/// The content of a lease id.
pub(crate) struct LeaseId {
    pub(crate) lease: DetachedLease,
    /// Whether the lease was requested with an idempotency key.
    pub(crate) is_keyed: bool,
}

/// Signs lease ids, and verifies lease ids that this replica or another replica signed.
///
/// The signing key is derived from the cluster's id, which every replica reads from the nodes and callers never see.
pub(crate) struct Signer {
    key: [u8; 32],
}

impl Signer {
    pub(crate) fn new(cluster_id: &str) -> Self {
        Self { key: sha256(format!("quorlock lease {cluster_id}").as_bytes()) }
    }

    /// Verifies the text of a lease id, which must be for a lock with this name.
    pub(crate) fn verify(&self, name: &str, text: &str) -> Result<LeaseId, Problem> {
        let invalid =
            || Problem::new(Code::NotHolder, "the lease_id is invalid: send it exactly as the service returned it");
        let (body, signature) = text.rsplit_once('.').ok_or_else(invalid)?;
        if !is_equal_in_constant_time(signature, &self.signature(body)) {
            return Err(invalid());
        }
        let (text, is_keyed) = body.strip_prefix(KEYED_PREFIX).map_or((body, false), |text| (text, true));
        let lease: DetachedLease = text.parse().map_err(|_| invalid())?;
        if lease.name().as_str() != name {
            return Err(Problem::new(Code::NotHolder, format!("the lease_id does not belong to the lock {name:?}")));
        }
        Ok(LeaseId { lease, is_keyed })
    }

    /// Returns the signed text of a lease id.
    pub(crate) fn sign(&self, id: &LeaseId) -> String {
        let prefix = if id.is_keyed { KEYED_PREFIX } else { "" };
        let text = format!("{prefix}{}", id.lease.reveal());
        format!("{text}.{}", self.signature(&text))
    }

    /// Hashes twice with the key, which prevents length-extension attacks.
    fn signature(&self, body: &str) -> String {
        let inner = sha256(&[&self.key, body.as_bytes()].concat());
        let outer = sha256(&[self.key, inner].concat());
        hex(&outer[..SIGNATURE_BYTES])
    }
}

fn is_equal_in_constant_time(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use quorlock::{Client, MemoryNodes};

    use super::*;

    #[tokio::test]
    async fn only_a_complete_lease_id_for_the_same_name_and_cluster_is_accepted() {
        let client = Client::builder().memory(&MemoryNodes::new(1)).connect().await.unwrap();
        let signer = Signer::new(&client.cluster_id().expect("the node is connected"));
        let lease = client.lock("a").acquire().await.unwrap().detach().unwrap();
        for is_keyed in [false, true] {
            let text = signer.sign(&LeaseId { lease: lease.clone(), is_keyed });
            let id = signer.verify("a", &text).unwrap();
            assert_eq!((id.lease.reveal(), id.is_keyed), (lease.reveal(), is_keyed));
            for cut in 1..text.len() {
                assert!(signer.verify("a", &text[cut..]).is_err(), "without the first {cut} bytes");
                assert!(signer.verify("a", &text[..cut]).is_err(), "only the first {cut} bytes");
            }
            assert!(signer.verify("a", &format!("{KEYED_PREFIX}{text}")).is_err());
            assert!(signer.verify("b", &text).is_err());
            assert!(Signer::new("another cluster").verify("a", &text).is_err());
        }
        assert!(signer.verify("a", &lease.reveal()).is_err(), "the lease has no signature");
    }
}
