//! What can be told of a vote's signature without giving it away.

use alloc::string::String;
use core::fmt;

use crate::name::LeaseId;

/// Stands for whoever signed a vote, to those who may know which vote it is but not its lease id: the first 64 bits of
/// the SHA-1 of what is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The digest of a signature. That of a vote that was broken is the same as before.
    pub fn of(signature: LeaseId) -> Self {
        Self::of_broken(signature).unwrap_or_else(|| {
            let sha = sha1_smol::Sha1::from(signature.reveal()).digest().bytes();
            Self(sha[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
        })
    }

    /// What a vote is signed with that was broken: nobody has an attempt like that.
    pub(crate) fn signature(self) -> LeaseId {
        LeaseId::from_bits(u128::from(self.0) << 64)
    }

    /// What [`signature`](Self::signature) was made of; `None` for any other.
    pub(crate) fn of_broken(signature: LeaseId) -> Option<Self> {
        let digits = signature.reveal();
        digits.strip_suffix(Self::NOBODY).and_then(Self::parse)
    }

    /// How the signature of a vote that was broken ends.
    pub const NOBODY: &str = "0000000000000000";

    /// Reads the 16 hexadecimal digits that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        crate::name::hex_digits::<16>(text).and_then(|bits| u64::try_from(bits).ok()).map(Self)
    }

    /// The 16 hexadecimal digits.
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
