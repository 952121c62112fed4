//! Who asks, and what they may do.

mod caller;
mod file;
mod scope;

pub(crate) use caller::{Anybody, Caller, Peer};
pub use file::{ClientsError, hash_bearer_token};
pub(crate) use scope::Scope;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use scope::Scopes;

/// The clients that a service knows: read from a file with a line for each, by [`parse`](Self::parse).
#[derive(Clone, Debug, Default)]
pub struct Clients {
    known: Vec<Arc<Known>>,
}

/// A client, and what it may do.
#[derive(Clone, Debug)]
struct Known {
    name: Arc<str>,
    proof: Proof,
    scopes: Scopes,
    names: Vec<quorlock::Filter>,
}

/// By what a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The hash of its bearer token.
    Bearer([u8; 32]),
    /// The hash of its certificate.
    Certificate([u8; 32]),
}

impl Clients {
    /// Whose proof it is. The hashes of what was sent are compared: how long that takes tells nothing of use.
    fn find(&self, proof: Proof) -> Option<&Arc<Known>> {
        self.known.iter().find(|known| known.proof == proof)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
