//! Servers and clients for all tests. The clients of this module have short timeouts, for tests that wait for timeouts.
#![allow(dead_code, unreachable_pub, reason = "floods.rs uses only a part of this module")]

pub mod long_timeouts;
pub mod observe;
pub mod random;

use std::time::Duration;

use quorlock::{Client, ClientBuilder};
use quorlock_testkit::RedisServer;

/// The maximum ttl of test clusters. A quarantine lasts a tenth longer.
pub const MAX_TTL: Duration = Duration::from_secs(3);
/// The ttl of most leases. It is long enough for a busy machine, and short enough to wait until a lease expires.
pub const TTL: Duration = Duration::from_secs(2);

/// Real servers that form a cluster.
pub struct Cluster {
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts servers, and initializes them as a cluster, so that they can vote at once.
    pub async fn start(nodes: usize) -> Self {
        let cluster = Self { servers: RedisServer::start_many(nodes) };
        cluster.builder().init_cluster().await.expect("a new cluster can be initialized");
        cluster
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// A builder for clients of this cluster.
    pub fn builder(&self) -> ClientBuilder {
        builder().nodes(self.urls())
    }

    /// A client of this cluster, which may not have reached the nodes yet.
    pub async fn client(&self) -> Client {
        self.builder().connect_lazy().await.expect("no node is unfit")
    }

    /// The keys of votes on a node, without the other keys of quorlock.
    pub fn lock_keys(&self, node: usize) -> Vec<String> {
        lock_keys(&self.servers[node])
    }
}

/// The keys of votes on a server, without the other keys of quorlock.
pub fn lock_keys(server: &RedisServer) -> Vec<String> {
    server.keys("*").into_iter().filter(|key| !key.starts_with("quorlock~")).collect()
}

/// The arguments that make the test binary run only the ignored test with this path. The path begins with the name of
/// the crate.
pub fn args_to_run(test: &str) -> [&str; 4] {
    let (_, path) = test.split_once("::").expect("the path begins with the name of the crate");
    ["--exact", path, "--ignored", "--nocapture"]
}

/// A builder with short timeouts.
///
/// If `QUORLOCK_WITHOUT` names a rule of the protocol, the client ignores this rule, and the tests that guard the rule
/// must fail.
pub fn builder() -> ClientBuilder {
    let builder = Client::builder()
        .ttl(TTL)
        .max_ttl(MAX_TTL)
        .max_clock_skew(Duration::from_secs(1))
        .max_clock_step_back(Duration::from_secs(1))
        .node_deadline(Duration::from_millis(500));
    apply_mutant(builder)
}

#[cfg(feature = "mutants")]
fn apply_mutant(builder: ClientBuilder) -> ClientBuilder {
    let Ok(name) = std::env::var("QUORLOCK_WITHOUT") else { return builder };
    let rule = quorlock::Rule::ALL.into_iter().find(|(rule_name, _)| *rule_name == name);
    let (_, rule) = rule.unwrap_or_else(|| panic!("QUORLOCK_WITHOUT: no rule is called {name:?}"));
    builder.rules(quorlock::Rules::without(rule))
}

#[cfg(not(feature = "mutants"))]
fn apply_mutant(builder: ClientBuilder) -> ClientBuilder {
    builder
}
