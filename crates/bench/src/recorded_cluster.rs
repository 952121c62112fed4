//! A cluster of Redis servers for a case, and the commands that were recorded on it.

use quorlock::Client;
use quorlock_testkit::RedisServer;

use crate::Failure;
use crate::recording::{Bundles, Recording};

/// New servers that form a cluster, and the commands that one cycle sends to each server.
pub(crate) struct RecordedCluster {
    pub(crate) servers: Vec<RedisServer>,
    /// For each server, the commands of a cycle with a plain lock.
    pub(crate) plain: Vec<Recording>,
    /// For each server, the commands of a cycle with a fenced lock.
    pub(crate) fenced: Vec<Recording>,
    client: Client,
}

impl RecordedCluster {
    pub(crate) async fn start(nodes: usize) -> Result<Self, Failure> {
        let servers = RedisServer::start_many(nodes);
        let client = Client::builder().nodes(servers.iter().map(RedisServer::url)).init_cluster().await?;
        let plain = Recording::record(&servers, &client, true).await?;
        let fenced = Recording::record(&servers, &client, false).await?;
        Ok(Self { servers, plain, fenced, client })
    }

    /// Records the bundles that our library sends for many concurrent callers.
    pub(crate) async fn bundles(&self, plain: bool) -> Result<Vec<Bundles>, Failure> {
        Bundles::record(&self.servers, &self.client, plain).await
    }

    /// The URL of each server.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }
}
