//! Finds the guard process of a `quorlock run` in `/proc`.

use std::fs;

use rustix::process::Pid;

/// The hidden subcommand that a guard runs.
const GUARD_SUBCOMMAND: &str = "__guard";

/// Finds the guard among the children of a wrapper.
pub(super) fn guard_of(wrapper: u32) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{wrapper}/task")).ok()?;
    let children = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let guard = children
        .flat_map(|children| children.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .find(|child| fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|cmdline| is_guard(&cmdline)));
    Pid::from_raw(guard?.parse().ok()?)
}

/// Whether a process with these NUL-terminated arguments is a guard.
fn is_guard(cmdline: &[u8]) -> bool {
    cmdline.split(|byte| *byte == 0).nth(1) == Some(GUARD_SUBCOMMAND.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_recognized_by_its_first_argument() {
        assert!(is_guard(b"quorlock\0__guard\x001234\0"));
        assert!(!is_guard(b"quorlock\0run\0__guard\0"));
        assert!(!is_guard(b""));
    }

    #[test]
    fn a_process_without_children_has_no_guard() {
        assert_eq!(guard_of(u32::MAX), None);
    }
}
