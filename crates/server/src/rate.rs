//! Limits for each caller: requests per second, concurrent waiters and connections, and names in a day.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, InsufficientCapacity, NotUntil, Quota, RateLimiter};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use crate::config::Limits;
use crate::metrics::Metrics;
use crate::names::UsedNames;
use crate::problem::{Code, Problem};

/// The interval at which idle callers are forgotten.
pub(crate) const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The rate limiters of all callers.
pub(crate) struct Rates {
    clock: DefaultClock,
    requests_per_second: NonZeroU32,
    requests: DefaultKeyedRateLimiter<Arc<str>>,
    reads: DefaultKeyedRateLimiter<Arc<str>>,
    released_keys: DefaultKeyedRateLimiter<Arc<str>>,
    names: UsedNames,
    pub(crate) waiters: Arc<ConcurrencyLimit>,
    pub(crate) event_streams: Arc<ConcurrencyLimit>,
    pub(crate) connections: Arc<ConcurrencyLimit>,
}

impl Rates {
    pub(crate) fn new(limits: Limits, metrics: &Metrics) -> Self {
        let most = NonZeroU32::new(limits.requests_per_second).unwrap_or(NonZeroU32::MIN);
        Self {
            clock: DefaultClock::default(),
            requests_per_second: most,
            requests: RateLimiter::keyed(Quota::per_second(most)),
            reads: RateLimiter::keyed(Quota::per_second(NonZeroU32::MIN)),
            released_keys: RateLimiter::keyed(at_a_time(limits.released_keys, limits.released_key_refusal())),
            names: UsedNames::new(limits.names),
            waiters: ConcurrencyLimit::new("waiting requests", limits.waiters, &metrics.waiters),
            event_streams: ConcurrencyLimit::new("streams of events", limits.event_streams, &metrics.followers),
            connections: ConcurrencyLimit::new("connections", limits.connections_per_client, &metrics.connections),
        }
    }

    /// Counts a request.
    pub(crate) fn request(&self, caller: &Arc<str>) -> Result<(), Problem> {
        self.requests.check_key(caller).map_err(|early| self.limited(more_than(self.requests_per_second), &early))
    }

    /// Counts the leases of a request after the first: each is as much work as a separate request.
    pub(crate) fn batch(&self, caller: &Arc<str>, leases: usize) -> Result<(), Problem> {
        let leases = u32::try_from(leases).unwrap_or(u32::MAX);
        let Some(more) = NonZeroU32::new(leases.saturating_sub(1)) else { return Ok(()) };
        let most = self.requests_per_second;
        // A larger batch never fits, however long the caller waits: the request itself counts as the first lease.
        if leases > most.get() {
            let why = format!("{leases} leases count as {leases} requests, and {most} a second are allowed");
            return Err(Problem::invalid(format!("{why}: send fewer at a time")));
        }
        // After a second, the whole limit is available again.
        let too_early = || Problem::new(Code::RateLimited, more_than(most));
        self.requests.check_key_n(caller, more).ok().and_then(Result::ok).ok_or_else(too_early)
    }

    /// Counts a read of the nodes by one caller. Each caller may cause one read per second.
    pub(crate) fn read(&self, caller: &Arc<str>) -> Result<(), Problem> {
        let detail = "the service reads the nodes once a second for each client, and has no copy of this";
        self.reads.check_key(caller).map_err(|early| self.limited(detail, &early))
    }

    /// Counts released keys. The nodes must remember and refuse each of them for a while.
    pub(crate) fn release_keys(&self, caller: &Arc<str>, keys: usize) -> Result<(), Problem> {
        let Some(keys) = u32::try_from(keys).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        let detail =
            "too many keys were released: the nodes refuse each released key until no request with it can still arrive";
        match self.released_keys.check_key_n(caller, keys) {
            Ok(counted) => counted.map_err(|early| self.limited(detail, &early)),
            Err(InsufficientCapacity(most)) => {
                let why = format!("{keys} leases with keys: this service allows {most} at a time for each client");
                Err(Problem::invalid(format!("{why}: release fewer in a request")))
            }
        }
    }

    /// Counts the names that a client wants to lock, except those that it has used before: the nodes keep each for a
    /// day.
    pub(crate) fn names(&self, caller: &Arc<str>, names: &[String]) -> Result<(), Problem> {
        self.names.add(caller, names, Instant::now()).map_err(|pause| {
            let most = self.names.most;
            let why = format!("each client may use {most} different names in 24 hours");
            let detail = format!("too many new names: {why}, because the nodes keep a fence for each; reuse names");
            Problem::new(Code::RateLimited, detail).retry_after(pause)
        })
    }

    /// Records that a client has renewed a lease of this name.
    pub(crate) fn renewed(&self, caller: &Arc<str>, name: &str) {
        self.names.keep(caller, name, Instant::now());
    }

    fn limited(&self, detail: impl Into<String>, early: &NotUntil<<DefaultClock as Clock>::Instant>) -> Problem {
        Problem::new(Code::RateLimited, detail).retry_after(early.wait_time_from(self.clock.now()))
    }

