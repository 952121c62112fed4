//! Lets tests observe the requests to Redis servers.

use std::sync::OnceLock;

/// Called for every request to a Redis server, with the key of its lock, and whether it shares a command with other
/// requests.
pub type Watcher = fn(key: &str, shares_command: bool);

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// Calls the watcher for all requests of this process from now on. The first watcher stays: later calls do nothing.
pub fn watch_requests(watcher: Watcher) {
    let _ = WATCHER.set(watcher);
}

pub(crate) fn notify_watcher<'a>(sent: impl Iterator<Item = (&'a str, bool)>) {
    if let Some(watcher) = WATCHER.get() {
        sent.for_each(|(key, shares_command)| watcher(key, shares_command));
    }
}
