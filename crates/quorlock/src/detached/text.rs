//! A detached lease as one word: `q1.<name>.<lease id>.<fence>.<ttl>.<mode>.<holder>.<checksum>`.
//!
//! The name and the holder stay readable: only bytes that are not allowed in the word are written as `%` and two
//! hexadecimal digits.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, Name, OwnerId};
use quorlock_core::terms::{Mode, PERMITS_MAX};
use quorlock_core::time::{TTL_MAX, Ttl};

use super::DetachedLease;

/// The prefix of version 1 of the text.
const VERSION: &str = "q1.";
/// The bytes that are not allowed in the word.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'/').remove(b':');

/// The text is not a lease. The error does not repeat the text, because it may contain a part of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseTextError {
    /// The text is empty.
    #[error("the lease is empty")]
    Empty,
    /// The text does not start like a lease of any version.
    #[error("this is not a lease: a lease starts with \"q1.\"")]
    Foreign,
    /// The text has the prefix of another version.
    #[error(
        "this lease was written by a newer version of quorlock: this version reads only leases that start with \"q1.\""
    )]
    Version,
    /// The text was truncated or changed.
    #[error("this lease was truncated or changed: copy the whole word, which starts with \"q1.\"")]
    Garbled,
}

pub(super) fn write(lease: &DetachedLease) -> String {
    let DetachedLease { name, id, fence, ttl, mode, holder } = lease;
    let (name, id, holder) = (escape(name.as_str()), id.reveal(), escape(holder));
    let fence = fence.map_or_else(|| "-".into(), |fence| fence.to_string());
    let body = format!("{VERSION}{name}.{id}.{fence}.{}.{}.{holder}", ttl.as_millis(), mode_text(*mode));
    format!("{body}.{}", checksum(&body))
}

pub(super) fn read(text: &str) -> Result<DetachedLease, LeaseTextError> {
    if text.is_empty() {
        return Err(LeaseTextError::Empty);
    }
    if !text.starts_with(VERSION) {
        let version = text.strip_prefix('q').and_then(|rest| rest.split_once('.')).map(|(version, _)| version);
        let is_lease = version.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
        return Err(if is_lease { LeaseTextError::Version } else { LeaseTextError::Foreign });
    }
    read_parts(text).ok_or(LeaseTextError::Garbled)
}

fn read_parts(text: &str) -> Option<DetachedLease> {
    if text.len() > DetachedLease::TEXT_BYTES_MAX {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    let [_version, name, id, fence, ttl, mode, holder, _checksum] = parts[..] else { return None };
    let fence = if fence == "-" { None } else { Some(Fence::new(fence.parse().ok()?)) };
    let mode = read_mode(mode)?;
    // A plain lock can only be exclusive.
    if fence.is_none() && mode != Mode::EXCLUSIVE {
        return None;
    }
    let lease = DetachedLease {
        name: Name::new(&unescape(name)?).ok()?,
        id: LeaseId::parse(id)?,
        fence,
        ttl: Ttl::new(Duration::from_millis(ttl.parse().ok()?), TTL_MAX).ok()?,
        mode,
        holder: unescape(holder).filter(|holder| Holder::decode(holder).is_some())?.into(),
    };
    // A lease has only one text. The comparison also finds a wrong checksum.
    (write(&lease) == text).then_some(lease)
}

fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Exclusive { writer: None } => "x".into(),
        Mode::Exclusive { writer: Some(owner) } => format!("w:{}", owner.reveal()),
        Mode::Reentrant { owner } => format!("r:{}", owner.reveal()),
        Mode::Shared { owner, .. } => format!("s:{}", owner.reveal()),
        Mode::Slot { permits, slot } => format!("k:{slot}/{permits}"),
    }
}

fn read_mode(text: &str) -> Option<Mode> {
    if text == "x" {
        return Some(Mode::EXCLUSIVE);
    }
    match text.split_once(':')? {
        ("w", owner) => Some(Mode::Exclusive { writer: Some(OwnerId::parse(owner)?) }),
        ("r", owner) => Some(Mode::Reentrant { owner: OwnerId::parse(owner)? }),
        ("s", owner) => Some(Mode::Shared { owner: OwnerId::parse(owner)?, reenters: false }),
        ("k", slots) => {
            let (slot, permits) = slots.split_once('/')?;
            let (slot, permits) = (slot.parse().ok()?, permits.parse().ok()?);
            (slot < permits && permits <= PERMITS_MAX).then_some(Mode::Slot { permits, slot })
        }
        _ => None,
    }
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn unescape(word: &str) -> Option<String> {
    percent_decode_str(word).decode_utf8().ok().map(Cow::into_owned)
}

/// Returns a checksum (32-bit FNV-1a) that detects typing errors. It does not protect against forgery.
pub(crate) fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}
