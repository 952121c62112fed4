//! How a lock is held: exclusively, reentrantly by one owner, shared by readers, or in one of several slots.

use alloc::string::String;
use core::fmt;

/// The largest number of permits of a semaphore.
pub const PERMITS_MAX: u32 = 1_024;

/// Identifies the owner of a reentrant lock or a reader. An owner may re-enter; a reader cannot write while it reads.
///
/// The id is a secret, because anyone who knows it can acquire the lock as the same owner: `Debug` hides the id, and
/// there is no `Display`. Pass the text of [`reveal`](Self::reveal) to another process to act as the same owner there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// Creates an owner from 128 random bits, or from the hash of a secret.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the owner as text: 32 hexadecimal digits.
    pub fn reveal(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Parses the text of [`reveal`](Self::reveal); `None` for any other text.
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
        /// The owner id of a writer. If the same owner also reads the name, the writer gets an error instead of
        /// waiting for itself.
        writer: Option<OwnerId>,
    },
    /// By one owner, with one lease for each entry.
    Reentrant {
        /// The owner.
        owner: OwnerId,
    },
    /// By any number of readers.
    Shared {
        /// The owner id of the reader.
        owner: OwnerId,
        /// Whether the owner may re-enter while it reads: at once, with the same fence, even while writers wait.
        reenters: bool,
    },
    /// By one lease in each slot.
    Slot {
        /// The number of slots. All users of the name must pass the same number.
        permits: u32,
        /// The slot of a lease, or the slot that a node tries first. An acquire ignores this value: pass 0.
        slot: u32,
    },
}

impl Mode {
    /// Exclusive, without the owner id of a writer.
    pub const EXCLUSIVE: Self = Self::Exclusive { writer: None };

    /// Returns the owner that enters or reads.
    pub fn owner(self) -> Option<OwnerId> {
        match self {
            Self::Reentrant { owner } | Self::Shared { owner, .. } => Some(owner),
            Self::Exclusive { .. } | Self::Slot { .. } => None,
        }
    }

    /// Returns `exclusive`, `reentrant`, `shared` or `slots`.
    pub const fn as_str(self) -> &'static str {
        Period::begun_by(self).as_str()
    }

    /// Returns whether several waiters may enter together.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    /// Returns whether several clients may hold the lock at a time, each with its own fence.
    pub fn allows_several_holders(self) -> bool {
        matches!(self, Self::Shared { .. } | Self::Slot { .. })
    }
}

/// How a node's current vote is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Period {
    /// By the attempt that signed the vote.
    #[default]
    Exclusive,
    /// By entries of one owner.
    Reentrant(OwnerId),
    /// By readers.
    Shared,
    /// By attempts in slots; the number of slots.
    Slots(u32),
}

impl Period {
    /// The names of the periods that have only one owner at a time, and therefore only one fence.
    pub const ALONE: [&'static str; 2] = ["exclusive", "reentrant"];

    /// Returns the period that the first holder with this mode begins.
    pub const fn begun_by(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive { .. } => Self::Exclusive,
            Mode::Reentrant { owner } => Self::Reentrant(owner),
            Mode::Shared { .. } => Self::Shared,
            Mode::Slot { permits, .. } => Self::Slots(permits),
        }
    }

    /// Returns `exclusive`, `reentrant`, `shared` or `slots`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Reentrant(_) => "reentrant",
            Self::Shared => "shared",
            Self::Slots(_) => "slots",
        }
    }

    /// Returns the number of slots; `None` if this is not a semaphore.
    pub const fn slots(self) -> Option<u32> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Exclusive | Self::Reentrant(_) | Self::Shared => None,
        }
    }

    /// Returns the name of the period, followed by the owner (a secret) or the number of slots.
    pub fn reveal(self) -> String {
        let word = self.as_str();
        match self {
            Self::Exclusive | Self::Shared => word.into(),
            Self::Reentrant(owner) => alloc::format!("{word} {}", owner.reveal()),
            Self::Slots(slots) => alloc::format!("{word} {slots}"),
        }
    }

    /// Parses the text of [`reveal`](Self::reveal).
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
