//! Open files: every connection is one, and the nodes must not go without because callers have taken them all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for everything but connections of callers: the runtimes, the log, files.
const OWN: usize = 32;
/// And for each node: its connections, and those that replace them.
const EACH_NODE: usize = 8;

/// How many connections may be open, of so many that are wanted. As many files as that takes are asked of the system first.
pub(crate) fn room_for(connections: usize, nodes: usize) -> usize {
    let kept = OWN + EACH_NODE * nodes;
    room_within(raise(connections.saturating_add(kept)), connections, kept)
}

/// At least one: whoever gives less room than that is told so by the system itself.
fn room_within(files: Option<usize>, connections: usize, kept: usize) -> usize {
    files.map_or(connections, |files| connections.min(files.saturating_sub(kept).max(1)))
}

/// How many files may be open, once as many as are wanted, or as the system lets us have, were asked for; `None` for any
/// number.
fn raise(wanted: usize) -> Option<usize> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = wanted as u64;
    let files = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let current = current?;
    if current >= wanted {
        return Some(files(current));
    }
    let more = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(more), maximum });
    Some(files(if raised.is_ok() { more } else { current }))
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
