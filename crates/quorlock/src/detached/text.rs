//! A detached lease as one word: `q1.<name>.<lease id>.<fence>.<ttl>.<mode>.<holder>.<sum>`.
//!
//! The name and the holder stay readable: only bytes that are not allowed in the word are written as `%` and two
//! hexadecimal digits.

use std::fmt::Write as _;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, Name, OwnerId};
use quorlock_core::terms::{Mode, PERMITS_MAX};
use quorlock_core::time::{TTL_MAX, Ttl};

use super::DetachedLease;

/// The prefix of version 1 of the text.
const VERSION: &str = "q1.";
/// The initial capacity of a text. Most texts are not longer.
const TEXT_BYTES_USUAL: usize = 256;

/// The text is not a lease. The error does not repeat the text, because it may contain a part of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseTextError {
    /// The text is empty.
    #[error("the lease is empty")]
    Empty,
    /// The text does not have the prefix of a lease.
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
    let mut text = String::with_capacity(TEXT_BYTES_USUAL);
    text.push_str(VERSION);
    escape(&mut text, name.as_str());
    text.push('.');
    text.extend(id.reveal_digits().map(char::from));
    // Writing to a string cannot fail.
    let _ = match fence {
        Some(fence) => write!(text, ".{fence}."),
        None => write!(text, ".-."),
    };
    let _ = write!(text, "{}.", ttl.as_millis());
    write_mode(&mut text, *mode);
    text.push('.');
    escape(&mut text, holder);
    let sum = sum(&text);
    text.push('.');
    text.push_str(&sum);
    text
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
    let (body, written_sum) = text.rsplit_once('.')?;
    if text.len() > DetachedLease::TEXT_BYTES_MAX || written_sum != sum(body) {
        return None;
    }
    let parts: Vec<&str> = body.split('.').collect();
    let [_version, name, id, fence, ttl, mode, holder] = parts[..] else { return None };
    let fence = if fence == "-" { None } else { Some(Fence::new(parse_number(fence)?)) };
    let mode = read_mode(mode)?;
    // A plain lock can only be exclusive.
    if fence.is_none() && mode != Mode::EXCLUSIVE {
        return None;
    }
    Some(DetachedLease {
        name: Name::new(&unescape(name)?).ok()?,
        id: LeaseId::parse(id)?,
        fence,
        ttl: Ttl::new(Duration::from_millis(parse_number(ttl)?), TTL_MAX).ok()?,
        mode,
        holder: unescape(holder).filter(|holder| Holder::decode(holder).is_some())?.into(),
    })
}

fn write_mode(text: &mut String, mode: Mode) {
    let _ = match mode {
        Mode::Exclusive { writer: None } => write!(text, "x"),
        Mode::Exclusive { writer: Some(owner) } => write!(text, "w:{}", owner.reveal()),
        Mode::Reentrant { owner } => write!(text, "r:{}", owner.reveal()),
        Mode::Shared { owner, .. } => write!(text, "s:{}", owner.reveal()),
        Mode::Slot { permits, slot } => write!(text, "k:{slot}/{permits}"),
    };
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
            let (slot, permits) = (parse_number(slot)?, parse_number(permits)?);
            let (slot, permits) = (u32::try_from(slot).ok()?, u32::try_from(permits).ok()?);
            (slot < permits && permits <= PERMITS_MAX).then_some(Mode::Slot { permits, slot })
        }
        _ => None,
    }
}

/// Parses a number that consists of digits only: `str::parse` would also accept a sign.
fn parse_number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Appends a text to the word, with `%` escapes.
fn escape(word: &mut String, text: &str) {
    let hex_digit = |bits: u8| char::from(b"0123456789abcdef"[usize::from(bits & 15)]);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte) {
            word.push(char::from(byte));
        } else {
            word.extend(['%', hex_digit(byte >> 4), hex_digit(byte)]);
        }
    }
}

fn unescape(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let hex_digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            u8::try_from(hex_digit(rest.next())? * 16 + hex_digit(rest.next())?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns a checksum (32-bit FNV-1a) that detects typing errors. It does not protect against forgery.
pub(crate) fn sum(text: &str) -> String {
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{sum:08x}")
}
