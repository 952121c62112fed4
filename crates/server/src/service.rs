//! The state that all calls share.

use std::sync::Arc;

use quorlock::Client;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::auth::Clients;
use crate::config::{Config, Limits};
use crate::hub::Hub;
use crate::lease_id::Signer;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::rate::{FORGET_EVERY, Rates};
use crate::view::NodesView;

/// The state that all calls share.
pub(crate) struct Service {
    pub(crate) client: Client,
    /// The runtime that serves readers.
    pub(crate) readers: Handle,
    pub(crate) limits: Limits,
    /// The number of configured nodes.
    pub(crate) nodes_total: usize,
    pub(crate) hub: Arc<Hub>,
    /// The HTTP clients that may call the service; `None` if every caller may.
    pub(crate) allowed_clients: Option<Clients>,
    /// Whether the service listens only on a loopback address, because nothing authenticates its callers.
    pub(crate) is_loopback_only: bool,
    pub(crate) metrics: Metrics,
    pub(crate) rates: Rates,
    stopping: watch::Receiver<bool>,
}

impl Service {
    pub(crate) fn new(config: Config, reader: Client, readers: Handle, stopping: watch::Receiver<bool>) -> Arc<Self> {
        let is_loopback_only = config.is_loopback_only();
        let Config { client, limits, allowed_clients, .. } = config;
        let metrics = Metrics::new(&client);
        Arc::new(Self {
            readers,
            limits,
            nodes_total: client.nodes().len(),
            hub: Hub::new(client.clone(), reader, metrics.reads.clone()),
            allowed_clients,
            is_loopback_only,
            rates: Rates::new(limits, &metrics),
            metrics,
            client,
            stopping,
        })
    }

    pub(crate) fn nodes(&self) -> NodesView {
        NodesView::new(self.client.node_stats())
    }

    /// Returns the signer of leases, which is the same on every replica.
    pub(crate) fn signer(&self) -> Result<Signer, Problem> {
        let cluster = self.client.cluster_id();
        cluster.map(|id| Signer::new(&id)).ok_or_else(|| Problem::no_majority(&self.nodes()))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the service is about to stop.
    pub(crate) async fn stopping(&self) {
        // If the sender is gone, the service has stopped.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Returns the result of the work. Drops the work if the service is about to stop.
    pub(crate) async fn unless_stopping<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        if self.is_stopping() {
            return Err(Problem::draining());
        }
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.stopping() => Err(Problem::draining()),
        }
    }

    /// Keeps the shared copy of the nodes' state fresh, until the service stops.
    pub(crate) async fn watch_nodes(self: Arc<Self>) {
        while self.unless_stopping(self.hub.read_when_due()).await.is_ok() {}
    }

    /// Forgets idle callers, until the service stops.
    pub(crate) async fn forget_quiet_callers(self: Arc<Self>) {
        while self.unless_stopping(tokio::time::sleep(FORGET_EVERY)).await.is_ok() {
            self.rates.forget();
        }
    }
}
