//! When to renew, and when to give up.

use core::time::Duration;

use crate::rng::Rng;
use crate::time::{Moment, Ttl};

/// How long a lease is renewed at most, unless its owner says otherwise: renewing for ever would break liveness.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// Whether and how a lease is renewed while its holder lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewals {
    /// By nobody: the lease ends with its ttl unless it is extended by hand.
    Off,
    /// By the watchdog.
    Watchdog {
        /// How long after a renewal the next one is sent; `None` for a third of the ttl.
        every: Option<Duration>,
        /// No renewal is sent later than this after the lock was won.
        lifetime: Duration,
    },
}

impl Default for Renewals {
    fn default() -> Self {
        Self::Watchdog { every: None, lifetime: LIFETIME_DEFAULT }
    }
}

/// The schedule of one lease's renewals.
#[derive(Clone, Debug, Hash)]
pub struct Watchdog {
    every: Duration,
    end: Moment,
    due: Option<Moment>,
    /// The longest delay before the next try, after one that failed; zero after one that did not.
    reach: Duration,
}

/// The delay between tries grows up to this part of the time between renewals: some ten tries before a lease is lost.
const TRIES: u32 = 8;

impl Watchdog {
    /// Watches over a lease won at `now`.
    pub fn new(renewals: Renewals, ttl: Ttl, now: Moment) -> Self {
        match renewals {
            Renewals::Off => Self { every: Duration::ZERO, end: now, due: None, reach: Duration::ZERO },
            Renewals::Watchdog { every, lifetime } => {
                let every = every.unwrap_or(ttl.duration() / 3);
                let mut watchdog = Self { every, end: now + lifetime, due: None, reach: Duration::ZERO };
                watchdog.set(now + every);
                watchdog
            }
        }
    }

    /// When the next renewal is to be sent; `None` when it is off, or has done its last.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Whether the last round failed.
    pub fn has_failed(&self) -> bool {
        self.reach > Duration::ZERO
    }

    /// A majority was asked no earlier than at `asked`, and has granted it.
    pub fn renewed(&mut self, asked: Moment) {
        self.reach = Duration::ZERO;
        self.set(asked + self.every);
    }

    /// A round failed at `now`: again soon, until it works or the lease is lost. A node that has too much to do is not helped
    /// by more of it, so the next time may be later than this one.
    pub fn failed(&mut self, now: Moment, node_deadline: Duration, rng: &mut dyn Rng) {
        let longest = node_deadline.max(self.every / TRIES);
        let reach = self.reach.clamp(node_deadline, longest);
        self.reach = (reach * 2).min(longest);
        self.set(now + rng.between(node_deadline / 2, reach));
    }

    fn set(&mut self, due: Moment) {
        let on = self.every > Duration::ZERO;
        self.due = (on && due <= self.end).then_some(due);
    }
}

#[cfg(test)]
mod tests;
