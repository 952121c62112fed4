//! Authentication and authorization of callers.

mod caller;
mod file;

pub(crate) use caller::{Caller, Peer, PublicRequest};
pub use file::{ClientsError, hash_bearer_token};

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use quorlock::Filter;
use sha2::{Digest, Sha256};

use crate::limiter::limit_key_of;
use crate::problem::{Code, Problem};

/// The HTTP clients that may call a service. [`parse`](Self::parse) reads them from the text of a file, which has one
/// line for each client.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Each client by the hash of its bearer token (`sha256:..`) or of its certificate (`cert:..`). Only hashes are
    /// compared, so the timing of a lookup reveals nothing about a secret.
    identities: HashMap<String, Arc<Identity>>,
}

/// The name and the permissions of a caller.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: String,
    /// The key under which the limiter counts the requests, waits and connections of this caller.
    pub(crate) limit_key: Arc<str>,
    scopes: Vec<Scope>,
    /// The patterns of the names that this caller has access to.
    pub(crate) name_patterns: Vec<Filter>,
}

/// A permission for one kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Read locks, nodes, history and metrics.
    Read,
    /// Acquire, renew and release locks.
    Lock,
    /// Break leases of other clients.
    Admin,
}

impl Scope {
    const ALL: [(&str, Self); 3] = [("read", Self::Read), ("lock", Self::Lock), ("admin", Self::Admin)];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, scope)| *scope)
    }
}

impl Identity {
    /// Returns the identity of an unauthenticated caller at this address. The identity has all permissions.
    pub(crate) fn anonymous(address: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            name: address.to_string(),
            limit_key: limit_key_of(address).into(),
            scopes: Scope::ALL.map(|(_, scope)| scope).into(),
            name_patterns: vec![Filter::default()],
        })
    }

    /// Checks that the caller has this scope.
    pub(crate) fn check_scope(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let word = Scope::ALL.iter().find(|(_, known)| *known == scope).map_or("", |(word, _)| word);
        Err(Problem::new(Code::Forbidden, format!("the client {:?} does not have the scope {word:?}", self.name)))
    }

    /// Checks that the caller has this scope, and access to the lock with this name.
    pub(crate) fn check_scope_and_name(&self, scope: Scope, name: &str) -> Result<(), Problem> {
        self.check_scope(scope)?;
        if self.has_access_to(name) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("the client {:?} has no access to the name {name:?}", self.name)))
    }

    /// Returns whether the caller has access to the lock with this name.
    pub(crate) fn has_access_to(&self, name: &str) -> bool {
        self.name_patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns the hash of a bearer token, as it is written in the file of clients.
fn hash_of_token(token: &str) -> String {
    format!("sha256:{}", hex(&sha256(token.as_bytes())))
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |byte: u8| char::from_digit(byte.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
