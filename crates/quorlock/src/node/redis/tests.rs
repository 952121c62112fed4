mod serving;

use std::sync::Arc;

use quorlock_core::name::Name;

use super::fitness::{check_never_evicts, last_promotion};
use super::scripts::ServerKind;
use super::*;
use crate::node::LockKey;
use crate::node::key::KeyTemplate;
use crate::node::url::NodeUrl;

/// The reply of a master to `INFO`.
const MASTER_INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaster_replid:def\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n";

fn origin(url: &str) -> Origin {
    let NodeUrl::Redis(origin) = NodeUrl::parse(url, None).unwrap() else { panic!("{url} is not a Redis URL") };
    origin
}

#[test]
fn the_identity_of_a_master_is_its_run_id_its_evicted_keys_and_its_promotion() {
    assert_eq!(identify(MASTER_INFO, &origin("redis://h")), Ok(Identity::of_run("abc")), "zeros are no promotion");
    let promoted_info = MASTER_INFO.replace("replid2:0000", "replid2:0b00").replace("offset:-1", "offset:15");
    let identity = Identity { run: "abc".into(), promotion: "0b00:15".into() };
    assert_eq!(identify(&promoted_info, &origin("redis://h")), Ok(identity));
    let info_with_evictions = MASTER_INFO.replace("evicted_keys:0", "evicted_keys:7");
    assert_eq!(identify(&info_with_evictions, &origin("redis://h")), Ok(Identity::of_run("abc:7")));
    let promotion = last_promotion(&origin("redis://h"), Value::Text(promoted_info.clone().into()));
    assert_eq!(promotion, Ok("0b00:15".into()));
    let demoted_info = promoted_info.replace("role:master", "role:slave");
    assert!(matches!(last_promotion(&origin("redis://h"), Value::Text(demoted_info.into())), Err(Trouble::Unfit(_))));
}

#[test]
fn unfit_servers_are_refused_with_the_reason() {
    for (old, new, reason) in [
        ("7.0.15", "6.0.9", "6.2"),
        ("role:master", "role:slave", "replica"),
        ("cluster_enabled:0", "cluster_enabled:1", "Cluster"),
        ("noeviction", "allkeys-lru", "allkeys-lru"),
        ("run_id:abc", "run_id:", "run_id"),
        ("master_replid2:0000\r\n", "", "master_replid2"),
        ("master_replid2:0000", "master_replid2:a+b", "master_replid2"),
        ("second_repl_offset:-1\r\n", "", "second_repl_offset"),
        ("evicted_keys:0\r\n", "", "evicted_keys"),
    ] {
        let Err(Trouble::Unfit(why)) = identify(&MASTER_INFO.replace(old, new), &origin("redis://h")) else {
            panic!("{new} was accepted")
        };
        assert!(why.contains(reason), "{why}");
    }
}

#[test]
fn a_server_that_starts_to_evict_keys_is_refused() {
    let check = |text: &str| check_never_evicts(Value::Text(text.into()));
    assert_eq!(check(MASTER_INFO), Ok(()));
    let Err(Trouble::Unfit(why)) = check(&MASTER_INFO.replace("noeviction", "volatile-ttl")) else {
        panic!("accepted")
    };
    assert!(why.contains("volatile-ttl"), "{why}");
    assert!(matches!(check("# Memory\r\n"), Err(Trouble::Unfit(_))), "the reply has no eviction policy");
    assert!(matches!(check_never_evicts(Value::Okay), Err(Trouble::Broken(_))), "the reply is not INFO");
}

#[test]
fn a_server_that_a_failover_demoted_is_unreachable_and_not_unfit() {
    let replica_info = MASTER_INFO.replace("role:master", "role:slave");
    assert!(matches!(identify(&replica_info, &origin("redis+sentinel://h/s")), Err(Trouble::Unreachable(_))));
    let cluster_info = MASTER_INFO.replace("cluster_enabled:0", "cluster_enabled:1");
    assert_eq!(identify(&cluster_info, &origin("redis+cluster://h")), Ok(Identity::of_run("abc")));
    assert!(matches!(identify(&cluster_info, &origin("redis+sentinel://h/s")), Err(Trouble::Unfit(_))));
    assert!(matches!(identify(MASTER_INFO, &origin("redis+cluster://h")), Err(Trouble::Unfit(_))));
    let replica_info = cluster_info.replace("role:master", "role:slave");
    assert!(matches!(identify(&replica_info, &origin("redis+cluster://h")), Err(Trouble::Unreachable(_))));
}

impl RedisNode {
    /// Returns the node of this URL.
    pub(super) fn at(url: &str, constants: Constants) -> Self {
        let Ok(NodeUrl::Redis(origin)) = NodeUrl::parse(url, None) else { panic!("{url}") };
        Self::new(origin, constants, Duration::from_secs(60))
    }
}

fn key() -> Arc<LockKey> {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    Arc::new(template.key(&Name::new("job").unwrap()).unwrap())
}

#[test]
fn the_doctors_probe_tries_every_command_of_every_script() {
    let commands = |source: &str| {
        let calls = source.split("call('").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned()));
        calls.collect::<std::collections::BTreeSet<String>>()
    };
    let probe = &scripts::PROBE.source;
    for command in ServerKind::Server.scripts().iter().flat_map(|script| commands(&script.source)) {
        assert!(probe.contains(&format!("'{command}'")), "{command} is not tried");
    }
}
