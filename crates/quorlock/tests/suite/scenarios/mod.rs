//! Scenarios whose outcome depends on one rule of the protocol. `mutants.rs` runs each scenario with and without its
//! rule.
#![allow(dead_code, unreachable_pub, reason = "some scenarios are used only with the feature `mutants`")]

pub mod lost_reply;
pub mod node_ahead;
pub mod restarted_node;
pub mod slow_reply;

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Renewals};
use quorlock_testkit::{Proxy, RedisServer};

/// The name that every scenario locks.
pub const NAME: &str = "scenario";
/// A ttl that is longer than any scenario takes on the slowest machine.
pub const LONG: Duration = Duration::from_secs(30);
/// The maximum clock skew of the nodes.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);

/// Makes client builders. They obey all rules, or ignore one rule.
pub type NewBuilder<'a> = &'a (dyn Fn() -> ClientBuilder + Sync);

/// Servers that form a cluster. The timeouts of its clients are longer than any scenario takes.
pub struct ScenarioCluster<'a> {
    pub servers: Vec<RedisServer>,
    new_builder: NewBuilder<'a>,
}

/// A client that cannot reach some of the nodes.
pub struct PartialClient {
    pub client: Client,
    /// Proxies that refuse every connection, in front of the unreachable nodes.
    _refusing_proxies: Vec<Proxy>,
}

impl<'a> ScenarioCluster<'a> {
    /// Starts servers, and initializes them as a cluster.
    pub async fn start(nodes: usize, new_builder: NewBuilder<'a>) -> Self {
        let cluster = Self { servers: RedisServer::start_many(nodes), new_builder };
        cluster.builder().nodes(cluster.urls()).init_cluster().await.expect("a new cluster can be initialized");
        cluster
    }

    /// A client that can reach all nodes except these.
    pub async fn client_without(&self, unreachable: &[usize]) -> PartialClient {
        let mut urls = self.urls();
        let mut proxies = Vec::new();
        for &node in unreachable {
            let proxy = Proxy::start(self.servers[node].addr());
            proxy.refuse(true);
            urls[node] = proxy.url();
            proxies.push(proxy);
        }
        let client = self.builder().nodes(urls).connect_lazy().await.expect("no node is unfit");
        PartialClient { client, _refusing_proxies: proxies }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    pub fn builder(&self) -> ClientBuilder {
        (self.new_builder)()
            .ttl(LONG)
            .max_ttl(LONG)
            .max_clock_skew(MAX_CLOCK_SKEW)
            .max_clock_step_back(MAX_CLOCK_SKEW)
            .node_deadline(Duration::from_secs(10))
            .renewals(Renewals::Off)
    }
}
