//! Open files: every connection is one, and the nodes must not go without because callers have taken them all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for everything but connections of callers: the runtimes, the log, files.
const OWN: usize = 32;
/// And for each node: its connections, and those that replace them.
const EACH_NODE: usize = 8;

/// How many connections may be open, of as many as are wanted. Raises the limit of open files as far as the system allows.
pub(crate) fn room_for(connections: usize, nodes: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files).unwrap_or(usize::MAX));
    room_within(files, connections, OWN + EACH_NODE * nodes)
}

/// At least one, so that a caller learns from the system itself that there is too little room.
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
