//! Backoff: when to ask again. Random delays that grow within bounds, so that clients do not retry in step.

use core::time::Duration;

use crate::rng::Rng;
use crate::time::Moment;

/// The shortest delay, whatever was asked for: asking without a pause helps nobody.
pub const DELAY_MIN: Duration = Duration::from_millis(1);

/// How often and how patiently to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// The shortest delay: a few rounds, so that whoever won the race is done with it.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
    /// How many attempts in all; `None` for no limit but the caller's deadline.
    pub attempts: Option<u32>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_millis(500), attempts: None }
    }
}

impl Retry {
    /// One attempt, no retry.
    pub const ONCE: Self = Self { min: Duration::ZERO, max: Duration::ZERO, attempts: Some(1) };
}

/// Where a waiter is in its retries.
#[derive(Clone, Debug, Hash)]
pub struct Schedule {
    retry: Retry,
    last_call: Option<Moment>,
    reach: Duration,
    tried: u32,
}

impl Schedule {
    /// Starts before the first attempt. No attempt begins after the last call.
    pub fn new(retry: Retry, last_call: Option<Moment>) -> Self {
        Self { retry, last_call, reach: retry.min, tried: 0 }
    }

    /// Counts another attempt that failed. Whether there may be more of them.
    pub fn count(&mut self) -> bool {
        self.tried = self.tried.saturating_add(1);
        self.retry.attempts.is_none_or(|most| self.tried < most)
    }

    /// Whether the attempt under way is the last that may be made.
    pub fn is_last(&self) -> bool {
        self.retry.attempts.is_some_and(|most| self.tried.saturating_add(1) >= most)
    }

    /// How many attempts have failed.
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// The moment of the next attempt after one that failed at `now`, or `None` when it is time to give up.
    ///
    /// Each delay is drawn between the shortest one and a reach that doubles, up to the longest one. A delay that would
    /// pass the last call is cut to it, so that a waiter asks once more before it gives up.
    pub fn next(&mut self, now: Moment, rng: &mut dyn Rng) -> Option<Moment> {
        if !self.count() {
            return None;
        }
        if self.last_call.is_some_and(|end| now >= end) {
            return None;
        }
        let min = self.retry.min.max(DELAY_MIN);
        self.reach = self.reach.max(min).saturating_mul(2).min(self.retry.max).max(min);
        let at = now + rng.between(min, self.reach);
        Some(self.last_call.map_or(at, |end| at.min(end)))
    }
}

#[cfg(test)]
mod tests;
