//! What operators do: declare a cluster, change its constants, find out what is wrong.

use std::time::Duration;

use quorlock_core::name::Name;
use quorlock_core::node::Constants;

use super::{ClientBuilder, first_contact};
use crate::api::client::Client;
use crate::cluster::admin;
use crate::cluster::doctor::{self, Configured, Examination, Finding, Measure, Severity, Topic};
use crate::error::{ConfigError, ConnectError, ReconfigureError};
use crate::node::key::LockKey;
use crate::node::probe::Plan;
use crate::platform::entropy;

impl ClientBuilder {
    /// Connects, and [declares](Client::init_cluster) that no lock can be outstanding on these nodes: whatever they
    /// were before, they become one new cluster and may vote at once.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that show a lease or cannot list their names, unless
    /// [`danger_discard_leases`](crate::ClientBuilder::danger_discard_leases) is set, and those that cannot be used. If any cannot be, none is changed.
    ///
    /// # Cancel safety
    /// Dropped half-way, some nodes may have been changed and others not: call it again.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn init_cluster(self) -> Result<Client, ReconfigureError> {
        let client = self.start()?;
        client.init_cluster().await?;
        Ok(client)
    }

    /// Changes the constants of the cluster that these nodes belong to, to this builder's: their number, `max_ttl` and
    /// the max clock skew. Leases that are held by the old ones are not renewed any more. Returns when every node has been told, and
    /// before they may vote: they are quarantined for the longer of both `max_ttl`, but for a node that stands alone.
    ///
    /// A majority of the cluster's nodes has to be among these; others may be new and blank.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that cannot be used. If any cannot be, none is changed.
    ///
    /// # Cancel safety
    /// Dropped half-way, some nodes may have been changed and others not: call it again. Until then, those that were
    /// changed do not vote.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn reconfigure(self) -> Result<Client, ReconfigureError> {
        let settings = self.settings()?;
        let nodes = self.open_nodes(&settings.constants(String::new()))?;
        admin::reconfigure(&nodes, &settings).await?;
        let client = self.launch(settings, nodes)?;
        first_contact(&client).await.map_err(|error| match error {
            ConnectError::Config(error) => ReconfigureError::Config(error),
            ConnectError::Unfit { nodes } => ReconfigureError::Failed { nodes },
            ConnectError::Denied { nodes } => ReconfigureError::Denied { nodes },
            ConnectError::NoMajority { nodes, .. } => {
                let failed = nodes.into_iter().filter_map(|(title, why)| Some((title, why?.to_string())));
                ReconfigureError::Failed { nodes: failed.collect() }
            }
        })?;
        Ok(client)
    }

    /// Looks at every node and says what is wrong, also where [`connect`](Self::connect) would refuse. It changes nothing
    /// on them. Their clocks are watched for so long; with zero it is not told how fast they run.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use quorlock::{Client, MemoryNodes, Severity};
    ///
    /// let found = Client::builder().memory(&MemoryNodes::new(3)).examine(Duration::ZERO).await;
    /// for (node, finding) in found.all().filter(|(_, finding)| finding.severity > Severity::Ok) {
    ///     println!("{}: {finding}", node.map_or("all nodes", |node| &node.title));
    /// }
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// It only looks.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn examine(self, watch: Duration) -> Examination {
        let settings = self.settings();
        let constants = Constants { nodes: self.count(), ..self.settings.constants(String::new()) };
        let node_deadline = settings.as_ref().unwrap_or(&self.settings).look_deadline();
        let configured = self.configured(&constants);
        let measure = Measure { constants, drift: self.settings.drift, node_deadline };
        let mut found = doctor::examine(configured, &Plan { watch, key: self.nobodys() }, &measure).await;
        if let Err(error) = settings {
            found.findings.push(Finding::new(Severity::Wrong, Topic::Settings, error.to_string(), ""));
        }
        found
    }

    /// Each node, or what is wrong with its URL.
    fn configured(&self, constants: &Constants) -> Vec<Configured> {
        if let Some(memory) = &self.memory {
            return memory.iter().map(Ok).collect();
        }
        let configure = |(index, url): (usize, &String)| {
            self.open_node(index, url, constants).map_err(|error| match error {
                ConfigError::Url { url, why, .. } => (url, why),
                ConfigError::Alone { title, why } => (title, format!("it cannot be one of several nodes: {why}")),
                other => (format!("node {}", index + 1), other.to_string()),
            })
        };
        self.urls.iter().enumerate().map(configure).collect()
    }

    /// A name that nobody has, if the template makes keys.
    fn nobodys(&self) -> Option<LockKey> {
        let name = Name::new(&format!("{:032x}", entropy::bits())).ok()?;
        self.keys().ok()?.key(&name).ok()
    }
}
