//! The schedule of renewals: when to renew, and when to stop.

use core::time::Duration;

use crate::rng::Rng;
use crate::time::{Moment, Ttl};

/// The default limit on how long a lease is renewed. Without a limit, a stuck holder would keep the lock forever.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(60 * 60);

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

/// The schedule of one lease's renewals.
#[derive(Clone, Debug, Hash)]
pub struct Watchdog {
    every: Duration,
    end: Moment,
    due: Option<Moment>,
    /// The longest delay before the next try after a failed renewal; zero after a successful one.
    delay_max: Duration,
}

/// The delay between tries grows up to the time between renewals divided by this number. A lease therefore gets about
/// ten tries before it is lost.
const DELAY_DIVISOR: u32 = 8;

impl Watchdog {
    /// Creates the schedule of a lease that was won at `now`.
    pub fn new(renewals: Renewals, ttl: Ttl, now: Moment) -> Self {
        match renewals {
            Renewals::Off => Self { every: Duration::ZERO, end: now, due: None, delay_max: Duration::ZERO },
            Renewals::Watchdog { every, lifetime } => {
                let every = every.unwrap_or(ttl.duration() / 3);
                let mut watchdog = Self { every, end: now + lifetime, due: None, delay_max: Duration::ZERO };
                watchdog.set(now + every);
                watchdog
            }
        }
    }

    /// Returns when to send the next renewal; `None` if renewals are off or have ended.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Returns whether the last round failed.
    pub fn has_failed(&self) -> bool {
        self.delay_max > Duration::ZERO
    }

    /// Records a successful renewal: a majority was asked at `asked` or later and granted.
    pub fn renewed(&mut self, asked: Moment) {
        self.delay_max = Duration::ZERO;
        self.set(asked + self.every);
    }

    /// Records a failed renewal, and schedules the next try soon. The delay grows with every failure, because faster
    /// retries would not help an overloaded node.
    pub fn failed(&mut self, now: Moment, node_deadline: Duration, rng: &mut dyn Rng) {
        let longest = node_deadline.max(self.every / DELAY_DIVISOR);
        let delay_max = self.delay_max.clamp(node_deadline, longest);
        self.delay_max = (delay_max * 2).min(longest);
        self.set(now + rng.between(node_deadline / 2, delay_max));
    }

    fn set(&mut self, due: Moment) {
        let is_on = self.every > Duration::ZERO;
        self.due = (is_on && due <= self.end).then_some(due);
    }
}

#[cfg(test)]
mod tests;
