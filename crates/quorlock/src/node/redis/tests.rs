mod serving;

use super::*;

const MASTER: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaster_replid:def\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n";

#[test]
fn a_master_is_known_by_its_run_and_replication() {
    assert_eq!(identify(MASTER), Ok("abc/def".into()));
}

#[test]
fn unfit_servers_are_refused_with_the_reason() {
    for (from, to, says) in [
        ("7.0.15", "6.0.9", "6.2"),
        ("role:master", "role:slave", "replica"),
        ("cluster_enabled:0", "cluster_enabled:1", "Cluster"),
        ("noeviction", "allkeys-lru", "allkeys-lru"),
        ("run_id:abc", "run_id:", "run_id"),
    ] {
        let Err(Trouble::Unfit(why)) = identify(&MASTER.replace(from, to)) else { panic!("{to} was accepted") };
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_title_never_shows_the_password() {
    let constants = Constants { cluster: String::new(), nodes: 1, max_ttl_millis: 1, sigma_micros: 1 };
    let node =
        RedisNode::new("redis://user:hunter2@127.0.0.1:7000/3", constants.clone(), Duration::from_secs(1)).unwrap();
    assert_eq!(node.title(), "redis://127.0.0.1:7000");
    let error = RedisNode::new("redis://user:hunter2@:x", constants, Duration::from_secs(1)).err().unwrap();
    assert!(!error.contains("hunter2"), "{error}");
}
