//! Tests of a small Redis Cluster.

use quorlock_testkit::RedisCluster;

#[test]
fn every_key_has_a_master_and_a_slot_can_move() {
    let cluster = RedisCluster::start(3);
    for key in ["a", "b", "c", "{b}a"] {
        assert_eq!(cluster.master_of(key).command(&["SET", key, "1"]).as_str(), Some("OK"));
    }
    let (old, key) = (cluster.master_of("d"), "d");
    let new = cluster.masters.iter().find(|master| master.port() != old.port()).unwrap();
    cluster.move_slot(key, new);
    assert_eq!(new.command(&["SET", key, "1"]).as_str(), Some("OK"));
}

#[test]
fn a_replica_takes_over_from_a_master_that_died() {
    let cluster = RedisCluster::start_with_replicas(1);
    cluster.masters[0].kill();
    cluster.take_over(&cluster.replicas[0]);
    assert_eq!(cluster.replicas[0].command(&["SET", "a", "1"]).as_str(), Some("OK"));
}
