//! Tests of servers that a sentinel monitors.

use std::time::Duration;

use quorlock_testkit::{Sentinels, eventually};

#[test]
fn a_killed_master_is_replaced_by_its_replica() {
    let sentinels = Sentinels::builder().replicas(1).down_after(Duration::from_millis(300)).start();
    let old_master = sentinels.master().port();
    assert_eq!(old_master, sentinels.servers[0].port());
    sentinels.servers[0].kill();
    eventually("the replica to be the master", || sentinels.master().port() != old_master);
    assert_eq!(sentinels.servers[1].command(&["SET", "a", "1"]).as_str(), Some("OK"));
}

#[test]
fn an_operators_failover_makes_the_replica_the_master() {
    let sentinels = Sentinels::builder().replicas(1).password("hunter2").sentinel_password("watch").start();
    sentinels.fail_over();
    assert_eq!(sentinels.master().port(), sentinels.servers[1].port());
    assert_eq!(sentinels.master().command(&["SET", "a", "1"]).as_str(), Some("OK"));
}
