//! Connects: `connect` fails with a reason, `connect_lazy` does not wait for nodes, and each outage is logged once.

use std::fmt::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::Cluster;
use crate::common::long_timeouts::{self, LONG};
use quorlock::{AcquireError, Client, ConnectError, Silence, blocking};
use quorlock_testkit::{RedisServer, eventually_async};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};

/// URLs of ports on which no server listens.
fn unused_urls(count: usize) -> Vec<String> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port is free")).collect();
    listeners
        .iter()
        .map(|listener| format!("redis://{}", listener.local_addr().expect("the socket is bound")))
        .collect()
}

/// A connect timeout that a test can wait for.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_names_each_node_and_the_reason_when_no_majority_can_vote() {
    let mut urls = unused_urls(2);
    urls.push("redis://no-such-host.invalid:6379".into());
    let error =
        Client::builder().nodes(&urls).connect_timeout(SHORT_TIMEOUT).connect().await.expect_err("no server listens");
    let ConnectError::NoMajority { nodes, .. } = &error else { panic!("{error}") };
    assert!(
        nodes.iter().zip(&urls).all(|((node, silence), url)| url.starts_with(node) && silence.is_some()),
        "{nodes:?}"
    );
    let text = error.to_string();
    assert!(text.starts_with("no majority: 3 of 3 nodes cannot vote after "), "{text}");
    assert!(urls.iter().all(|url| text.contains(url.as_str())) && text.contains("refused"), "{text}");
    assert!(!text.contains("init"), "the error advises to initialize a cluster that is only unreachable: {text}");
    let first_url = [urls[0].clone()];
    let error = tokio::task::spawn_blocking(move || blocking_error(&first_url)).await.expect("the task does not panic");
    assert!(matches!(&error, ConnectError::NoMajority { .. }) && error.to_string().contains(&urls[0]), "{error}");
}

