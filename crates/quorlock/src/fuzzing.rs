//! Properties of everything that parses outside input, for property tests and the fuzzers in `fuzz/`.
//!
//! Every function panics if its property does not hold. Built for tests and with the feature `fuzzing` only, like
//! [`watch_requests`], with which tests see which requests share a command.

use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, NAME_BYTES_MAX, Name};
use quorlock_core::terms::Mode;
use quorlock_core::time::{TTL_MAX, Ttl};

use crate::detached::DetachedLease;
use crate::node::key::{KeyTemplate, RESERVED_PREFIX};
pub use crate::node::redis::watch::{Watcher, watch_requests};
use crate::node::url::{NodeUrl, mask_url};

/// How often a client looks at a node that is idle.
pub const HEARTBEAT: Duration = crate::api::builder::HEARTBEAT;

/// What a node answers: no panic, and no grant but one that is a grant word for word.
pub fn answer(bytes: &[u8]) {
    crate::node::redis::take_anything(bytes);
}

/// The text of a lease: what can be read is written as something that reads the same, and shown without its secret.
pub fn lease(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(lease) = text.parse::<DetachedLease>() else { return };
    let word = lease.reveal();
    assert_eq!(word.parse(), Ok(lease.clone()), "it reads otherwise than it was written");
    assert!(!format!("{lease} {lease:?}").contains(&lease.id().reveal()), "its secret is shown");
}

/// A name: in bounds or refused; its key leads back to it and is no companion's, and a lease with it survives its text.
pub fn name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(name) = Name::new(text) else {
        assert!(text.is_empty() || text.len() > NAME_BYTES_MAX, "a good name was refused");
        return;
    };
    for template in [KeyTemplate::DEFAULT, "{name}", "locks/{{name}}:x"] {
        let template = KeyTemplate::new(template).expect("it names its name once");
        for template in [template.clone(), template.in_cluster()] {
            let Ok(key) = template.key(&name) else { continue };
            assert!(!key.text.starts_with(RESERVED_PREFIX), "it sits on a companion's key");
            assert_eq!(template.name_of(&key.text), Some(name.clone()), "its key leads elsewhere");
        }
    }
    let lease = DetachedLease {
        name,
        id: LeaseId::from_bits(7),
        fence: Some(Fence::new(7)),
        ttl: Ttl::new(Duration::from_secs(1), TTL_MAX).expect("it is within bounds"),
        mode: Mode::EXCLUSIVE,
        holder: Holder::new(text, 7, text).encode().into(),
    };
    assert_eq!(lease.reveal().parse(), Ok(lease), "a lease of this name cannot be detached");
}

/// What stands for a password in URLs that are tried.
const PASSWORD: &str = "pa55w0rd";

/// A node's URL: parsed or refused, and neither its title nor the refusal shows the password.
pub fn url(bytes: &[u8]) {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(PASSWORD)) else { return };
    for text in [text.to_owned(), format!("redis://u:{PASSWORD}@{text}"), format!("rediss://:{PASSWORD}@{text}")] {
        let shown = match NodeUrl::parse(&text, None) {
            Ok(NodeUrl::Redis(origin)) => origin.to_string(),
            Ok(_) => String::new(),
            Err(why) => why,
        };
        assert!(!shown.contains(PASSWORD), "the password is shown: {shown}");
        assert!(!mask_url(&text).contains(PASSWORD), "the password is not masked: {}", mask_url(&text));
    }
}

#[cfg(test)]
mod tests;
