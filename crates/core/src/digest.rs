//! A digest of a vote's signature, which does not reveal the lease id.

use alloc::string::String;
use core::fmt;

use crate::name::LeaseId;

/// Identifies the signer of a vote without revealing the lease id: the first 64 bits of the SHA-1 of the stored
/// signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// Returns the digest of a signature. Breaking a vote does not change its digest.
    pub fn of(signature: LeaseId) -> Self {
        Self::from_broken_signature(signature).unwrap_or_else(|| {
            let sha = sha1_smol::Sha1::from(signature.reveal()).digest().bytes();
            Self(sha[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
        })
    }

    /// Returns the signature of a vote that was broken. No attempt uses this signature as its id.
    pub(crate) fn broken_signature(self) -> LeaseId {
        LeaseId::from_bits(u128::from(self.0) << 64)
    }

    /// Returns the digest in a signature made by [`broken_signature`](Self::broken_signature); `None` for any
    /// other signature.
    pub(crate) fn from_broken_signature(signature: LeaseId) -> Option<Self> {
        let digits = signature.reveal();
        digits.strip_suffix(Self::NOBODY).and_then(Self::parse)
    }

    /// The last digits of the signature of a broken vote.
    pub const NOBODY: &str = "0000000000000000";

    /// Parses the 16 hexadecimal digits of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        crate::name::hex_digits::<16>(text).and_then(|bits| u64::try_from(bits).ok()).map(Self)
    }

    /// Returns the 16 hexadecimal digits.
    pub fn digits(self) -> String {
        alloc::format!("{self}")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests;
