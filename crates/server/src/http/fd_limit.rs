//! The limit of open files. Every connection needs one, and callers must not use up those that the nodes need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The files kept for everything except callers and nodes: the runtimes, the log, files.
const OWN: usize = 32;
/// The files kept for each node: its connections, and those that replace them.
const EACH_NODE: usize = 8;

/// Returns how many of the wanted connections may be open. Raises the limit of open files as far as the system allows.
pub(crate) fn room_for(connections: usize, nodes: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files).unwrap_or(usize::MAX));
    room_within(files, connections, OWN + EACH_NODE * nodes)
}

/// Returns at least one, so that the system itself reports to a caller that there is too little room.
fn room_within(files: Option<usize>, connections: usize, kept: usize) -> usize {
    files.map_or(connections, |files| connections.min(files.saturating_sub(kept).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_nodes() {
        assert_eq!(room_within(Some(1_024), 20_000, 72), 952);
        assert_eq!(room_within(Some(1_024), 100, 72), 100, "no more than are wanted");
        assert_eq!(room_within(Some(10), 100, 72), 1);
        assert_eq!(room_within(None, 100, 72), 100);
    }
}
