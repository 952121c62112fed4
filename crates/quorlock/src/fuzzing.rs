//! Properties of all parsers of outside input, for property tests and for the fuzzers in `fuzz/`.
//!
//! Each function checks one parser with the given bytes, and panics if the parser violates a property. This module
//! exists only in tests and with the feature `fuzzing`. It also exports [`watch_requests`], which shows tests which
//! requests share a command.

use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, NAME_BYTES_MAX, Name};
use quorlock_core::terms::Mode;
use quorlock_core::time::{TTL_MAX, Ttl};

use crate::detached::DetachedLease;
use crate::node::key::{KeyTemplate, RESERVED_PREFIX};
use crate::node::membership_text::{parse_membership, parse_roster, write_epoch, write_membership, write_roster};
pub use crate::node::redis::watch::{Watcher, watch_requests};
use crate::node::url::{NodeUrl, mask_url};

/// How often a client checks an idle node.
pub const HEARTBEAT: Duration = crate::api::builder::HEARTBEAT;

/// A node's answer: the parser accepts a grant only if the bytes are exactly a grant.
pub fn answer(bytes: &[u8]) {
    crate::node::redis::take_anything(bytes);
}

/// The text of a lease: a lease that was read is written as a text that is read as the same lease. `Display` and
/// `Debug` do not show the secret.
pub fn lease(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(lease) = text.parse::<DetachedLease>() else { return };
    let word = lease.reveal();
    assert_eq!(word.parse(), Ok(lease.clone()), "the lease was not read as it was written");
    assert!(!format!("{lease} {lease:?}").contains(&lease.id().reveal()), "the lease id is shown");
}

/// A membership, and a roster: a text that is accepted is exactly the text that would be written. The first line of a
/// membership is the text of its epoch.
pub fn membership(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(roster) = parse_roster(text) {
        assert_eq!(write_roster(&roster), text, "the roster was not read as it was written");
    }
    let Some((epoch_text, rest)) = text.split_once('\n') else { return };
    if let Some(membership) = parse_membership(epoch_text, rest) {
        assert_eq!(write_epoch(&membership), epoch_text, "the epoch was not read as it was written");
        assert_eq!(write_membership(&membership), rest, "the membership was not read as it was written");
    }
}

/// A name: a name of invalid length is rejected. The key of a valid name is converted back to the same name and is not
/// a companion key. A detached lease with this name is read as it was written.
pub fn name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(name) = Name::new(text) else {
        assert!(text.is_empty() || text.len() > NAME_BYTES_MAX, "a valid name was rejected");
        return;
    };
    for template in [KeyTemplate::DEFAULT, "{name}", "locks/{{name}}:x"] {
        let template = KeyTemplate::new(template).expect("the template contains {name} once");
        for template in [template.clone(), template.in_cluster()] {
            let Ok(key) = template.key(&name) else { continue };
            assert!(!key.text.starts_with(RESERVED_PREFIX), "the lock's key is a companion key");
            assert_eq!(template.name_of(&key.text), Some(name.clone()), "the key is converted to another name");
        }
    }
    let lease = DetachedLease {
        name,
        id: LeaseId::from_bits(7),
        fence: Some(Fence::new(7)),
        ttl: Ttl::new(Duration::from_secs(1), TTL_MAX).expect("a second is a valid ttl"),
        mode: Mode::EXCLUSIVE,
        holder: Holder::new(text, 7, text).encode().into(),
    };
    assert_eq!(lease.reveal().parse(), Ok(lease), "a detached lease of this name was not read as it was written");
}

/// The password in the tested URLs.
const PASSWORD: &str = "pa55w0rd";

/// A node's URL: neither the title of a parsed URL nor the error of a rejected URL shows the password.
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
