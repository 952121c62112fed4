//! A service in the process of the test, with an SQLite file or real servers as nodes.

use std::io;
use std::ops::Deref;
use std::sync::{Mutex, Once};
use std::time::Duration;

use quorlock::{Client, ClientBuilder};
use quorlock_server::{Config, Server};
use quorlock_testkit::http::Caller;
use quorlock_testkit::{RedisServer, eventually};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

/// A ttl and a quarantine that are longer than any test, so that no lease expires on a busy machine.
pub(crate) const LONG_TTL: Duration = Duration::from_millis(LONG_TTL_MS);
pub(crate) const LONG_TTL_MS: u64 = 3_600_000;

/// The nodes of a test.
pub(crate) struct Nodes {
    /// Empty if the only node is an SQLite file.
    pub(crate) servers: Vec<RedisServer>,
    /// The folder of the file and of the client's state.
    pub(crate) folder: TempDir,
    max_ttl: Duration,
}

impl Nodes {
    /// Returns a new SQLite file as the only node.
    pub(crate) fn new_file() -> Self {
        Self::start_uninitialized(0)
    }

    /// Starts servers that can vote.
    pub(crate) fn start_servers(count: usize) -> Self {
        Self::start_uninitialized(count).initialize()
    }

    /// Starts servers that are in quarantine, because the cluster is not initialized.
    pub(crate) fn start_uninitialized(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { servers: RedisServer::start_many(count), folder, max_ttl: quorlock::MAX_TTL_DEFAULT }
    }

    /// Allows leases of [`LONG_TTL`].
    pub(crate) fn allow_long_leases(self) -> Self {
        Self { max_ttl: LONG_TTL, ..self }
    }

    /// Initializes the cluster.
    pub(crate) fn initialize(self) -> Self {
        self.init_cluster();
        self
    }

    /// Initializes the cluster, which ends the quarantine of the nodes.
    pub(crate) fn init_cluster(&self) {
        let runtime = Runtime::new().unwrap();
        eventually("all nodes are reachable", || runtime.block_on(self.builder().init_cluster()).is_ok());
    }

    fn builder(&self) -> ClientBuilder {
        let file = || format!("sqlite:{}", self.folder.path().join("locks").display());
        let urls = if self.servers.is_empty() { vec![file()] } else { self.urls() };
        Client::builder().nodes(urls).max_ttl(self.max_ttl).state_folder(self.folder.path())
    }

    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// Starts a service on these nodes.
    pub(crate) fn serve(&self) -> Service {
        self.serve_with(|_| {})
    }

    /// Starts a service on these nodes. `set` changes the settings.
    pub(crate) fn serve_with(&self, set: impl FnOnce(&mut Config)) -> Service {
        capture_log();
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(async {
            let client = self.builder().leases_outlive_process().history(true).connect_lazy().await.unwrap();
            let mut config = Config::new(([127, 0, 0, 1], 0).into(), client);
            config.read_client = Some(self.builder());
            set(&mut config);
            Server::bind(config).await.unwrap()
        });
        let address = format!("{}://{}", if server.is_tls() { "https" } else { "http" }, server.address());
        runtime.spawn(server.serve(std::future::pending()));
        Service { caller: Caller::new(address), runtime: Some(runtime), nodes: None }
    }
}

/// A running service, which stops when it is dropped.
pub(crate) struct Service {
    caller: Caller,
    runtime: Option<Runtime>,
    /// Nodes that belong to this service alone.
    nodes: Option<Nodes>,
}

impl Service {
    /// Starts a service on a new SQLite file.
    pub(crate) fn start() -> Self {
        Self::with_settings(|_| {})
    }

    /// Starts a service on a new SQLite file. `set` changes the settings.
    pub(crate) fn with_settings(set: impl FnOnce(&mut Config)) -> Self {
        let nodes = Nodes::new_file();
        let mut service = nodes.serve_with(set);
        service.nodes = Some(nodes);
        service
    }
}

impl Deref for Service {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

static LOG: Mutex<String> = Mutex::new(String::new());

/// Returns the log of all services of this process as lines of JSON, and the messages of panics.
pub(crate) fn log() -> String {
    LOG.lock().unwrap().clone()
}

fn capture_log() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let level = LevelFilter::DEBUG;
        let targets = Targets::new().with_target("quorlock", level).with_target("quorlock_server", level);
        let layer = tracing_subscriber::fmt::layer().json().flatten_event(true);
        let layer = layer.with_current_span(true).with_span_list(false).with_writer(|| LogWriter);
        let subscriber = tracing_subscriber::registry().with(targets).with(layer);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The panicking thread may have locked the log.
            if let Ok(mut log) = LOG.try_lock() {
                log.push_str(&panic.to_string());
                log.push('\n');
            }
            default_hook(panic);
        }));
    });
}

/// Appends the log of the services to [`LOG`].
struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().push_str(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
