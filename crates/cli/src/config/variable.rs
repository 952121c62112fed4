//! The environment variables of quorlock.

use std::ffi::OsStr;

use crate::config::key::{KEYS, Key};
use crate::exit::Failure;

const PREFIX: &str = "QUORLOCK_";
/// Settings that a file cannot contain.
const SETTINGS: [&str; 3] = ["QUORLOCK_CONFIG", "QUORLOCK_PROFILE", "QUORLOCK_PASSWORD"];
/// The variables that `run` sets for its command, and `acquire --format sh` for a shell, besides settings.
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
/// The variables of this project's tests.
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
/// A name with more mistakes than this is not a misspelling.
const MISTAKES_MAX: usize = 3;

/// Reads one of our variables. A variable that is set but empty is an error: most likely it was built from an unset one,
/// and ignoring it could make this host use its own locks.
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

/// Refuses unknown variables that look like ours. Ignoring a misspelt one would drop its setting, and could make this host
/// use its own locks.
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

/// Returns the variables that users set.
fn settings() -> impl Iterator<Item = String> {
    SETTINGS.into_iter().map(ToOwned::to_owned).chain(KEYS.iter().map(Key::variable))
}

fn is_known(name: &str) -> bool {
    settings().any(|known| known == name)
        || GIVEN.into_iter().chain(TESTS).any(|known| known == name)
        || name.starts_with(TESTS_PREFIX)
        || is_of_kubernetes(name)
}

/// Returns whether Kubernetes set the variable: for a service called quorlock, it sets variables with our prefix in every
/// container.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port =
        |rest: &str| rest.is_empty() || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(char::is_numeric));
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.split("_PORT").skip(1).any(is_port)
}

/// Returns the edit distance: how many letters must be added, removed or changed.
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
