//! What every call has at hand.

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
use crate::rate::Rates;
use crate::view::NodesView;

/// What every call has at hand. Clones share everything.
#[derive(Clone)]
pub(crate) struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    readers: Handle,
    limits: Limits,
    nodes: usize,
    stopping: watch::Receiver<bool>,
    hub: Arc<Hub>,
    clients: Option<Clients>,
    is_of_this_machine: bool,
    metrics: Metrics,
    rates: Rates,
}

impl Service {
    pub(crate) fn new(config: Config, reader: Client, readers: Handle, stopping: watch::Receiver<bool>) -> Self {
        let is_of_this_machine = config.is_of_this_machine();
        let Config { client, limits, clients, .. } = config;
        let nodes = client.nodes().len();
        let (metrics, rates) = (Metrics::new(&client), Rates::new(limits));
        let hub = Hub::new(client.clone(), reader, metrics.reads.clone(), stopping.clone());
        Self {
            inner: Arc::new(Inner {
                client,
                readers,
                limits,
                nodes,
                stopping,
                hub,
                clients,
                is_of_this_machine,
                metrics,
                rates,
            }),
        }
    }

    /// Who may call; `None` for anybody.
    pub(crate) fn clients(&self) -> Option<&Clients> {
        self.inner.clients.as_ref()
    }

    /// Whether it is for whoever is on this machine, without authentication.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.inner.is_of_this_machine
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The runtime that serves those who read.
    pub(crate) fn readers(&self) -> &Handle {
        &self.inner.readers
    }

    pub(crate) fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// How many nodes there are, by configuration.
    pub(crate) fn nodes_total(&self) -> usize {
        self.inner.nodes
    }

    pub(crate) fn nodes(&self) -> NodesView {
        NodesView::new(self.inner.client.node_stats())
    }

    /// What signs leases, and knows its own: the same on every replica.
    pub(crate) fn signer(&self) -> Result<Signer, Problem> {
        let cluster = self.client().cluster_id();
        cluster.map(|id| Signer::new(&id)).ok_or_else(|| Problem::no_majority(&self.nodes()))
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.inner.stopping.borrow()
    }

    /// Returns when the service is about to stop.
    pub(crate) async fn stopping(&self) {
        // Without its sender there is nothing left that could be served.
        let _ = self.inner.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// The work's result, unless the service is about to stop: then the work is dropped.
    pub(crate) async fn unless_stopping<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        if self.is_stopping() {
            return Err(Problem::draining());
        }
        // What is done at once needs nobody to watch over it.
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.stopping() => Err(Problem::draining()),
        }
    }
}
