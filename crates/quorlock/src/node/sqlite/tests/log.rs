//! SQLite's log: a session that closes leaves the log, and a session that finds a long log runs a checkpoint.

use super::*;
use crate::node::sqlite::database::LOG_BYTES_MAX;
use crate::node::sqlite::file;

#[test]
fn short_sessions_leave_a_log_of_bounded_length() {
    let test_file = TestFile::new();
    let mut longest = 0;
    for attempt in 0..200 {
        test_file.session("boot").fence("a", attempt);
        let bytes = file::log_bytes(&test_file.path());
        assert!(bytes > 0, "a session with a short log ran a checkpoint");
        longest = longest.max(bytes);
    }
    // The session that finds a long log first adds its own requests, and the log file is truncated only when the next
    // session writes to it.
    let slack = 64 * 1_024;
    assert!((LOG_BYTES_MAX..LOG_BYTES_MAX + slack).contains(&longest), "{longest}");
}