fn blocking_error(urls: &[String]) -> ConnectError {
    blocking::Client::start(Client::builder().nodes(urls).connect_timeout(SHORT_TIMEOUT).connect())
        .expect_err("no server listens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_waits_for_a_majority() {
    let cluster = long_timeouts::ProxiedCluster::start(3).await;
    cluster.servers[1..].iter().for_each(RedisServer::freeze);
    let connecting = tokio::spawn(cluster.direct_builder().connect_timeout(LONG).connect());
    // Wait until the first node answers. One of three nodes is not enough for `connect`.
    let watcher = cluster.direct_builder().connect_lazy().await.expect("no node is unfit");
    let has_answered = || matches!(watcher.nodes()[0].1, None | Some(Silence::Waiting(_)));
    eventually_async("the first node to answer", async || has_answered()).await;
    assert!(!connecting.is_finished());
    cluster.servers[1].thaw();
    let client = connecting.await.expect("the task does not panic").expect("a majority can vote");
    client.lock("a").acquire().await.expect("the lock is free").release().await.expect("a majority answers");
    cluster.servers[2].thaw();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_reports_the_remaining_quarantine_and_how_to_avoid_it() {
    let servers = RedisServer::start_many(3);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    // `connect` fails before its timeout, because the quarantine lasts longer than the timeout.
    let error = Client::builder()
        .nodes(&urls)
        .connect_timeout(LONG / 2)
        .connect()
        .await
        .expect_err("new nodes are in quarantine");
    let text = error.to_string();
    assert!(text.starts_with("no majority: 3 of 3 nodes cannot vote"), "{text}");
    assert!(
        urls.iter().all(|url| text.contains(url.as_str())) && text.contains("clients have been connected for 6"),
        "{text}"
    );
    assert!(text.contains("connect_lazy") && text.contains("quorlock nodes init"), "{text}");
    servers[2].kill();
    let error = Client::builder()
        .nodes(&urls)
        .connect_timeout(SHORT_TIMEOUT)
        .connect()
        .await
        .expect_err("one node is unreachable");
    let text = error.to_string();
    assert!(text.contains("unreachable") && !text.contains("nodes init"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_names_the_node_that_a_new_cluster_waits_for() {
    let servers = RedisServer::start_many(2);
    let mut urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    urls.extend(unused_urls(1));
    let error = Client::builder()
        .nodes(&urls)
        .connect_timeout(SHORT_TIMEOUT)
        .connect()
        .await
        .expect_err("one node is unreachable");
    let text = error.to_string();
    assert!(text.starts_with("no majority: 3 of 3 nodes cannot vote"), "{text}");
    assert!(text.contains(&format!("{} unreachable", urls[2])), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistyped_host_is_named_by_an_acquire_after_connect_lazy() {
    let url = "redis://no-such-host.invalid:6379";
    let client = Client::connect_lazy([url]).await.expect("connect_lazy accepts unreachable nodes");
    for wait in [Duration::ZERO, Duration::from_millis(50), Duration::from_secs(1)] {
        let error = client.lock("a").acquire_within(wait).await.expect_err("the host does not exist");
        let text = error.to_string();
        assert!(text.contains(url) && text.contains("unreachable"), "{wait:?}: {text}");
    }
    let unused_url = unused_urls(1);
    let acquiring = tokio::task::spawn_blocking(move || {
        let client = blocking::Client::start(Client::connect_lazy(&unused_url));
        let client = client.expect("connect_lazy accepts unreachable nodes");
        client.lock("a").try_acquire().expect_err("no server listens")
    });
    let error = acquiring.await.expect("the task does not panic");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
}

/// Commands that make a server unusable as a node, each with a word of the resulting error.
const FAULTS: [(&[&str], &str); 4] = [
    (&["REPLICAOF", "127.0.0.1", "1"], "replica"),
    (&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"], "allkeys-lru"),
    (&["CONFIG", "SET", "requirepass", "correct-horse"], "NOAUTH"),
    (&["ACL", "SETUSER", "default", "-info"], "NOPERM"),
];

/// The runtime has one thread, because the test reads the log of this thread.
#[tokio::test]
async fn one_unusable_node_is_tolerated_and_two_of_three_are_an_error() {
    for (fault, word) in FAULTS {
        let cluster = Cluster::start(3).await;
        let running_client = long_timeouts::connect_to_all(cluster.builder()).await;
        let explains = |text: &str, index: usize| text.contains(&cluster.servers[index].url()) && text.contains(word);
        cluster.servers[0].command(fault);
        let (log, guard) = Log::start();
        for is_lazy in [false, true] {
            let builder = cluster.builder();
            let client = if is_lazy { builder.connect_lazy().await } else { builder.connect().await };
            let client = client.unwrap_or_else(|error| panic!("two of three nodes are a majority: {error}"));
            eventually_async("the client to report the unusable node", async || {
                client.nodes()[0].1.as_ref().is_some_and(|silence| silence.to_string().contains(word))
            })
            .await;
            client.lock("new").acquire().await.expect("a majority votes").release().await.expect("a majority answers");
        }
        drop(running_client.lock("running").acquire().await.expect("a majority votes"));
        assert!(log.lines().iter().any(|line| explains(line, 0)), "{word}: {:#?}", log.lines());
        drop(guard);

        cluster.servers[1].command(fault);
        for is_lazy in [false, true] {
            let builder = cluster.builder();
            let client = if is_lazy { builder.connect_lazy().await } else { builder.connect().await };
            let error = client.expect_err("one of three nodes is no majority").to_string();
            assert!(
                explains(&error, 0) && explains(&error, 1) && !error.contains(&cluster.servers[2].url()),
                "{error}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_cluster_with_an_unusable_node_is_refused() {
    let servers = RedisServer::start_many(3);
    servers[2].command(FAULTS[0].0);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    // A new cluster needs all of its nodes, so even `connect_lazy` fails at once.
    let error = Client::connect_lazy(&urls).await.expect_err("a new cluster needs all of its nodes");
    assert!(matches!(&error, ConnectError::Unfit { .. }) && error.to_string().contains(&urls[2]), "{error}");
    assert!(servers[..2].iter().all(|server| server.keys("*").is_empty()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_from_connect_lazy_uses_nodes_that_become_usable_later() {
    let cluster = Cluster::start(3).await;
    cluster.servers[0].command(FAULTS[0].0);
    cluster.servers[1].kill();
    let error = cluster
        .builder()
        .connect_timeout(SHORT_TIMEOUT)
        .connect()
        .await
        .expect_err("one of three nodes is no majority");
    let text = error.to_string();
    assert!(matches!(error, ConnectError::NoMajority { .. }) && text.contains("replica"), "{text}");
    let client = cluster.builder().connect_lazy().await.expect("connect_lazy accepts a dead node");
    cluster.servers[0].command(&["REPLICAOF", "NO", "ONE"]);
    cluster.servers[1].restart();
    drop(client.lock("a").acquire().await.expect("acquire retries until a majority votes"));
}

/// Collects the log records of this thread at level `WARN` and above.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("the mutex is not poisoned").clone()
    }

    /// The number of lines that contain this text.
    fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("the mutex is not poisoned").push(text.0);
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The runtime has one thread, because the test reads the log of this thread.
#[tokio::test]
async fn each_outage_is_logged_once_at_its_start_and_once_at_its_end() {
    let cluster = long_timeouts::ProxiedCluster::start(3).await;
    let client =
        long_timeouts::connect_to_all(cluster.proxied_builder().node_deadline(Duration::from_millis(200))).await;
    let (log, _guard) = Log::start();
    for (index, outages) in [(0, 1), (1, 2)] {
        cluster.proxies[index].refuse(true);
        cluster.proxies[index].cut();
        eventually_async("the log to report the outage", async || log.count("node is out") == outages).await;
    }
    assert_eq!((log.count("no majority"), log.count("node is back")), (1, 0), "{:#?}", log.lines());
    // Failed requests and reconnects during an outage are not logged again.
    for _ in 0..3 {
        client.lock("a").acquire_within(SHORT_TIMEOUT).await.expect_err("no majority votes");
    }
    assert_eq!(log.lines().len(), 3, "{:#?}", log.lines());
    for index in [0, 1] {
        cluster.proxies[index].refuse(false);
    }
    eventually_async("the log to report that both nodes are back", async || log.count("node is back") == 2).await;
    eventually_async("the log to report that a majority can vote again", async || {
        log.count("a majority of the nodes can vote again") == 1
    })
    .await;
    client.lock("a").acquire().await.expect("the lock is free").release().await.expect("a majority answers");
    assert_eq!(log.lines().len(), 6, "{:#?}", log.lines());
    client.close(LONG).await.expect("all nodes answer");
    assert_eq!(log.lines().len(), 6, "closing the client was logged as an outage: {:#?}", log.lines());
}
