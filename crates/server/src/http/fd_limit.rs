//! The limit of open files. Every connection is an open file. Connections of callers must not use up the files that the
//! connections to the nodes need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of open files that are reserved for everything except callers and nodes: the runtimes, the log, files.
const OTHER_FILES: usize = 32;
/// The number of open files that are reserved for each node: its connections, and new connections that replace them.
const FILES_PER_NODE: usize = 8;

/// Raises the limit of open files as far as the system allows. Returns how many connections of callers may be open at
/// the same time: `wanted`, or fewer if the limit is too low.
pub(crate) fn raise(wanted: usize, nodes: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If the system refuses the new limit, the old limit still applies.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let file_limit = getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files).unwrap_or(usize::MAX));
    connections_within(file_limit, wanted, OTHER_FILES + FILES_PER_NODE * nodes)
}

/// Returns how many of the wanted connections fit into the limit of open files, besides the reserved files. `None`
/// means that there is no limit. Returns at least one: if even one connection is too many, the system reports an error.
fn connections_within(file_limit: Option<usize>, wanted: usize, reserved: usize) -> usize {
    file_limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(reserved).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_callers_leave_files_for_the_nodes() {
        assert_eq!(connections_within(Some(1_024), 20_000, 72), 952);
        assert_eq!(connections_within(Some(1_024), 100, 72), 100, "no more connections than wanted");
        assert_eq!(connections_within(Some(10), 100, 72), 1);
        assert_eq!(connections_within(None, 100, 72), 100);
    }
}
