//! The terms of a lease: how a lock is acquired and held, and by how many nodes.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::backoff::Retry;
use crate::name::{Channel, OwnerId};
use crate::quorum::Electors;
use crate::rules::Rules;
use crate::time::{Moment, Ttl};

/// The largest number of permits of a semaphore.
pub const PERMITS_MAX: u32 = 1_024;
/// The default limit on how long a lease is renewed. Without a limit, a stuck holder would keep the lock forever.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// How to acquire a lock, and how to hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Who may vote.
    pub electors: Arc<Electors>,
    /// The lifetime asked of the nodes, fixed for the life of the lease.
    pub ttl: Ttl,
    /// The margin subtracted from the ttl because clock rates differ.
    pub drift: Duration,
    /// The least validity of a lease at the win. An attempt that leaves less is too slow.
    pub min_validity: Duration,
    /// How long to wait for a node's answer.
    pub node_deadline: Duration,
    /// The delays and the number of attempts.
    pub retry: Retry,
    /// The moment at which the acquire ends, even in the middle of an attempt.
    pub give_up: Option<Moment>,
    /// The channel for hints to a waiter; `None` to fail rather than wait in the queue.
    pub channel: Option<Channel>,
    /// Whether to use the commands of the Redlock page: no fence, no queue.
    pub plain: bool,
    /// How the lock is held. The slot of a semaphore is known after the win.
    pub mode: Mode,
    /// The holder, as text for people.
    pub holder: Arc<str>,
    /// Whether and how often to renew.
    pub renewals: Renewals,
    /// Whether a node that lost its memory may vote at once. The votes that the node lost then no longer count.
    pub trusting: bool,
    /// The rules in force.
    pub rules: Rules,
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
        HeldMode::of(self).as_str()
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
pub enum HeldMode {
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

impl HeldMode {
    /// The names of the modes that have only one owner at a time, and therefore only one fence.
    pub const SINGLE_OWNER: [&'static str; 2] = ["exclusive", "reentrant"];

    /// Returns the held mode that the first holder with this mode begins.
    pub const fn of(mode: Mode) -> Self {
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

    /// Returns the name of the held mode, followed by the owner (a secret) or the number of slots.
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
        let held_mode = match text.split_once(' ') {
            None if text == Self::Exclusive.as_str() => Self::Exclusive,
            None if text == Self::Shared.as_str() => Self::Shared,
            Some(("reentrant", owner)) => Self::Reentrant(OwnerId::parse(owner)?),
            Some(("slots", slots)) => Self::Slots(slots.parse().ok()?),
            _ => return None,
        };
        Some(held_mode)
    }
}

/// Whether and how often a lease is renewed in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewals {
    /// The lease is not renewed. The lease ends with its ttl, unless the holder extends the lease.
    Off,
    /// The watchdog renews the lease.
    Watchdog {
        /// The time between renewals; `None` for a third of the ttl.
        every: Option<Duration>,
        /// The time after the acquire at which renewals stop.
        lifetime: Duration,
    },
}

impl Default for Renewals {
    fn default() -> Self {
        Self::Watchdog { every: None, lifetime: LIFETIME_DEFAULT }
    }
}

#[cfg(test)]
mod tests;
