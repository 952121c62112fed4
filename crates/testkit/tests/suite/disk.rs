//! Tests of the slow disk.

use std::time::{Duration, Instant};

use quorlock_testkit::{Aof, Clock, Disk, RedisServer};

const SYNC_TIME: Duration = Duration::from_millis(300);

fn write(server: &RedisServer) -> Duration {
    let begun = Instant::now();
    assert_eq!(server.command(&["SET", "key", "value"]).as_str(), Some("OK"));
    begun.elapsed()
}

#[test]
fn a_server_that_syncs_before_it_answers_waits_for_a_slow_disk() {
    let (clock, disk) = (Clock::new(), Disk::new());
    let server = RedisServer::builder().aof(Aof::Always).clock(&clock).disk(&disk).start();
    disk.slow_syncs(SYNC_TIME);
    assert!(write(&server) >= SYNC_TIME);
    // The server uses the slow disk and the frozen clock at the same time.
    clock.freeze_at_micros(1_000_000);
    assert_eq!(server.command(&["TIME"]).strings(), ["1", "0"]);
}
