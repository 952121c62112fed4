//! Backoff: random delays that grow within bounds, so that clients do not retry in step.

use core::time::Duration;

use crate::rng::Rng;
use crate::time::Moment;

/// The shortest delay, even if the caller asks for less: retrying without a pause only adds load.
pub const DELAY_MIN: Duration = Duration::from_millis(1);

/// The delays and the number of attempts of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// The shortest delay: a few round trips, so that a competing client that won has finished its round.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
    /// The largest number of attempts; `None` if only the caller's deadline limits the attempts.
    pub attempts: Option<u32>,
}

/// Delays from 5 to 500 ms, and no limit of the number of attempts.
impl Default for Retry {
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_millis(500), attempts: None }
    }
}

impl Retry {
    /// A single attempt without retry.
    pub const ONCE: Self = Self { min: Duration::ZERO, max: Duration::ZERO, attempts: Some(1) };
}

/// The progress of a client through its retries.
#[derive(Clone, Debug, Hash)]
pub struct Schedule {
    retry: Retry,
    latest_start: Option<Moment>,
    delay_bound: Duration,
    tried: u32,
}

impl Schedule {
    /// Creates a schedule. No attempt starts after `latest_start`.
    pub fn new(retry: Retry, latest_start: Option<Moment>) -> Self {
        Self { retry, latest_start, delay_bound: retry.min, tried: 0 }
    }

    /// Counts a failed attempt, and returns whether another one is allowed.
    pub fn count(&mut self) -> bool {
        self.tried = self.tried.saturating_add(1);
        self.retry.attempts.is_none_or(|max| self.tried < max)
    }

    /// Returns whether the current attempt is the last one allowed.
    pub fn is_last(&self) -> bool {
        self.retry.attempts.is_some_and(|max| self.tried.saturating_add(1) >= max)
    }

    /// Returns the number of failed attempts.
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// Returns the moment of the next attempt after one failed at `now`, or `None` to give up.
    ///
    /// Each delay is random, between the shortest one and a bound that doubles up to the longest one. A delay that
    /// would pass the latest start ends at the latest start, so that the client asks once more before it gives up.
    pub fn next(&mut self, now: Moment, rng: &mut dyn Rng) -> Option<Moment> {
        if !self.count() {
            return None;
        }
        if self.latest_start.is_some_and(|latest| now >= latest) {
            return None;
        }
        let min = self.retry.min.max(DELAY_MIN);
        self.delay_bound = self.delay_bound.max(min).saturating_mul(2).min(self.retry.max).max(min);
        let at = now + rng.between(min, self.delay_bound);
        Some(self.latest_start.map_or(at, |latest| at.min(latest)))
    }
}

#[cfg(test)]
mod tests;
