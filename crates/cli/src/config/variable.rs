//! The environment variables of quorlock.

use strsim::levenshtein;

use crate::config::key::{KEYS, Key};
use crate::exit::{Failure, Outcome};

const PREFIX: &str = "QUORLOCK_";
// The names in these lists lack the prefix `QUORLOCK_`.
/// Settings that a file cannot contain.
const SETTINGS: [&str; 3] = ["CONFIG", "PROFILE", "PASSWORD"];
/// Variables other than settings that `run` sets for its command, or that `acquire --format sh` sets in a shell.
const LEASE_VARIABLES: [&str; 8] = ["NAME", "KIND", "FENCE", "LEASE", "OWNER", "SLOT", "TTL_MS", "OUTER"];
/// The variables of this project's tests.
const TESTS: [&str; 8] =
    ["CLOCK_FILE", "DISK_FILE", "ORDERS", "PAGE_MODULES", "REDIS_SERVER", "SEED", "WITHOUT", "WRITE_HELP"];
const TESTS_PREFIX: &str = "TEST";
/// The largest number of wrong characters in an unknown name for which the message suggests a known name.
const MISTAKES_MAX: usize = 3;

/// Reads one of our variables. A variable that is set but empty is an error: most likely, its value was built from an
/// unset variable. If the empty value were ignored, quorlock might use locks that only this host sees.
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

/// Fails if a variable with our prefix is unknown. If a misspelt variable were ignored, its setting would have no
/// effect, and quorlock might use locks that only this host sees.
pub(crate) fn check() -> Outcome<()> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let is_unknown =
        |name: &String| name.strip_prefix(PREFIX).is_some_and(|short| !is_known(short)) && !is_of_kubernetes(name);
    let Some(name) = names.filter(is_unknown).min() else { return Ok(()) };
    let error = format!("${name} is not a variable of quorlock");
    let closest = user_variables().min_by_key(|known| levenshtein(known, &name));
    Err(Failure::config(match closest.filter(|known| levenshtein(known, &name) <= MISTAKES_MAX) {
        Some(known) => format!("{error}; did you mean ${known}?"),
        None => format!("{error}\n  known are {}", user_variables().collect::<Vec<_>>().join(", ")),
    }))
}

/// Returns the variables that users set.
fn user_variables() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(|name| format!("{PREFIX}{name}")).chain(KEYS.iter().map(Key::variable))
}

fn is_known(name: &str) -> bool {
    SETTINGS.into_iter().chain(LEASE_VARIABLES).chain(TESTS).any(|known| known == name)
        || KEYS.iter().any(|key| key.name.to_uppercase() == name)
        || name.starts_with(TESTS_PREFIX)
}

/// Returns whether Kubernetes sets a variable with this name. For a service called quorlock, Kubernetes sets variables
/// with our prefix in every container.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port_suffix =
        |rest: &str| rest.is_empty() || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(char::is_numeric));
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.split("_PORT").skip(1).any(is_port_suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_variable_of_kubernetes_has_a_number() {
        for (name, expected) in [
            ("QUORLOCK_PORT", true),
            ("QUORLOCK_PORT_80_TCP", true),
            ("QUORLOCK_PORTS", false),
            ("QUORLOCK_PORT_X", false),
        ] {
            assert_eq!(is_of_kubernetes(name), expected, "{name}");
        }
    }
}
