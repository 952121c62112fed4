//! A cluster of Redis servers for a case, and the commands that were recorded on it.

use quorlock::Client;
use quorlock_testkit::RedisServer;

use crate::Failure;
use crate::recording::{Recording, SharedCommands};

/// New servers that form a cluster, and the commands that one cycle sends to each server.
pub(crate) struct RecordedCluster {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) plain: Vec<Recording>,
    pub(crate) fenced: Vec<Recording>,
    client: Client,
}

impl RecordedCluster {
    pub(crate) async fn start(nodes: usize) -> Result<Self, Failure> {
        let servers = RedisServer::start_many(nodes);
        let client = Client::builder().nodes(servers.iter().map(RedisServer::url)).init_cluster().await?;
        let plain = Recording::take(&servers, &client, true).await?;
        let fenced = Recording::take(&servers, &client, false).await?;
        Ok(Self { servers, plain, fenced, client })
    }

    /// Records the commands in which our library sends requests of many concurrent callers.
    pub(crate) async fn shared_commands(&self, plain: bool) -> Result<Vec<SharedCommands>, Failure> {
        SharedCommands::take(&self.servers, &self.client, plain).await
    }

    /// The URL of each server.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }
}
