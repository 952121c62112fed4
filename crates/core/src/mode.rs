//! How a lock is held: alone, by one owner several times, together with other readers, or in one of several slots.

use alloc::string::String;
use core::fmt;

/// The most permits that a semaphore can have.
pub const PERMITS_MAX: u32 = 1_024;

/// The owner of a reentrant lock, which may enter it again, or a reader, which cannot write while it reads.
///
/// It is a secret, because everyone who knows it may enter: `Debug` does not show it, and there is no `Display`. Pass the text
/// of [`reveal`](Self::reveal) to be the same owner in another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// The owner with these bits: 128 random ones, or the hash of a secret.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The owner as text: 32 hexadecimal digits.
    pub fn reveal(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Reads the text of [`reveal`](Self::reveal); `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        crate::name::hex_digits::<32>(text).map(Self)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerId(secret)")
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one lease at a time.
    Exclusive {
        /// The party of a writer: if it reads the name itself, it gets an error instead of waiting for itself.
        writer: Option<OwnerId>,
    },
    /// By one owner, with one lease for each entry.
    Reentrant {
        /// The owner.
        owner: OwnerId,
    },
    /// By any number of readers.
    Shared {
        /// The party of the reader.
        owner: OwnerId,
        /// Whether the party may read again while it reads: at once, with the same fence, also while writers wait.
        reenters: bool,
    },
    /// By one lease in each slot.
    Slot {
        /// The number of slots: all users must pass the same.
        permits: u32,
        /// The slot of a lease, or the slot that a node tries first. A lock to acquire ignores it: pass 0.
        slot: u32,
    },
}

impl Mode {
    /// By one lease at a time, which is not a writer.
    pub const EXCLUSIVE: Self = Self::Exclusive { writer: None };

    /// The owner that enters or reads.
    pub fn owner(self) -> Option<OwnerId> {
        match self {
            Self::Reentrant { owner } | Self::Shared { owner, .. } => Some(owner),
            Self::Exclusive { .. } | Self::Slot { .. } => None,
        }
    }

    /// The word for it: `exclusive`, `reentrant`, `shared` or `slots`.
    pub const fn as_str(self) -> &'static str {
        Period::begun_by(self).as_str()
    }

    /// Whether several may wait side by side and enter together.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    /// Whether others may hold at the same time, each with a fence of its own.
    pub fn is_among_others(self) -> bool {
        matches!(self, Self::Shared { .. } | Self::Slot { .. })
    }
}

/// How a vote that stands is held on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Period {
    /// By one attempt, the one that signed the vote.
    #[default]
    Exclusive,
    /// By entries of one owner.
    Reentrant(OwnerId),
    /// By readers.
    Shared,
    /// By attempts in slots, of which there are so many.
    Slots(u32),
}

impl Period {
    /// The words for periods of one owner, who has one fence at a time.
    pub const ALONE: [&'static str; 2] = ["exclusive", "reentrant"];

    /// The period that begins with a hold of this mode.
    pub const fn begun_by(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive { .. } => Self::Exclusive,
            Mode::Reentrant { owner } => Self::Reentrant(owner),
            Mode::Shared { .. } => Self::Shared,
            Mode::Slot { permits, .. } => Self::Slots(permits),
        }
    }

    /// The word for it: `exclusive`, `reentrant`, `shared` or `slots`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Reentrant(_) => "reentrant",
            Self::Shared => "shared",
            Self::Slots(_) => "slots",
        }
    }

    /// The number of slots, of a semaphore.
    pub const fn slots(self) -> Option<u32> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Exclusive | Self::Reentrant(_) | Self::Shared => None,
        }
    }

    /// The word, and behind it the owner, which is a secret, or the number of slots.
    pub fn reveal(self) -> String {
        let word = self.as_str();
        match self {
            Self::Exclusive | Self::Shared => word.into(),
            Self::Reentrant(owner) => alloc::format!("{word} {}", owner.reveal()),
            Self::Slots(slots) => alloc::format!("{word} {slots}"),
        }
    }

    /// Reads what [`reveal`](Self::reveal) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let period = match text.split_once(' ') {
            None if text == Self::Exclusive.as_str() => Self::Exclusive,
            None if text == Self::Shared.as_str() => Self::Shared,
            Some(("reentrant", owner)) => Self::Reentrant(OwnerId::parse(owner)?),
            Some(("slots", slots)) => Self::Slots(slots.parse().ok()?),
            _ => return None,
        };
        Some(period)
    }
}

#[cfg(test)]
mod tests;
