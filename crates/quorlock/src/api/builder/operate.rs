//! Methods for operators: make a new cluster, change its constants, examine its nodes.

use std::time::Duration;

use quorlock_core::name::Name;
use quorlock_core::node::Constants;

use super::{ClientBuilder, NodeSource, wait_for_answers};
use crate::api::client::Client;
use crate::cluster::admin;
use crate::cluster::doctor::{self, Configured, Examination, Finding, Measure, Severity, Topic};
use crate::error::{ConfigError, ReconfigureError};
use crate::node::LockKey;
use crate::node::probe::Plan;
use crate::platform::entropy;

impl ClientBuilder {
    /// Connects, and makes these nodes a new cluster, whose nodes may vote at once. See [`Client::init_cluster`].
    ///
    /// Call it only if no lock can be outstanding on these nodes.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the unusable nodes. Unless
    /// [`danger_discard_leases`](crate::ClientBuilder::danger_discard_leases) is set, it also names the nodes that have
    /// a lease or cannot list their names. If there is any such node, no node is changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, some nodes may have been changed and others not: repeat the call.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn init_cluster(self) -> Result<Client, ReconfigureError> {
        let client = self.start()?;
        client.init_cluster().await?;
        Ok(client)
    }

    /// Changes the constants of a cluster (the number of nodes, `max_ttl` and `max_clock_skew`) to those of this
    /// builder.
    ///
    /// The nodes of this builder must include a majority of the cluster's nodes; the other nodes of this builder may be
    /// new and blank. Leases that were acquired with the old constants cannot be renewed. The call returns when every
    /// node has the new constants. Then the nodes are quarantined for the old or the new `max_ttl`, whichever is
    /// longer, before they may vote. A single node votes at once.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the unusable nodes. If there is any, no node is changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, some nodes may have been changed and others not: repeat the call. Until then, the
    /// changed nodes do not vote.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn reconfigure(self) -> Result<Client, ReconfigureError> {
        let settings = self.settings()?;
        let nodes = self.open_nodes(&settings.constants(String::new()))?;
        admin::reconfigure(&nodes, &settings).await?;
        let client = self.launch(settings, nodes)?;
        wait_for_answers(&client).await.or_else(admin::check)?;
        Ok(client)
    }

    /// Examines every node and reports problems, also if [`connect`](Self::connect) would fail. Changes nothing.
    ///
    /// The call observes the nodes' clocks for the duration `watch`. If `watch` is zero, it does not measure the rates
    /// of the clocks.
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
    /// Dropping the future changes nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn examine(self, watch: Duration) -> Examination {
        let settings = self.settings();
        let constants = Constants { nodes: self.nodes.len(), ..self.settings.constants(String::new()) };
        let node_deadline = settings.as_ref().unwrap_or(&self.settings).look_deadline();
        let configured = self.configured(&constants);
        let measure = Measure { constants, drift: self.settings.drift, node_deadline };
        let mut found = doctor::examine(configured, &Plan { watch, key: self.random_key() }, &measure).await;
        if let Err(error) = settings {
            found.findings.push(Finding::new(Severity::Error, Topic::Settings, error.to_string(), ""));
        }
        found
    }

    /// Returns each node, or the error in its URL.
    fn configured(&self, constants: &Constants) -> Vec<Configured> {
        let configure = |(index, node): (usize, &NodeSource)| {
            self.open_node(index, node, constants).map_err(|error| match error {
                ConfigError::Url { url, why, .. } => (url, why),
                ConfigError::Alone { title, why } => (title, format!("it cannot be one of several nodes: {why}")),
                other => (format!("node {}", index + 1), other.to_string()),
            })
        };
        self.nodes.iter().enumerate().map(configure).collect()
    }

    /// Returns the key of a random name, if the template is valid.
    fn random_key(&self) -> Option<LockKey> {
        let name = Name::new(&format!("{:032x}", entropy::bits())).ok()?;
        self.node_key_template().ok()?.key(&name).ok()
    }
}
