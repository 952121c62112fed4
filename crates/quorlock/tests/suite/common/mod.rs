//! A cluster of real servers with short timeouts, for the tests that need to wait for them.
#![allow(dead_code, unreachable_pub, reason = "floods.rs uses a part of this")]

pub mod draw;
pub mod long;
pub mod observe;

use std::time::Duration;

use quorlock::{Client, ClientBuilder};
use quorlock_testkit::RedisServer;

/// The maximum ttl of test clusters. A quarantine lasts a tenth longer.
pub const MAX_TTL: Duration = Duration::from_secs(3);
/// The usual ttl: long enough for a busy machine, short enough to wait for its end.
pub const TTL: Duration = Duration::from_secs(2);

/// Real servers, and clients for them.
pub struct Cluster {
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts servers, and initializes a cluster, so that they can vote at once.
    pub async fn ready(nodes: usize) -> Self {
        let cluster = Self { servers: RedisServer::start_many(nodes) };
        cluster.builder().init_cluster().await.expect("a new cluster can be declared");
        cluster
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// A builder for clients of this cluster.
    pub fn builder(&self) -> ClientBuilder {
        builder().nodes(self.urls())
    }

    pub async fn client(&self) -> Client {
        self.builder().connect_lazy().await.expect("the cluster is fit")
    }

    /// The lock keys on a node, without companion keys.
    pub fn lock_keys(&self, node: usize) -> Vec<String> {
        lock_keys(&self.servers[node])
    }
}

/// The lock keys on a server, without companion keys.
pub fn lock_keys(server: &RedisServer) -> Vec<String> {
    server.keys("*").into_iter().filter(|key| !key.starts_with("quorlock~")).collect()
}

/// The arguments with which a test binary runs only this ignored test (its path with the crate's name).
pub fn only(test: &str) -> [&str; 4] {
    let (_, path) = test.split_once("::").expect("a path with the name of the crate");
    ["--exact", path, "--ignored", "--nocapture"]
}

/// A builder with short timeouts. A rule that `QUORLOCK_WITHOUT` names is switched off; the test that guards it must
/// then fail.
pub fn builder() -> ClientBuilder {
    let builder = Client::builder()
        .ttl(TTL)
        .max_ttl(MAX_TTL)
        .max_clock_skew(Duration::from_secs(1))
        .max_clock_step_back(Duration::from_secs(1))
        .node_deadline(Duration::from_millis(500));
    without_a_rule(builder)
}

#[cfg(feature = "mutants")]
fn without_a_rule(builder: ClientBuilder) -> ClientBuilder {
    let Ok(wanted) = std::env::var("QUORLOCK_WITHOUT") else { return builder };
    let rule = quorlock::Rule::ALL.into_iter().find(|(name, _)| *name == wanted);
    let (_, rule) = rule.unwrap_or_else(|| panic!("QUORLOCK_WITHOUT: no rule is called {wanted:?}"));
    builder.rules(quorlock::Rules::without(rule))
}

#[cfg(not(feature = "mutants"))]
fn without_a_rule(builder: ClientBuilder) -> ClientBuilder {
    builder
}
