//! How much one caller may ask for: requests a second, and waiters at a time.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::config::Limits;
use crate::problem::{Code, Problem};

/// How often callers that have been quiet are forgotten.
pub(crate) const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Counts what each caller asks for.
pub(crate) struct Rates {
    clock: DefaultClock,
    requests: DefaultKeyedRateLimiter<String>,
    waiters_max: usize,
    waiters: Arc<Mutex<HashMap<String, usize>>>,
}

impl Rates {
    pub(crate) fn new(limits: Limits) -> Self {
        let most = NonZeroU32::new(limits.requests_per_second).unwrap_or(NonZeroU32::MIN);
        Self {
            clock: DefaultClock::default(),
            requests: RateLimiter::keyed(Quota::per_second(most)),
            waiters_max: limits.waiters,
            waiters: Arc::default(),
        }
    }

    /// Counts a request.
    pub(crate) fn request(&self, caller: &str) -> Result<(), Problem> {
        self.requests.check_key(&caller.to_owned()).map_err(|early| {
            let pause = early.wait_time_from(self.clock.now());
            let detail = format!("more than {} requests a second", early.quota().burst_size());
            Problem::new(Code::RateLimited, detail).retry_after(pause)
        })
    }

    /// Counts a waiter, for as long as what is returned lives.
    pub(crate) fn waiter(&self, caller: &str) -> Result<Waiter, Problem> {
        let mut waiters = lock(&self.waiters);
        let count = waiters.entry(caller.to_owned()).or_default();
        if *count >= self.waiters_max {
            let detail = format!("{count} requests of {caller:?} wait already: that is as many as may");
            return Err(Problem::new(Code::RateLimited, detail).retry_after(Duration::from_secs(1)));
        }
        *count += 1;
        Ok(Waiter { caller: caller.to_owned(), waiters: Arc::clone(&self.waiters) })
    }

    /// Forgets callers that have been quiet.
    pub(crate) fn forget(&self) {
        self.requests.retain_recent();
    }
}

/// Somebody who waits.
pub(crate) struct Waiter {
    caller: String,
    waiters: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = lock(&self.waiters);
        if let Some(count) = waiters.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                waiters.remove(&self.caller);
            }
        }
    }
}

fn lock(waiters: &Mutex<HashMap<String, usize>>) -> MutexGuard<'_, HashMap<String, usize>> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_share() {
        let rates = Rates::new(Limits { requests_per_second: 2, waiters: 1, ..Limits::default() });
        assert!(rates.request("a").is_ok() && rates.request("a").is_ok());
        assert_eq!(rates.request("a").unwrap_err().code(), Code::RateLimited);
        assert!(rates.request("b").is_ok());

        let waiter = rates.waiter("a").unwrap();
        assert!(rates.waiter("a").is_err() && rates.waiter("b").is_ok());
        drop(waiter);
        assert!(rates.waiter("a").is_ok());
    }
}
