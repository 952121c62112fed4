//! Our variables in the environment: which there are, and how one is read.

use std::ffi::OsStr;

use crate::config::key::{KEYS, Key};
use crate::exit::Failure;

const PREFIX: &str = "QUORLOCK_";
/// Settings that have no key: a file cannot contain them.
const SETTINGS: [&str; 3] = ["QUORLOCK_CONFIG", "QUORLOCK_PROFILE", "QUORLOCK_PASSWORD"];
/// What `run` gives to its command, and `acquire --format sh` to a shell, besides settings.
const GIVEN: [&str; 8] = [
    "QUORLOCK_NAME",
    "QUORLOCK_KIND",
    "QUORLOCK_FENCE",
    "QUORLOCK_LEASE",
    "QUORLOCK_OWNER",
    "QUORLOCK_SLOT",
    "QUORLOCK_TTL_MS",
    "QUORLOCK_OUTER",
];
/// What the tests of this project read.
const TESTS: [&str; 8] = [
    "QUORLOCK_CLOCK_FILE",
    "QUORLOCK_DISK_FILE",
    "QUORLOCK_ORDERS",
    "QUORLOCK_PAGE_MODULES",
    "QUORLOCK_REDIS_SERVER",
    "QUORLOCK_SEED",
    "QUORLOCK_WITHOUT",
    "QUORLOCK_WRITE_HELP",
];
const TESTS_PREFIX: &str = "QUORLOCK_TEST";
/// A name with more mistakes than this is no misspelling.
const MISTAKES_MAX: usize = 3;

/// Reads one of our variables. One that is set but empty is an error: most likely it was made of another one that is
/// missing, and ignoring it could leave this host with locks of its own.
pub(crate) fn read(name: &str) -> Result<Option<String>, Failure> {
    let Some(text) = std::env::var_os(name) else { return Ok(None) };
    match text.into_string() {
        Ok(text) if text.is_empty() => {
            Err(Failure::config(format!("${name} is set but empty; give it a value, or unset it")))
        }
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failure::config(format!("${name} is not valid UTF-8"))),
    }
}

/// Refuses variables that look like ours and are not. A misspelt one would leave its setting out, and this host with
/// locks of its own.
pub(crate) fn check() -> Result<(), Failure> {
    let is_like_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let names = std::env::vars_os().map(|(name, _)| name).filter(|name| is_like_ours(name));
    let mut unknown: Vec<String> =
        names.map(|name| name.to_string_lossy().into_owned()).filter(|name| !is_known(name)).collect();
    unknown.sort_unstable();
    let Some(name) = unknown.first() else { return Ok(()) };
    let begin = format!("${name} is not a variable of quorlock");
    let closest = settings().min_by_key(|known| mistakes(known, name));
    Err(Failure::config(match closest.filter(|known| mistakes(known, name) <= MISTAKES_MAX) {
        Some(known) => format!("{begin}; did you mean ${known}?"),
        None => format!("{begin}\n  known are {}", settings().collect::<Vec<_>>().join(", ")),
    }))
}

/// The variables that people set.
fn settings() -> impl Iterator<Item = String> {
    SETTINGS.into_iter().map(ToOwned::to_owned).chain(KEYS.iter().map(Key::variable))
}

fn is_known(name: &str) -> bool {
    settings().any(|known| known == name)
        || GIVEN.into_iter().chain(TESTS).any(|known| known == name)
        || name.starts_with(TESTS_PREFIX)
        || is_of_kubernetes(name)
}

/// Kubernetes tells every container where a service is; one that is called quorlock gets variables that begin like ours.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port =
        |rest: &str| rest.is_empty() || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(char::is_numeric));
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.split("_PORT").skip(1).any(is_port)
}

/// How many letters have to be added, removed or changed to get from one word to the other.
fn mistakes(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        for (one, other, count) in
            [("", "", 0), ("", "ab", 2), ("ab", "", 2), ("nodes", "node", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(mistakes(one, other), count, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_port_of_kubernetes_has_a_number() {
        for (name, is) in [
            ("QUORLOCK_PORT", true),
            ("QUORLOCK_PORT_80_TCP", true),
            ("QUORLOCK_PORTS", false),
            ("QUORLOCK_PORT_X", false),
        ] {
            assert_eq!(is_of_kubernetes(name), is, "{name}");
        }
    }
}
