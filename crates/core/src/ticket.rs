//! Waiting in the queue: one ticket for each waiting episode, the same on every node.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::digest::Digest;
use crate::fence::Fence;

/// How long a node keeps a waiter that it has not heard of again. A waiter that has died is gone after that.
pub const ENTRY_LEASE: Duration = Duration::from_secs(5);
/// A waiter asks again at least this often, also when nobody gave it a hint: well within its entry lease.
pub const POLL_MAX: Duration = Duration::from_secs(1);
/// The most waiters for one name that a node keeps.
pub const WAITERS_MAX: u32 = 10_000;
/// The most waiters that are listed to people who look at a name.
pub const QUEUE_LISTED_MAX: usize = 20;

/// A waiter's place in the queue: earlier tickets come first, on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// When it was drawn, in microseconds by the middle of the nodes' clocks.
    pub at: u64,
    /// Random bits, for tickets of the same microsecond.
    pub id: u64,
}

impl Ticket {
    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('-')?;
        let at = at.bytes().all(|b| b.is_ascii_digit()).then(|| at.parse().ok()).flatten()?;
        Some(Self { at, id: Self::parse_id(id)? })
    }

    /// The random bits as 16 hexadecimal digits: in the order of the numbers.
    pub fn id_digits(self) -> String {
        alloc::format!("{:016x}", self.id)
    }

    /// Reads what [`id_digits`](Self::id_digits) wrote.
    pub fn parse_id(digits: &str) -> Option<u64> {
        crate::name::hex_digits::<16>(digits).and_then(|bits| u64::try_from(bits).ok())
    }
}

/// `1700000000123456-00000000000000ff`.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.at, self.id)
    }
}

/// Names the channel on which one client hears hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u128);

impl Channel {
    /// The 32 hexadecimal digits of its name.
    pub fn digits(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Reads what [`digits`](Self::digits) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        crate::name::hex_digits::<32>(text).map(Self)
    }
}

/// Someone who wants the lock and would rather wait than be turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The place in the queue.
    pub ticket: Ticket,
    /// Where to send a hint.
    pub channel: Channel,
    /// Whether it wants to share: it need not wait for others that do.
    pub shared: bool,
}

/// Somebody in the queue, for people to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// When its ticket was drawn, in microseconds by the middle of the nodes' clocks.
    pub since_micros: u64,
    /// Whether it wants to share.
    pub shared: bool,
}

/// What becomes of a waiter's place when its votes are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parting {
    /// It is given up.
    Leave(Waiter),
    /// It is kept: somebody else is to have the lock first.
    Yield(Waiter),
}

impl Parting {
    /// Who it is about.
    pub fn waiter(self) -> Waiter {
        match self {
            Self::Leave(waiter) | Self::Yield(waiter) => waiter,
        }
    }
}

/// A vote that a node has given to the first waiter without being asked again, for the request that it had refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handoff {
    /// Whose: the waiter may have gone on as another attempt.
    pub attempt: Digest,
    /// The fence that it stored.
    pub fence: Fence,
}

/// How the queue looks to whoever was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueuePosition {
    /// The asker's own place, from 1; `None` for one without a ticket.
    pub place: Option<u32>,
    /// How many wait, the asker included.
    pub waiting: u32,
    /// Whether somebody with a lower ticket waits or votes here: then votes elsewhere are to be given back.
    pub lower: bool,
}

#[cfg(test)]
mod tests;
