//! Limits for each client: requests per second, waiters, event streams and connections at the same time, released
//! idempotency keys, and names in 24 hours.
//!
//! A client is identified by its limit key: its name in the file of clients, or its address if the client has not
//! authenticated.

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
use crate::name_limiter::NameLimiter;
use crate::problem::{Code, Problem};

/// The interval at which idle clients are removed from the limiter.
pub(crate) const REMOVE_IDLE_EVERY: Duration = Duration::from_secs(60);

/// Enforces the limits of all clients.
pub(crate) struct Limiter {
    clock: DefaultClock,
    requests_per_second: NonZeroU32,
    requests: DefaultKeyedRateLimiter<Arc<str>>,
    reads: DefaultKeyedRateLimiter<Arc<str>>,
    released_keys: DefaultKeyedRateLimiter<Arc<str>>,
    pub(crate) names: NameLimiter,
    pub(crate) waiters: Arc<ConcurrencyLimit>,
    pub(crate) event_streams: Arc<ConcurrencyLimit>,
    pub(crate) connections: Arc<ConcurrencyLimit>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, metrics: &Metrics) -> Self {
        let requests_per_second = NonZeroU32::new(limits.requests_per_second).unwrap_or(NonZeroU32::MIN);
        Self {
            clock: DefaultClock::default(),
            requests_per_second,
            requests: RateLimiter::keyed(Quota::per_second(requests_per_second)),
            reads: RateLimiter::keyed(Quota::per_second(NonZeroU32::MIN)),
            released_keys: RateLimiter::keyed(quota_of_live_items(limits.released_keys, limits.released_key_refusal())),
            names: NameLimiter::new(limits.names),
            waiters: ConcurrencyLimit::new("waiting requests", limits.waiters, &metrics.waiters),
            event_streams: ConcurrencyLimit::new("event streams", limits.event_streams, &metrics.followers),
            connections: ConcurrencyLimit::new("connections", limits.connections_per_client, &metrics.connections),
        }
    }

    /// Counts a request.
    pub(crate) fn count_request(&self, limit_key: &Arc<str>) -> Result<(), Problem> {
        let detail = || too_many_requests(self.requests_per_second);
        self.requests.check_key(limit_key).map_err(|not_until| self.rate_limited(detail(), &not_until))
    }

    /// Counts each lease of a request as a request, because each is as much work as a separate request. Skips the first
    /// lease, which [`count_request`](Self::count_request) has counted.
    pub(crate) fn count_batch(&self, limit_key: &Arc<str>, leases: usize) -> Result<(), Problem> {
        let leases = u32::try_from(leases).unwrap_or(u32::MAX);
        let Some(further) = NonZeroU32::new(leases.saturating_sub(1)) else { return Ok(()) };
        let max = self.requests_per_second;
        // A request with more leases than requests per second would fail at every retry.
        if leases > max.get() {
            let why = format!("{leases} leases count as {leases} requests, and the limit is {max} requests per second");
            return Err(Problem::invalid(format!("{why}: send fewer leases in one request")));
        }
        // The default `Retry-After` of one second is enough: by then, the whole limit is available again.
        let rate_limited = || Problem::new(Code::RateLimited, too_many_requests(max));
        self.requests.check_key_n(limit_key, further).ok().and_then(Result::ok).ok_or_else(rate_limited)
    }

    /// Counts a read of the nodes. Each client may cause one read per second.
    pub(crate) fn count_read(&self, limit_key: &Arc<str>) -> Result<(), Problem> {
        let detail = "the service's copy of the nodes' state does not have the answer, and each client may cause one \
                      read of the nodes per second: retry later";
        self.reads.check_key(limit_key).map_err(|not_until| self.rate_limited(detail, &not_until))
    }

    /// Counts released idempotency keys. The nodes must remember each released key until no late request with the key
    /// can arrive.
    pub(crate) fn count_released_keys(&self, limit_key: &Arc<str>, keys: usize) -> Result<(), Problem> {
        let Some(keys) = u32::try_from(keys).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        let detail = "too many keys were released: the nodes remember each released key until no request with the key \
                      can still arrive; retry later";
        match self.released_keys.check_key_n(limit_key, keys) {
            Ok(counted) => counted.map_err(|not_until| self.rate_limited(detail, &not_until)),
            Err(InsufficientCapacity(max)) => {
                let why = format!("the request releases {keys} leases with keys, and the limit is {max} at once");
                Err(Problem::invalid(format!("{why}: release fewer leases in one request")))
            }
        }
    }

    /// Counts the names that a client wants to lock, except names that are already counted.
    pub(crate) fn count_names(&self, limit_key: &Arc<str>, names: &[String]) -> Result<(), Problem> {
        self.names.count(limit_key, names, Instant::now()).map_err(|pause| {
            let max = self.names.max_names_per_client;
            let why = format!("each client may use {max} different names in 24 hours");
            let detail = format!("too many new names: {why}, because the nodes keep a fence for each; reuse names");
            Problem::new(Code::RateLimited, detail).retry_after(pause)
        })
    }

    fn rate_limited(
        &self,
        detail: impl Into<String>,
        not_until: &NotUntil<<DefaultClock as Clock>::Instant>,
    ) -> Problem {
        Problem::new(Code::RateLimited, detail).retry_after(not_until.wait_time_from(self.clock.now()))
    }

    /// Removes idle clients.
    pub(crate) fn remove_idle_clients(&self) {
        self.requests.retain_recent();
        self.reads.retain_recent();
        self.released_keys.retain_recent();
        self.names.remove_idle_clients(Instant::now());
    }
}

