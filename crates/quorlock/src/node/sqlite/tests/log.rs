//! The log beside the file: closing leaves it, and a connection that finds it long writes it back.

use super::*;
use crate::node::sqlite::database::LOG_BYTES_MAX;
use crate::node::sqlite::file;

#[test]
fn sessions_that_live_for_a_moment_leave_the_log_and_keep_it_short() {
    let ground = Ground::new();
    let mut longest = 0;
    for attempt in 0..200 {
        ground.session("boot").fence("a", attempt);
        let bytes = file::log_bytes(&ground.path());
        assert!(bytes > 0, "it was written back for nothing");
        longest = longest.max(bytes);
    }
    // The one who finds it long adds its own requests first, and nobody cuts it before it is begun anew.
    let slack = 64 * 1_024;
    assert!((LOG_BYTES_MAX..LOG_BYTES_MAX + slack).contains(&longest), "{longest}");
}
