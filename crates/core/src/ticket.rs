//! Tickets of waiters: one for each acquire that waits, the same on every node.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::digest::Digest;
use crate::fence::Fence;

/// How long a node keeps a waiter in the queue after the waiter's last request. A dead waiter is removed after this
/// time.
pub const ENTRY_LEASE: Duration = Duration::from_secs(5);
/// The longest time between a waiter's requests, even without a hint: well within [`ENTRY_LEASE`].
pub const POLL_MAX: Duration = Duration::from_secs(1);
/// The most waiters for one name that a node keeps.
pub const WAITERS_MAX: u32 = 10_000;
/// The most waiters that an inspection lists.
pub const QUEUE_LISTED_MAX: usize = 20;

/// A waiter's position in the queue: lower tickets come first, on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// When the ticket was drawn, in microseconds by the median of the nodes' clocks.
    pub at: u64,
    /// Random bits that order tickets of the same microsecond.
    pub id: u64,
}

impl Ticket {
    /// Parses the text of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('-')?;
        let at = at.bytes().all(|b| b.is_ascii_digit()).then(|| at.parse().ok()).flatten()?;
        Some(Self { at, id: Self::parse_id(id)? })
    }

    /// Returns the random bits as 16 hexadecimal digits, which sort like the numbers.
    pub fn id_digits(self) -> String {
        alloc::format!("{:016x}", self.id)
    }

    /// Parses the text of [`id_digits`](Self::id_digits).
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

/// The channel on which a client receives hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u128);

impl Channel {
    /// Returns the name of the channel: 32 hexadecimal digits.
    pub fn digits(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Parses the text of [`digits`](Self::digits).
    pub fn parse(text: &str) -> Option<Self> {
        crate::name::hex_digits::<32>(text).map(Self)
    }
}

/// A client that waits for a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The position in the queue.
    pub ticket: Ticket,
    /// The channel for hints.
    pub channel: Channel,
    /// Whether the client wants a shared lock. Such clients do not wait for each other.
    pub shared: bool,
}

/// A waiter, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// When the waiter's ticket was drawn, in microseconds by the median of the nodes' clocks.
    pub since_micros: u64,
    /// Whether the waiter wants a shared lock.
    pub shared: bool,
}

/// What happens to a waiter's queue position when its votes are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parting {
    /// The waiter leaves the queue.
    Leave(Waiter),
    /// The waiter keeps its position, because a lower ticket comes first.
    Yield(Waiter),
}

impl Parting {
    /// Returns the waiter.
    pub fn waiter(self) -> Waiter {
        match self {
            Self::Leave(waiter) | Self::Yield(waiter) => waiter,
        }
    }
}

/// A vote that a node gives to the first waiter, by granting a request that the node refused before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handoff {
    /// The digest of the attempt. The waiter may have started another attempt since.
    pub attempt: Digest,
    /// The fence that the node stored.
    pub fence: Fence,
}

/// The queue as a refused client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueuePosition {
    /// The client's own position, from 1; `None` without a ticket.
    pub place: Option<u32>,
    /// The number of waiters, including the client.
    pub waiting: u32,
    /// Whether a lower ticket waits here or has this node's vote. The client must then yield its votes on other nodes.
    pub lower: bool,
}

#[cfg(test)]
mod tests;