fn too_many_requests(max: NonZeroU32) -> String {
    format!("the client sent more than {max} requests per second: send fewer, or retry later")
}

/// Returns a quota that allows at most `max` items to exist at any time, if each item exists for `lifetime`. For
/// `max` = 10 and a lifetime of a minute, the quota allows a burst of 5 items, and then 5 items per minute.
fn quota_of_live_items(max: u32, lifetime: Duration) -> Quota {
    let burst = NonZeroU32::new(max / 2).unwrap_or(NonZeroU32::MIN);
    let period = (lifetime / burst.get()).max(Duration::from_nanos(1));
    Quota::with_period(period).map_or(Quota::per_second(burst), |quota| quota.allow_burst(burst))
}

/// Returns the key under which an address is counted. All addresses of an IPv6 /64 network have the same key, because a
/// client that has one address of the network can usually use all of them.
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

/// Limits how many waiters, event streams or connections each client has at the same time.
pub(crate) struct ConcurrencyLimit {
    /// The kind of the counted items, for messages: for example `event streams`.
    item_kind: &'static str,
    max_per_client: usize,
    /// The number of items of all clients together.
    total: Gauge,
    /// The number of items of each client that has items, by limit key.
    counts: Mutex<HashMap<String, usize>>,
}

impl ConcurrencyLimit {
    fn new(item_kind: &'static str, max_per_client: usize, total: &Gauge) -> Arc<Self> {
        Arc::new(Self { item_kind, max_per_client, total: total.clone(), counts: Mutex::default() })
    }

    /// Counts one item of the client until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Self>, limit_key: &str) -> Result<Reservation, Problem> {
        let mut counts = self.counts.lock();
        let count = counts.entry(limit_key.to_owned()).or_default();
        if *count >= self.max_per_client {
            let items = self.item_kind;
            let detail = format!("limit reached: {limit_key:?} already has {count} {items}; end one of them first");
            return Err(Problem::new(Code::RateLimited, detail));
        }
        *count += 1;
        self.total.inc();
        Ok(Reservation { limit_key: limit_key.to_owned(), limit: Arc::clone(self) })
    }
}

/// One counted item of a client. When the reservation is dropped, the item no longer counts.
pub(crate) struct Reservation {
    pub(crate) limit_key: String,
    limit: Arc<ConcurrencyLimit>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.limit.total.dec();
        let mut counts = self.limit.counts.lock();
        if let Some(count) = counts.get_mut(&self.limit_key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.limit_key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn limiter(limits: Limits) -> Limiter {
        Limiter::new(limits, &Metrics::new(&quorlock::Client::memory().await))
    }

    #[tokio::test]
    async fn each_client_has_its_own_limits() {
        let limiter = limiter(Limits { requests_per_second: 2, waiters: 1, ..Limits::default() }).await;
        let (a, b) = ("a".into(), "b".into());
        assert!(limiter.count_request(&a).is_ok() && limiter.count_request(&a).is_ok());
        assert_eq!(limiter.count_request(&a).unwrap_err().code(), Code::RateLimited);
        assert!(limiter.count_request(&b).is_ok());

        let waiter = limiter.waiters.reserve("a").unwrap();
        assert!(limiter.waiters.reserve("a").is_err() && limiter.waiters.reserve("b").is_ok());
        drop(waiter);
        assert!(limiter.waiters.reserve("a").is_ok());
    }

    #[tokio::test]
    async fn a_batch_counts_one_request_for_each_lease() {
        let limiter = limiter(Limits { requests_per_second: 1_000, ..Limits::default() }).await;
        let client = "a".into();
        let is_accepted = limiter.count_request(&client).is_ok() && limiter.count_batch(&client, 1_000).is_ok();
        assert!(is_accepted, "the whole limit must be usable");
        assert_eq!(limiter.count_batch(&client, 1_000).unwrap_err().code(), Code::RateLimited);
        assert_eq!(
            limiter.count_batch(&"b".into(), 1_001).unwrap_err().code(),
            Code::InvalidRequest,
            "the batch would never fit into the limit"
        );
        assert!(limiter.count_batch(&"c".into(), 1).is_ok() && limiter.count_batch(&"c".into(), 0).is_ok());
    }

    #[tokio::test]
    async fn released_keys_of_each_client_are_limited() {
        let limiter =
            limiter(Limits { released_keys: 10, max_wait: Duration::from_secs(3_600), ..Limits::default() }).await;
        let client = "a".into();
        assert!(limiter.count_released_keys(&client, 0).is_ok() && limiter.count_released_keys(&client, 5).is_ok());
        assert_eq!(limiter.count_released_keys(&client, 1).unwrap_err().code(), Code::RateLimited);
        assert_eq!(limiter.count_released_keys(&"b".into(), 6).unwrap_err().code(), Code::InvalidRequest);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_share_a_limit_key() {
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
