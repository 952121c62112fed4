//! The distinct names that each client has used. The nodes keep the fence of each name for a day.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the nodes keep the fence of a name after its last use.
const FENCE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts the names of each client that the nodes may still store.
pub(crate) struct UsedNames {
    pub(crate) most: usize,
    hasher: RandomState,
    clients: Mutex<HashMap<Arc<str>, Used>>,
}

/// The names of one client, by their hashes. A name is forgotten one to two days after its last use, which is after the
/// nodes have forgotten it.
struct Used {
    /// The beginning of the day of `current`.
    begun: Instant,
    current: HashSet<u64>,
    /// The names that were used the day before, and not since.
    previous: HashSet<u64>,
}

impl UsedNames {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, hasher: RandomState::new(), clients: Mutex::default() }
    }

    /// Counts the names that a client wants to lock. If they exceed the limit, counts none of them and returns the time
    /// until names are forgotten.
    pub(crate) fn add(&self, client: &Arc<str>, names: &[String], now: Instant) -> Result<(), Duration> {
        let hashes: HashSet<u64> = names.iter().map(|name| self.hasher.hash_one(name)).collect();
        let mut clients = self.clients.lock();
        let used = clients.entry(Arc::clone(client)).or_insert_with(|| Used::new(now));
        used.start_due_days(now);
        let fresh = hashes.iter().filter(|hash| !used.knows(**hash)).count();
        if fresh > 0 && used.len() + fresh > self.most {
            return Err((used.begun + FENCE_KEPT).saturating_duration_since(now));
        }
        for hash in hashes {
            used.add(hash);
        }
        Ok(())
    }

    /// Records that a client has renewed a lease: the nodes keep its fence for another day.
    pub(crate) fn keep(&self, client: &Arc<str>, name: &str, now: Instant) {
        let hash = self.hasher.hash_one(name);
        let mut clients = self.clients.lock();
        let used = clients.entry(Arc::clone(client)).or_insert_with(|| Used::new(now));
        used.start_due_days(now);
        used.add(hash);
    }

    /// Forgets clients that have no names left.
    pub(crate) fn forget(&self, now: Instant) {
        self.clients.lock().retain(|_, used| {
            used.start_due_days(now);
            used.len() > 0
        });
    }
}

impl Used {
    fn new(now: Instant) -> Self {
        Self { begun: now, current: HashSet::new(), previous: HashSet::new() }
    }

    /// Starts a new day for each day that is over.
    fn start_due_days(&mut self, now: Instant) {
        while now.saturating_duration_since(self.begun) >= FENCE_KEPT {
            self.previous = std::mem::take(&mut self.current);
            self.begun += FENCE_KEPT;
        }
    }

    fn len(&self) -> usize {
        self.current.len() + self.previous.len()
    }

    fn knows(&self, hash: u64) -> bool {
        self.current.contains(&hash) || self.previous.contains(&hash)
    }

    fn add(&mut self, hash: u64) {
        self.previous.remove(&hash);
        self.current.insert(hash);
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
    fn only_new_names_count_and_each_client_has_its_own() {
        let (used, now, client) = (UsedNames::new(3), Instant::now(), "a".into());
        assert_eq!(used.add(&client, &names(&["x", "y", "x"]), now), Ok(()));
        assert_eq!(used.add(&client, &names(&["x", "y"]), now + HOUR), Ok(()));
        assert_eq!(used.add(&client, &names(&["z", "u"]), now + HOUR), Err(23 * HOUR), "all or none");
        assert_eq!(used.add(&client, &names(&["z"]), now + HOUR), Ok(()));
        assert_eq!(used.add(&client, &names(&["u"]), now + HOUR), Err(23 * HOUR));
        assert_eq!(used.add(&client, &names(&["x", "z"]), now + HOUR), Ok(()), "known names are never refused");
        assert_eq!(used.add(&"b".into(), &names(&["u"]), now + HOUR), Ok(()));
    }

    #[test]
    fn a_name_counts_for_as_long_as_its_fence_is_kept() {
        let (used, now, client) = (UsedNames::new(2), Instant::now(), "a".into());
        assert_eq!(used.add(&client, &names(&["old", "renewed"]), now + HOUR), Ok(()));
        used.keep(&client, "renewed", now + 30 * HOUR);
        assert_eq!(used.add(&client, &names(&["new"]), now + 48 * HOUR), Err(HOUR));
        assert_eq!(used.add(&client, &names(&["new"]), now + 50 * HOUR), Ok(()), "the old name is forgotten");
        assert!(used.add(&client, &names(&["more"]), now + 50 * HOUR).is_err(), "the renewed name is not");
        used.forget(now + 80 * HOUR);
        assert!(!used.clients.lock().is_empty());
        used.forget(now + 100 * HOUR);
        assert!(used.clients.lock().is_empty());
    }
}
