//! Scenarios whose outcome depends on one rule of the protocol. `mutants.rs` runs them with and without the rule.
#![allow(dead_code, unreachable_pub, reason = "some are used only with the feature `mutants`")]

pub mod lost_reply;
pub mod node_ahead;
pub mod restarted_node;
pub mod slow_reply;

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Renewals};
use quorlock_testkit::{Proxy, RedisServer};

/// The name that every scenario locks.
pub const NAME: &str = "story";
/// Long enough that nothing expires during a scenario, on the slowest machine.
pub const LONG: Duration = Duration::from_secs(30);
/// The maximum clock skew of the nodes.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);

/// Makes builders with or without a rule.
pub type Recipe<'a> = &'a (dyn Fn() -> ClientBuilder + Sync);

/// Servers that form a cluster, with timeouts that are never reached.
pub struct Stage<'a> {
    pub servers: Vec<RedisServer>,
    recipe: Recipe<'a>,
}

/// A client, and the proxies that separate it from some of the nodes.
pub struct Player {
    pub client: Client,
    _walls: Vec<Proxy>,
}

impl<'a> Stage<'a> {
    pub async fn new(nodes: usize, recipe: Recipe<'a>) -> Self {
        let stage = Self { servers: RedisServer::start_many(nodes), recipe };
        stage.builder().nodes(stage.urls()).init_cluster().await.expect("a new cluster can be declared");
        stage
    }

    /// A client that can reach all nodes except these.
    pub async fn player(&self, out_of_reach: &[usize]) -> Player {
        let mut urls = self.urls();
        let mut walls = Vec::new();
        for &node in out_of_reach {
            let wall = Proxy::start(self.servers[node].addr());
            wall.refuse(true);
            urls[node] = wall.url();
            walls.push(wall);
        }
        let client = self.builder().nodes(urls).connect_lazy().await.expect("the cluster is fit");
        Player { client, _walls: walls }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    pub fn builder(&self) -> ClientBuilder {
        (self.recipe)()
            .ttl(LONG)
            .max_ttl(LONG)
            .max_clock_skew(MAX_CLOCK_SKEW)
            .max_clock_step_back(MAX_CLOCK_SKEW)
            .node_deadline(Duration::from_secs(10))
            .renewals(Renewals::Off)
    }
}
