//! The state that the handlers of all HTTP calls share.

use std::sync::Arc;

use quorlock::Client;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::auth::Clients;
use crate::config::{Config, Limits};
use crate::hub::Hub;
use crate::lease_id::Signer;
use crate::limiter::{Limiter, REMOVE_IDLE_EVERY};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::view::NodesView;

/// The state that the handlers of all HTTP calls share.
pub(crate) struct Service {
    /// The quorlock client that acquires, renews, releases and breaks leases.
    pub(crate) client: Client,
    /// The runtime of the reader thread, which reads the nodes and runs read-only calls.
    pub(crate) reader_runtime: Handle,
    pub(crate) limits: Limits,
    /// The number of configured nodes.
    pub(crate) nodes_total: usize,
    pub(crate) hub: Arc<Hub>,
    /// The HTTP clients that may call the service; `None` if every caller may.
    pub(crate) allowed_clients: Option<Clients>,
    /// Whether the service has no authentication, and therefore listens only on a loopback address. False if
    /// [`Config::danger_no_auth`] allows other addresses.
    pub(crate) is_loopback_only: bool,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: Limiter,
    /// True when the service is about to stop.
    stopping: watch::Receiver<bool>,
}

impl Service {
    pub(crate) fn new(
        config: Config,
        reader: Client,
        reader_runtime: Handle,
        stopping: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let is_loopback_only = config.is_loopback_only();
        let Config { client, limits, allowed_clients, .. } = config;
        let metrics = Metrics::new(&client);
        Arc::new(Self {
            reader_runtime,
            limits,
            nodes_total: client.nodes().len(),
            hub: Hub::new(client.clone(), reader, metrics.reads.clone()),
            allowed_clients,
            is_loopback_only,
            limiter: Limiter::new(limits, &metrics),
            metrics,
            client,
            stopping,
        })
    }

    pub(crate) fn nodes(&self) -> NodesView {
        NodesView::new(self.client.node_stats())
    }

    /// Returns the signer of lease ids, which is the same on every replica.
    pub(crate) fn signer(&self) -> Result<Signer, Problem> {
        let cluster = self.client.cluster_id();
        cluster.map(|id| Signer::new(&id)).ok_or_else(|| Problem::no_majority(&self.nodes()))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the service is about to stop.
    pub(crate) async fn wait_until_stopping(&self) {
        // If the sender was dropped, the service has stopped.
        let _ = self.stopping.clone().wait_for(|is_stopping| *is_stopping).await;
    }

    /// Returns the output of the future. Drops the future and returns an error if the service is about to stop.
    pub(crate) async fn run_unless_stopping<T>(&self, future: impl Future<Output = T>) -> Result<T, Problem> {
        if self.is_stopping() {
            return Err(Problem::draining());
        }
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.wait_until_stopping() => Err(Problem::draining()),
        }
    }

    /// Keeps the hub's copy of the nodes' state fresh, until the service stops.
    pub(crate) async fn watch_nodes(self: Arc<Self>) {
        while self.run_unless_stopping(self.hub.read_when_due()).await.is_ok() {}
    }

    /// Removes idle clients from the limiter at intervals, until the service stops.
    pub(crate) async fn remove_idle_clients(self: Arc<Self>) {
        while self.run_unless_stopping(tokio::time::sleep(REMOVE_IDLE_EVERY)).await.is_ok() {
            self.limiter.remove_idle_clients();
        }
    }
}
