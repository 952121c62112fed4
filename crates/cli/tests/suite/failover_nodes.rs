//! Nodes with failover: a master behind sentinels, and a Redis Cluster. Each is the only node of its user, who trusts
//! it not to forget a vote.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use quorlock_testkit::{Authority, RedisCluster, RedisServer, Sentinels, eventually};
use serde_json::Value;

use crate::common::{User, assert_fails, stderr, stdout};

/// A user of a node with failover, with an optional certificate authority.
struct TrustingUser<'a> {
    user: User,
    nodes: String,
    authority: Option<&'a Path>,
}

impl TrustingUser<'_> {
    fn new(nodes: String) -> Self {
        Self { user: User::new(), nodes, authority: None }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.user.quorlock(arguments);
        // The deadline is long, so that a busy machine does not fail the test.
        command.env("QUORLOCK_NODES", &self.nodes).env("QUORLOCK_NODE_DEADLINE", "10s");
        if let Some(authority) = self.authority {
            command.env("SSL_CERT_FILE", authority);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert!(!stdout(&output).contains("hunter") && !stderr(&output).contains("hunter"), "a password is shown");
        output
    }

    /// Runs a command that must succeed, and returns its stdout.
    fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// Runs every command that reads nodes or locks. `title` is the node's name in the output.
    fn assert_commands_work(&self, title: &str) {
        assert_eq!(self.run_ok(&["run", "a", "--", "sh", "-c", "echo $QUORLOCK_NAME"]), "a\n");
        let lease = self.run_ok(&["acquire", "a", "--label", "nightly"]);
        assert_fails(&self.run(&["run", "a", "-n", "--", "true"]), 75, "a is held by");
        let status = self.run_ok(&["status", "a"]);
        assert!(status.starts_with("a is held by ") && status.contains(", nightly)"), "{status}");
        assert!(status.lines().nth(2).unwrap().starts_with(title), "{status}");
        let lock: Value = serde_json::from_str(&self.run_ok(&["status", "a", "--json"])).unwrap();
        assert_eq!((&lock["held"], &lock["nodes"][0]["node"]), (&true.into(), &title.into()));
        let listed = self.run_ok(&["list"]);
        assert!(listed.lines().any(|line| line.starts_with("a ") && line.ends_with("1/1")), "{listed}");
        let nodes: Value = serde_json::from_str(&self.run_ok(&["nodes", "--json"])).unwrap();
        assert_eq!((&nodes["nodes"][0]["node"], &nodes["nodes"][0]["state"]), (&title.into(), &"voting".into()));
        let doctor = self.run_ok(&["doctor"]);
        assert!(doctor.contains(&format!("{title}  voting")), "{doctor}");
        assert!(doctor.contains("after a restart it may vote at once") && doctor.contains("no errors"), "{doctor}");
        assert_eq!(self.run_ok(&["release", lease.trim()]), "a is released\n");
        assert!(self.run_ok(&["status", "a"]).starts_with("a is free\n"));
    }
}

#[test]
fn a_master_behind_sentinels_works_as_a_node() {
    let sentinels = Sentinels::builder().replicas(1).password("hunter2").sentinel_password("hunter3").start();
    // One of the two sentinels is dead, which does not matter.
    let dead_sentinel = RedisServer::start();
    dead_sentinel.kill();
    let (dead_addr, live_addr) = (dead_sentinel.addr().to_string(), sentinels.sentinel.addr());
    let user = TrustingUser::new(sentinels.url_after(&[&dead_addr]));
    let title = format!("redis+sentinel://{dead_addr},{live_addr}/testkit");
    user.assert_commands_work(&title);
    sentinels.fail_over();
    eventually("the new master takes over", || user.run(&["run", "b", "-n", "--", "true"]).status.success());
    user.assert_commands_work(&title);
    sentinels.sentinel.kill();
    let output = user.run(&["run", "a", "--", "true"]);
    assert_fails(&output, 69, "no quorum for a: 1 of 1 nodes is unreachable");
    assert!(stderr(&output).contains(&title), "{}", stderr(&output));
}

#[test]
fn a_redis_cluster_works_as_a_node() {
    let cluster = RedisCluster::start(3);
    let user = TrustingUser::new(cluster.url());
    user.assert_commands_work(&user.nodes);
    let leases: Vec<String> = ["b", "c", "d", "e", "f"].map(|name| user.run_ok(&["acquire", name])).into();
    assert!(cluster.masters.iter().all(|master| !master.keys("quorlock:*").is_empty()), "a master has no lock");
    assert_eq!(user.run_ok(&["list"]).lines().count(), 1 + leases.len());
    for lease in leases {
        user.run_ok(&["release", lease.trim()]);
    }
    let nodes = user.nodes.replace("redis+cluster", "redis").replace(',', ",redis://");
    let user_of_masters = TrustingUser::new(nodes);
    assert_fails(&user_of_masters.run(&["run", "a", "--", "true"]), 78, "redis+cluster://");
}

#[test]
fn sentinels_and_their_master_can_use_tls() {
    let Some(authority) = Authority::make() else { return };
    let sentinels = Sentinels::builder().tls(&authority).start();
    let mut user = TrustingUser::new(sentinels.url());
    assert_fails(&user.run(&["run", "a", "--", "true"]), 69, "certificate");
    let path = authority.path();
    user.authority = Some(&path);
    user.assert_commands_work(user.nodes.strip_suffix("?tls=true").unwrap());
    user.nodes = user.nodes.strip_suffix("?tls=true").unwrap().to_owned();
    assert_fails(&user.run(&["run", "a", "--", "true"]), 69, "no quorum for a");
    user.nodes = user.nodes.replace("redis+", "rediss+");
    assert_fails(&user.run(&["run", "a", "--", "true"]), 78, "as in redis+sentinel://..?tls=true");
}

#[test]
fn a_node_with_failover_cannot_join_a_cluster() {
    for node in ["redis+sentinel://:hunter2@a/main", "redis+cluster://:hunter2@a"] {
        let user = TrustingUser::new(format!("{node},redis://b,redis://c"));
        assert_fails(&user.run(&["run", "a", "--", "true"]), 78, "cannot be one of several nodes");
    }
}