    /// Forgets idle callers.
    pub(crate) fn forget(&self) {
        self.requests.retain_recent();
        self.reads.retain_recent();
        self.released_keys.retain_recent();
        self.names.forget(Instant::now());
    }
}

fn more_than(requests: NonZeroU32) -> String {
    format!("more than {requests} requests a second")
}

/// Returns a quota that allows at most `most` items at any time, if each item lasts for this duration. It allows half
/// of the items in a burst, and the other half spread over the duration.
fn at_a_time(most: u32, lasting: Duration) -> Quota {
    let burst = NonZeroU32::new(most / 2).unwrap_or(NonZeroU32::MIN);
    let each = (lasting / burst.get()).max(Duration::from_nanos(1));
    Quota::with_period(each).map_or(Quota::per_second(burst), |quota| quota.allow_burst(burst))
}

/// Returns the key under which an address is counted. All addresses of an IPv6 /64 network have the same key, because a
/// client with one of them can usually use all.
pub(crate) fn limit_key_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) if address.is_loopback() => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Limits how many waiters, event streams or connections each caller has at the same time.
pub(crate) struct ConcurrencyLimit {
    /// The counted items, for messages.
    items: &'static str,
    most: usize,
    /// The number of items of all callers together.
    total: Gauge,
    taken: Mutex<HashMap<String, usize>>,
}

impl ConcurrencyLimit {
    fn new(items: &'static str, most: usize, total: &Gauge) -> Arc<Self> {
        Arc::new(Self { items, most, total: total.clone(), taken: Mutex::default() })
    }

    /// Counts one item of the caller until the reservation is dropped.
    pub(crate) fn take(self: &Arc<Self>, caller: &str) -> Result<Reservation, Problem> {
        let mut taken = self.taken.lock();
        let count = taken.entry(caller.to_owned()).or_default();
        if *count >= self.most {
            let detail = format!("limit reached: {count} {} of {caller:?}", self.items);
            return Err(Problem::new(Code::RateLimited, detail));
        }
        *count += 1;
        self.total.inc();
        Ok(Reservation { caller: caller.to_owned(), limit: Arc::clone(self) })
    }
}

/// One counted item of a caller. Dropping the reservation frees it.
pub(crate) struct Reservation {
    pub(crate) caller: String,
    limit: Arc<ConcurrencyLimit>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.limit.total.dec();
        let mut taken = self.limit.taken.lock();
        if let Some(count) = taken.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn rates(limits: Limits) -> Rates {
        Rates::new(limits, &Metrics::new(&quorlock::Client::memory().await))
    }

    #[tokio::test]
    async fn each_caller_has_its_own_limits() {
        let rates = rates(Limits { requests_per_second: 2, waiters: 1, ..Limits::default() }).await;
        let (a, b) = ("a".into(), "b".into());
        assert!(rates.request(&a).is_ok() && rates.request(&a).is_ok());
        assert_eq!(rates.request(&a).unwrap_err().code(), Code::RateLimited);
        assert!(rates.request(&b).is_ok());

        let waiter = rates.waiters.take("a").unwrap();
        assert!(rates.waiters.take("a").is_err() && rates.waiters.take("b").is_ok());
        drop(waiter);
        assert!(rates.waiters.take("a").is_ok());
    }

    #[tokio::test]
    async fn a_batch_counts_one_request_for_each_lease() {
        let rates = rates(Limits { requests_per_second: 1_000, ..Limits::default() }).await;
        let caller = "a".into();
        assert!(rates.request(&caller).is_ok() && rates.batch(&caller, 1_000).is_ok(), "all of the limit");
        assert_eq!(rates.batch(&caller, 1_000).unwrap_err().code(), Code::RateLimited);
        assert_eq!(rates.batch(&"b".into(), 1_001).unwrap_err().code(), Code::InvalidRequest, "it can never succeed");
        assert!(rates.batch(&"c".into(), 1).is_ok() && rates.batch(&"c".into(), 0).is_ok());
    }

    #[tokio::test]
    async fn no_more_keys_are_kept_out_at_a_time_than_the_limit() {
        let rates =
            rates(Limits { released_keys: 10, max_wait: Duration::from_secs(3_600), ..Limits::default() }).await;
        let caller = "a".into();
        assert!(rates.release_keys(&caller, 0).is_ok() && rates.release_keys(&caller, 5).is_ok());
        assert_eq!(rates.release_keys(&caller, 1).unwrap_err().code(), Code::RateLimited);
        assert_eq!(rates.release_keys(&"b".into(), 6).unwrap_err().code(), Code::InvalidRequest);
    }

    #[test]
    fn a_network_has_one_key_and_neighbours_have_their_own() {
        for (address, key) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::1", "::1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
            ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ] {
            assert_eq!(limit_key_of(address.parse().unwrap()), key, "{address}");
        }
    }
}
