//! Limits how many different names each client may use in 24 hours, because the nodes keep a fence for each name.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the nodes keep the fence of a name after the last use of the name.
const FENCE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts, for each client, the names whose fence the nodes may still keep.
pub(crate) struct NameLimiter {
    pub(crate) max_names_per_client: usize,
    hasher: RandomState,
    /// The names of each client, by limit key.
    clients: Mutex<HashMap<Arc<str>, ClientNames>>,
}

/// The hashes of the names that one client has used. Time is divided into periods of 24 hours, of which the first
/// starts with the client's first request. A name is removed 24 to 48 hours after its last use. By then, the nodes no
/// longer keep its fence.
struct ClientNames {
    /// When the current period started.
    period_start: Instant,
    /// The names of the current and of the previous period, and whether each was used in the current period.
    names: HashMap<u64, bool>,
}

impl NameLimiter {
    pub(crate) fn new(max_names_per_client: usize) -> Self {
        Self { max_names_per_client, hasher: RandomState::new(), clients: Mutex::default() }
    }

    /// Counts the names that a client wants to lock. If they exceed the limit, counts none of them and returns the time
    /// until the next period starts, when old names are removed.
    pub(crate) fn count(&self, client: &Arc<str>, names: &[String], now: Instant) -> Result<(), Duration> {
        let hashes: HashSet<u64> = names.iter().map(|name| self.hasher.hash_one(name)).collect();
        let mut clients = self.clients.lock();
        let known = clients.entry(Arc::clone(client)).or_insert_with(|| ClientNames::new(now));
        known.start_due_periods(now);
        let new = hashes.iter().filter(|hash| !known.names.contains_key(hash)).count();
        if new > 0 && known.names.len() + new > self.max_names_per_client {
            return Err((known.period_start + FENCE_RETENTION).saturating_duration_since(now));
        }
        known.names.extend(hashes.into_iter().map(|hash| (hash, true)));
        Ok(())
    }

    /// Records that a client has renewed a lease of this name, so the nodes keep the fence for another 24 hours.
    pub(crate) fn record_renewal(&self, client: &Arc<str>, name: &str, now: Instant) {
        let hash = self.hasher.hash_one(name);
        let mut clients = self.clients.lock();
        let known = clients.entry(Arc::clone(client)).or_insert_with(|| ClientNames::new(now));
        known.start_due_periods(now);
        known.names.insert(hash, true);
    }

    /// Removes the clients that have no names left.
    pub(crate) fn remove_idle_clients(&self, now: Instant) {
        self.clients.lock().retain(|_, known| {
            known.start_due_periods(now);
            !known.names.is_empty()
        });
    }
}

impl ClientNames {
    fn new(now: Instant) -> Self {
        Self { period_start: now, names: HashMap::new() }
    }

    /// Moves to the period that contains `now`. Removes the names that were not used in the period before each move.
    fn start_due_periods(&mut self, now: Instant) {
        while now.saturating_duration_since(self.period_start) >= FENCE_RETENTION {
            self.names.retain(|_, is_current| std::mem::take(is_current));
            self.period_start += FENCE_RETENTION;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_client_has_its_own_limit_and_known_names_do_not_count_again() {
        let (limiter, now, client) = (NameLimiter::new(3), Instant::now(), "a".into());
        assert_eq!(limiter.count(&client, &names(&["x", "y", "x"]), now), Ok(()));
        assert_eq!(limiter.count(&client, &names(&["x", "y"]), now + HOUR), Ok(()));
        assert_eq!(limiter.count(&client, &names(&["z", "u"]), now + HOUR), Err(23 * HOUR), "only one name is left");
        assert_eq!(limiter.count(&client, &names(&["z"]), now + HOUR), Ok(()), "the refused request counted no name");
        assert_eq!(limiter.count(&client, &names(&["u"]), now + HOUR), Err(23 * HOUR));
        assert_eq!(limiter.count(&client, &names(&["x", "z"]), now + HOUR), Ok(()), "known names are never refused");
        assert_eq!(limiter.count(&"b".into(), &names(&["u"]), now + HOUR), Ok(()));
    }

    #[test]
    fn a_name_counts_for_as_long_as_the_nodes_keep_its_fence() {
        let (limiter, now, client) = (NameLimiter::new(2), Instant::now(), "a".into());
        assert_eq!(limiter.count(&client, &names(&["old", "renewed"]), now + HOUR), Ok(()));
        limiter.record_renewal(&client, "renewed", now + 30 * HOUR);
        assert_eq!(limiter.count(&client, &names(&["new"]), now + 48 * HOUR), Err(HOUR));
        assert_eq!(limiter.count(&client, &names(&["new"]), now + 50 * HOUR), Ok(()), "the name \"old\" was removed");
        let refused = limiter.count(&client, &names(&["more"]), now + 50 * HOUR);
        assert!(refused.is_err(), "the name \"renewed\" still counts");
        limiter.remove_idle_clients(now + 80 * HOUR);
        assert!(!limiter.clients.lock().is_empty());
        limiter.remove_idle_clients(now + 100 * HOUR);
        assert!(limiter.clients.lock().is_empty());
    }
}
