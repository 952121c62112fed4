//! Redis servers for a case, set up as a cluster.

use quorlock::Client;
use quorlock_testkit::RedisServer;

use crate::Failure;
use crate::record::{Bundles, Recording};

/// Fresh servers, and the commands that one cycle sends to each server.
pub(crate) struct Stage {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) plain: Vec<Recording>,
    pub(crate) fenced: Vec<Recording>,
    client: Client,
}

impl Stage {
    pub(crate) async fn set(nodes: usize) -> Result<Self, Failure> {
        let servers = RedisServer::start_many(nodes);
        let client = Client::builder().nodes(servers.iter().map(RedisServer::url)).init_cluster().await?;
        let plain = Recording::take(&servers, &client, true).await?;
        let fenced = Recording::take(&servers, &client, false).await?;
        Ok(Self { servers, plain, fenced, client })
    }

    /// The commands that many concurrent callers share.
    pub(crate) async fn bundles(&self, plain: bool) -> Result<Vec<Bundles>, Failure> {
        Bundles::take(&self.servers, &self.client, plain).await
    }

    /// The URL of each server.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }
}
