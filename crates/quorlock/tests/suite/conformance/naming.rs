//! Valid and invalid names and ttls. The client checks them before it sends anything to a node.

use std::time::Duration;

use quorlock::{AcquireError, ConfigError, ConnectError, Lock, NAME_BYTES_MAX, NameError, TTL_MIN};

use crate::conformance::backend::{Backend, LONG, assert_held};

pub(crate) async fn every_valid_name_can_be_locked(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let longest_name = "x".repeat(NAME_BYTES_MAX);
    let longest_two_byte_name = "\u{e9}".repeat(NAME_BYTES_MAX / 2);
    let unusual_names =
        [" ", "two words", "two\nlines\r\n", "\0", "{name}", "*", "%s %d", "'\"\\`$(x)", "\u{9501}/42", "\u{1f512}"];
    for name in unusual_names.into_iter().chain([longest_name.as_str(), &longest_two_byte_name]) {
        let lease = our_client.lock(name).acquire().await.unwrap();
        assert_eq!(lease.name().as_str(), name);
        assert_held(&their_client, name).await;
        lease.release().await.unwrap();
        their_client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn names_are_compared_by_bytes(backend: &Backend) {
    let client = backend.client().await;
    let mut leases = Vec::new();
    // The last two names look the same: one is a single character, the other a letter with a combining accent.
    for name in ["a", "A", "a ", " a", "a\n", "a\0", "aa", "\u{e9}", "e\u{301}"] {
        leases.push(client.lock(name).try_acquire().await.unwrap().unwrap());
    }
    for lease in leases {
        lease.release().await.unwrap();
    }
}

pub(crate) async fn an_invalid_name_is_refused(backend: &Backend) {
    let client = backend.client().await;
    let too_long = NAME_BYTES_MAX + 1;
    for (name, error) in [
        (String::new(), NameError::Empty),
        ("x".repeat(too_long), NameError::TooLong { bytes: too_long }),
        // The number of characters is within the limit, but the number of bytes is not.
        ("\u{e9}".repeat(NAME_BYTES_MAX), NameError::TooLong { bytes: NAME_BYTES_MAX * 2 }),
    ] {
        assert_refused(&client.lock(&name), &ConfigError::Name(error)).await;
        assert_refused(&client.lock(&name).plain(), &ConfigError::Name(error)).await;
    }
    assert_eq!(backend.lock_keys(), [""; 0]);
}

pub(crate) async fn a_ttl_out_of_bounds_is_refused(backend: &Backend) {
    let client = backend.client().await;
    let nanosecond = Duration::from_nanos(1);
    for ttl in [Duration::ZERO, TTL_MIN.saturating_sub(nanosecond), LONG + nanosecond, Duration::MAX] {
        let error = quorlock::TtlError { ttl, max_ttl: LONG };
        assert_refused(&client.lock("a").ttl(ttl), &ConfigError::Ttl(error)).await;
        let connected = backend.builder().ttl(ttl).connect().await;
        assert_eq!(connected.unwrap_err(), ConnectError::Config(ConfigError::Ttl(error)));
    }
    assert_eq!(backend.lock_keys(), [""; 0]);
}

pub(crate) async fn the_smallest_and_the_largest_ttl_are_accepted(backend: &Backend) {
    let client = backend.client().await;
    for ttl in [TTL_MIN, LONG] {
        let lease = client.lock("a").ttl(ttl).acquire().await.unwrap();
        assert!(lease.validity() < ttl);
        drop(lease);
    }
}

/// Checks that every method that acquires this lock returns this error.
async fn assert_refused(lock: &Lock, error: &ConfigError) {
    let error = AcquireError::Config(error.clone());
    assert_eq!(lock.try_acquire().await.unwrap_err(), error);
    assert_eq!(lock.acquire().await.unwrap_err(), error);
    assert_eq!(lock.acquire_within(LONG).await.unwrap_err(), error);
    assert_eq!(lock.run(async |_| ()).await.unwrap_err(), error.into());
}
