//! The metrics of one `quorlock serve` process, for Prometheus. The name of a lock is never the value of a label.

use std::time::Duration;

use axum::http::Method;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use quorlock::Client;

use crate::problem::{Code, code_text};
use crate::view::NodesView;

/// The content type of the metrics.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper bounds of the buckets, in seconds. The smallest one fits an acquire of a free lock on one machine, and the
/// largest one a long wait.
const BUCKETS: [f64; 12] = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30.0, 600.0];

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];

/// The metrics and their registry.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    problems: Family<Labels<1>, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) followers: Gauge,
    /// The number of callers that hung up before the answer or during a wait.
    pub(crate) hangups: Counter,
    pub(crate) renewals: Counter,
    pub(crate) releases: Counter,
    /// How often this process read the nodes to answer read-only calls.
    pub(crate) reads: Counter,
}

impl Metrics {
    pub(crate) fn new(client: &Client) -> Self {
        let mut registry = Registry::with_prefix("quorlock");
        let durations: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(
            "http_request_duration_seconds",
            "From the head of a request to the head of its answer; includes the wait of a long poll, but not of a stream",
            durations.clone(),
        );
        registry.register("build", "The version of this replica", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(ClientStats(client.clone())));
        Self {
            requests: register(&mut registry, "http_requests", "Answered requests"),
            durations,
            problems: register(&mut registry, "problems", "Requests that failed, by code"),
            connections: register(&mut registry, "http_connections", "Open connections"),
            waiters: register(&mut registry, "waiters", "Requests that are waiting for a lock"),
            followers: register(&mut registry, "followers", "Open event streams"),
            hangups: register(&mut registry, "http_hangups", "Callers that hung up before the answer or during a wait"),
            renewals: register(&mut registry, "renewals", "Renewed leases"),
            releases: register(&mut registry, "releases", "Released leases"),
            reads: register(&mut registry, "reads", "Reads of the nodes for read-only calls"),
            registry,
        }
    }

    /// Counts an answer, and its problem if it has one.
    pub(crate) fn count_answer(&self, call: &str, method: &Method, status: u16, code: Option<Code>, took: Duration) {
        let call = ("call", call.to_owned());
        self.durations.get_or_create(std::array::from_ref(&call)).observe(took.as_secs_f64());
        let labels = [call, ("method", method_label(method).to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        if let Some(code) = code {
            self.count_problem(code);
        }
    }

    /// Counts a problem by its code.
    pub(crate) fn count_problem(&self, code: Code) {
        self.problems.get_or_create(&[("code", code_text(code))]).inc();
    }

    /// Returns the metrics as text, for one scrape.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Returns the method, or `other` for an unknown method. Callers can invent methods, and each would add a time series.
fn method_label(method: &Method) -> &'static str {
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    methods.into_iter().find(|name| method == name).unwrap_or("other")
}

/// The counters of the quorlock client, which are read at each scrape.
#[derive(Debug)]
struct ClientStats(Client);

impl Collector for ClientStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        let counters = [
            ("leases_granted", "Acquired locks", stats.acquired),
            ("leases_sealed_late", "Acquired locks that needed a second round to seal the fence", stats.sealed_late),
            ("acquires_held", "Acquires that failed because another holder had the lock", stats.held),
            ("acquires_no_quorum", "Acquires that failed because too few nodes voted", stats.no_quorum),
            ("acquires_too_slow", "Acquires that failed because a majority granted too late", stats.too_slow),
            ("node_requests", "Requests sent to nodes", stats.requests),
            ("node_replies", "Replies from nodes", stats.replies),
            ("node_hints", "Hints from nodes", stats.hints),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let nodes = NodesView::new(self.0.node_stats());
        let gauges =
            [("nodes", "Configured nodes", nodes.nodes.len()), ("nodes_voting", "Nodes that can vote", nodes.voting)];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unknown_methods_share_one_time_series() {
        let metrics = Metrics::new(&Client::memory().await);
        for method in ["BREW", "WHEN", "POST"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            metrics.count_answer("other", &method, 404, None, Duration::ZERO);
        }
        let text = metrics.text();
        assert!(text.contains(r#"http_requests_total{call="other",method="other",status="404"} 2"#), "{text}");
        assert!(text.contains(r#"http_requests_total{call="other",method="POST",status="404"} 1"#), "{text}");
    }
}
