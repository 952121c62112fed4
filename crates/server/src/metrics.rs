//! What a replica has done, in numbers: for Prometheus. No label is ever a lock's name.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::Method;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use quorlock::Client;

use crate::problem::{Code, word};
use crate::view::NodesView;

/// What the text is called.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds: from a lock that is free on one machine to a long wait.
const BUCKETS: [f64; 12] = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30.0, 600.0];

/// Which call it was, as `/openapi.json` has it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Call {
    call: Cow<'static, str>,
}

impl Call {
    /// One that there is not.
    pub(crate) const OTHER: Self = Self::known("other");

    pub(crate) const fn known(path: &'static str) -> Self {
        Self { call: Cow::Borrowed(path) }
    }

    /// One of the router's.
    pub(crate) fn found(path: &str) -> Self {
        Self { call: Cow::Owned(path.to_owned()) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.call
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    #[prometheus(flatten)]
    call: Call,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    code: String,
}

/// The numbers, and how they are written.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Family<Call, Histogram, fn() -> Histogram>,
    problems: Family<Failed, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) followers: Gauge,
    /// Callers that did not wait for their answers, or for the end of their waiting.
    pub(crate) hangups: Counter,
    pub(crate) renewals: Counter,
    pub(crate) releases: Counter,
    /// Reads of the nodes for those who look.
    pub(crate) reads: Counter,
}

impl Metrics {
    pub(crate) fn new(client: &Client) -> Self {
        let mut registry = Registry::with_prefix("quorlock");
        let durations: Family<Call, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let metrics = Self {
            requests: Family::default(),
            durations,
            problems: Family::default(),
            connections: Gauge::default(),
            waiters: Gauge::default(),
            followers: Gauge::default(),
            hangups: Counter::default(),
            renewals: Counter::default(),
            releases: Counter::default(),
            reads: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("http_requests", "Requests that were answered", metrics.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "From the head of a request to the head of its answer: of a long poll with the waiting, of a stream without",
            metrics.durations.clone(),
        );
        registry.register("problems", "Requests that came to nothing, by code", metrics.problems.clone());
        registry.register("http_connections", "Open connections", metrics.connections.clone());
        registry.register("waiters", "Requests that wait for a lock", metrics.waiters.clone());
        registry.register("followers", "Streams of events that are read", metrics.followers.clone());
        registry.register("http_hangups", "Callers that hung up while they waited", metrics.hangups.clone());
        registry.register("renewals", "Leases that were renewed", metrics.renewals.clone());
        registry.register("releases", "Leases that were released", metrics.releases.clone());
        registry.register("reads", "Reads of the nodes, for all who list, look and follow", metrics.reads.clone());
        registry.register("build", "What is running", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(OfTheClient(client.clone())));
        Self { registry, ..metrics }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, call: Call, method: &Method, status: u16, code: Option<Code>, took: Duration) {
        self.durations.get_or_create(&call).observe(took.as_secs_f64());
        self.requests.get_or_create(&Answered { call, method: known(method), status }).inc();
        if let Some(code) = code {
            self.failed(code);
        }
    }

    /// A request came to nothing.
    pub(crate) fn failed(&self, code: Code) {
        self.problems.get_or_create(&Failed { code: word(code) }).inc();
    }

    /// The text that is scraped.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Callers may think of any method: each would be a line of its own for ever.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    known.into_iter().find(|known| method == known).unwrap_or("other")
}

/// What the library counts, read when it is asked for.
#[derive(Debug)]
struct OfTheClient(Client);

impl Collector for OfTheClient {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        let counters = [
            ("leases_granted", "Locks that were won", stats.acquired),
            ("leases_sealed_late", "Of those, with a second round for the fence", stats.sealed_late),
            ("acquires_held", "Acquires that ended because somebody else held the lock", stats.held),
            ("acquires_no_quorum", "Acquires that ended because too few nodes voted", stats.no_quorum),
            ("acquires_too_slow", "Acquires that ended because a majority granted too late", stats.too_slow),
            ("node_requests", "Requests to nodes", stats.requests),
            ("node_replies", "Answers of nodes", stats.replies),
            ("node_hints", "Hints of nodes", stats.hints),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let nodes = NodesView::new(self.0.node_stats());
        let gauges = [
            ("nodes", "Nodes, by configuration", nodes.nodes.len()),
            ("nodes_voting", "Nodes that can vote", nodes.voting),
        ];
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
    async fn a_method_that_somebody_made_up_has_no_line_of_its_own() {
        let metrics = Metrics::new(&Client::memory().await);
        for method in ["BREW", "WHEN", "POST"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            metrics.answered(Call::OTHER, &method, 404, None, Duration::ZERO);
        }
        let text = metrics.text();
        assert!(text.contains(r#"http_requests_total{call="other",method="other",status="404"} 2"#), "{text}");
        assert!(text.contains(r#"http_requests_total{call="other",method="POST",status="404"} 1"#), "{text}");
    }
}
