//! The environment variables of quorlock.

use strsim::levenshtein;

use crate::config::key::{KEYS, Key};
use crate::exit::{Failure, Outcome};

const PREFIX: &str = "QUORLOCK_";
/// Settings that a file cannot contain. All names in these lists are without the prefix `QUORLOCK_`.
const SETTINGS: [&str; 3] = ["CONFIG", "PROFILE", "PASSWORD"];
/// The variables, besides settings, that `run` sets for its command, or that `acquire --format sh` sets in a shell.
const GIVEN: [&str; 8] = ["NAME", "KIND", "FENCE", "LEASE", "OWNER", "SLOT", "TTL_MS", "OUTER"];
/// The variables of this project's tests.
const TESTS: [&str; 8] =
    ["CLOCK_FILE", "DISK_FILE", "ORDERS", "PAGE_MODULES", "REDIS_SERVER", "SEED", "WITHOUT", "WRITE_HELP"];
const TESTS_PREFIX: &str = "TEST";
/// A name with more mistakes than this is not taken for a misspelling.
const MISTAKES_MAX: usize = 3;

/// Reads one of our variables. A variable that is set but empty is an error: most likely its value was built from an
/// unset variable. If we ignored it, this host might use its own locks.
pub(crate) fn read(name: &str) -> Outcome<Option<String>> {
    let Some(text) = std::env::var_os(name) else { return Ok(None) };
    match text.into_string() {
        Ok(text) if text.is_empty() => {
            Err(Failure::config(format!("${name} is set but empty; give it a value, or unset it")))
        }
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failure::config(format!("${name} is not valid UTF-8"))),
    }
}

/// Returns the value of a flag, or else of one of our variables.
pub(crate) fn flag_or_read<T: From<String>>(flag: Option<T>, name: &str) -> Outcome<Option<T>> {
    if flag.is_some() { Ok(flag) } else { Ok(read(name)?.map(T::from)) }
}

/// Fails if an unknown variable looks like one of ours. If we ignored a misspelt variable, its setting would be lost,
/// and this host might use its own locks.
pub(crate) fn check() -> Outcome<()> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let is_unknown =
        |name: &String| name.strip_prefix(PREFIX).is_some_and(|short| !is_known(short)) && !is_of_kubernetes(name);
    let Some(name) = names.filter(is_unknown).min() else { return Ok(()) };
    let begin = format!("${name} is not a variable of quorlock");
    let closest = settings().min_by_key(|known| levenshtein(known, &name));
    Err(Failure::config(match closest.filter(|known| levenshtein(known, &name) <= MISTAKES_MAX) {
        Some(known) => format!("{begin}; did you mean ${known}?"),
        None => format!("{begin}\n  known are {}", settings().collect::<Vec<_>>().join(", ")),
    }))
}

/// Returns the variables that users set.
fn settings() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(|name| format!("{PREFIX}{name}")).chain(KEYS.iter().map(Key::variable))
}

fn is_known(name: &str) -> bool {
    SETTINGS.into_iter().chain(GIVEN).chain(TESTS).any(|known| known == name)
        || KEYS.iter().any(|key| key.name.to_uppercase() == name)
        || name.starts_with(TESTS_PREFIX)
}

/// Returns whether Kubernetes set the variable. For a service called quorlock, Kubernetes sets variables with our
/// prefix in every container.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port =
        |rest: &str| rest.is_empty() || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(char::is_numeric));
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.split("_PORT").skip(1).any(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

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
