//! The settings of a client. They are checked before any connection is opened.

mod contact;
mod host;
mod nodes;
mod operate;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::backoff::Retry;
use quorlock_core::name::Channel;
#[cfg(feature = "mutants")]
use quorlock_core::rules::Rules;
use quorlock_core::terms::Renewals;
use quorlock_core::time::{Drift, Ttl};

use crate::api::client::Client;
use crate::cluster::Cluster;
use crate::cluster::settings::Settings;
use crate::error::{ConfigError, ConnectError};
use crate::link::quarantine_records::Records;
use crate::link::{LinkConfig, Outages};
use crate::node::Node;
use crate::node::memory::MemoryNodes;
use crate::platform::entropy;
use contact::{wait_for_answers, wait_for_majority};
use nodes::NodeSource;
pub(crate) use nodes::no_such_process;

/// The interval at which a link retries failed operations.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// The bounds of the random interval at which every connection checks its node. The guarantees promise a check within
/// ten seconds, and a thousand idle clients should cost a node less than one percent of a core.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_secs(8), Duration::from_millis(9_500));
/// How long [`connect`](ClientBuilder::connect) waits for a majority by default.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest time after which a client replaces a connection that does not respond.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Builds a [`Client`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use quorlock::{Client, MemoryNodes, Retry};
///
/// let client = Client::builder()
///     .memory(&MemoryNodes::new(1))
///     .ttl(Duration::from_secs(10))
///     .retry(Retry { attempts: Some(20), ..Retry::default() })
///     .label("billing")
///     .connect()
///     .await?;
/// # drop(client);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing before connect"]
pub struct ClientBuilder {
    settings: Settings,
    nodes: Vec<NodeSource>,
    login: Option<(String, String)>,
    template: Option<String>,
    label: String,
    connect_timeout: Option<Duration>,
    hides_outages: bool,
    leases_outlive_process: bool,
    companions: Vec<u32>,
    state_folder: Option<PathBuf>,
}

impl ClientBuilder {
    /// Sets the nodes: one or more `redis://`, `rediss://` (TLS) or `redis+unix:` URLs, or a single
    /// `redis+sentinel://`, `redis+cluster://`, `sqlite:PATH` or `memory:`.
    ///
    /// `redis://[user:password@]host[:port][/db]` is one server. `sqlite:PATH` is a file on this machine; it and its
    /// folder are created if they are missing. `redis+unix:PATH[?user=..&pass=..&db=..]` is one
    /// server that listens on a Unix socket.
    ///
    /// `redis+sentinel://[user:password@]host[:port],host[:port],../SERVICE[?setting=value&..]` is the master of the
    /// service. The client asks these sentinels for the master. User and password are those of the server. The settings
    /// are `db` (a number), `tls` (`true` to use TLS for sentinels and servers), `sentinel_username` and
    /// `sentinel_password`.
    ///
    /// `redis+cluster://[user:password@]host[:port],host[:port],..[?tls=true]` is the whole Redis Cluster that these
    /// servers belong to.
    ///
    /// Escape special characters with `%`. After a failover, locks continue with the data of the new master, which may
    /// have missed votes: see `docs/guarantees.md`.
    pub fn nodes<U: AsRef<str>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.nodes = urls.into_iter().map(|url| NodeSource::Url(url.as_ref().to_owned())).collect();
        self
    }

    /// Sets the user and password for Redis nodes whose URL has no password. If a server has no named users, its user
    /// is `default`.
    pub fn login(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((username.into(), password.into()));
        self
    }

    /// Uses nodes in the memory of this process instead of URLs.
    pub fn memory(mut self, nodes: &MemoryNodes) -> Self {
        self.nodes = nodes.iter().map(NodeSource::Node).collect();
        self
    }

    /// Sets the ttl of locks that do not set their own: 30 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets the longest ttl that the cluster allows: 60 s by default. All clients of a cluster must set the same value.
    /// A node that lost its memory must not vote for this long.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// Sets how far the nodes' wall clocks may be apart: 10 s by default. All clients of a cluster must set the
    /// same value.
    pub fn max_clock_skew(mut self, max_clock_skew: Duration) -> Self {
        self.settings.max_clock_skew = max_clock_skew;
        self
    }

    /// Sets how far a node's wall clock may step back: 10 s by default.
    pub fn max_clock_step_back(mut self, max_clock_step_back: Duration) -> Self {
        self.settings.max_clock_step_back = max_clock_step_back;
        self
    }

    /// Sets the margin that is subtracted from every ttl because clocks run at different rates.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.settings.drift = drift;
        self
    }

    /// Sets how long a client waits for the reply of a node: by default 1/20 of the ttl, but at least 5 ms and at most
    /// 200 ms. It is never more than half of a lock's ttl.
    pub fn node_deadline(mut self, deadline: Duration) -> Self {
        self.settings.node_deadline = Some(deadline);
        self
    }

    /// Sets how long [`connect`](Self::connect) waits until a majority of the nodes can vote: 5 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sets whether this client logs when a node, or the majority, stops voting, and when it votes again: on by
    /// default. If a process has two clients of the same nodes, turn it off for one of them to avoid duplicate
    /// messages.
    pub fn log_outages(mut self, log: bool) -> Self {
        self.hides_outages = !log;
        self
    }

    /// Sets the shortest validity of a new lease: half of the ttl by default. If less validity is left when a majority
    /// has granted the lease, the acquire fails.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.settings.min_validity = Some(min_validity);
        self
    }

    /// Sets how often and with which delays `acquire` retries if a lock is held.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// Sets whether and how often leases are renewed.
    pub fn renewals(mut self, renewals: Renewals) -> Self {
        self.settings.renewals = renewals;
        self
    }

    /// Sets the template for the key of a name: `quorlock:{name}` by default. Templates such as `{name}` or
    /// `redlock:{name}` make locks exclude those of other Redlock clients on the same nodes.
    pub fn key_template(mut self, template: impl Into<String>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Sets the label that identifies this client to others as the holder of a lock.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets whether this client records its grants, releases and losses in the nodes' [history](Client::history): off
    /// by default. The client writes the events of all locks together, about once a second, and no operation waits for
    /// it.
    pub fn history(mut self, history: bool) -> Self {
        self.settings.history = history;
        self
    }

    /// Adds a process to those that keep this client's leases alive. Call it once for each process.
    ///
    /// An SQLite node frees a lock before its ttl ends if every process that keeps the lock alive has provably ended.
    /// Without this setting, only the client's own process keeps its locks alive. Use this setting if another process
    /// continues the work after the client's process ends, for example a guardian process that stops child processes.
    /// The process must be running when the client connects.
    pub fn add_holder_process(mut self, pid: u32) -> Self {
        self.companions.push(pid);
        self
    }

    /// Lets leases of this client outlive its process. Use this setting if another process has their ids.
    ///
    /// An SQLite node does not free their locks when this client's process ends. A lease ends when its ttl ends, or
    /// sooner on an SQLite node if all processes that were given to [`add_holder_process`](Self::add_holder_process)
    /// have ended.
    pub fn leases_outlive_process(mut self) -> Self {
        self.leases_outlive_process = true;
        self
    }

    /// Sets a folder on this host in which clients record the progress of quarantines: none by default.
    ///
    /// A node that lost its memory is quarantined: it must not vote until clients have measured that enough time has
    /// passed. Without a folder, clients measure only the time while they are connected. With a folder, they also
    /// measure the time between two runs of a program on this host. Do not share the folder with other hosts. The
    /// contents of the folder may be deleted at any time. A client ignores a folder that it cannot use;
    /// [`Client::state_folder_trouble`](crate::Client::state_folder_trouble) returns the reason.
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Lets nodes that have lost their memory vote at once.
    ///
    /// With three or more nodes, mutual exclusion is no longer guaranteed when a node restarts during a lease, and
    /// fences may not grow. A single node always votes at once, because no other node can disagree with it.
    pub fn danger_trust_restarts(mut self) -> Self {
        self.settings.trusting = true;
        self
    }

    /// Lets [`init_cluster`](Self::init_cluster) continue if nodes have leases, or cannot list their names.
    ///
    /// Other clients may then acquire locks that are still held.
    pub fn danger_discard_leases(mut self) -> Self {
        self.settings.discards_leases = true;
        self
    }

    /// Switches off a rule of the protocol, to show what it prevents. Only for tests of this crate.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.settings.rules = rules;
        self
    }

    /// Uses nodes of the simulation that this thread runs instead of URLs. Only for tests of this project.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    pub fn simulated(mut self, nodes: usize) -> Self {
        self.nodes = crate::node::sim::nodes(nodes).into_iter().map(NodeSource::Node).collect();
        self
    }

    /// Checks the settings, opens the connections, and waits until a majority of the nodes can vote.
    ///
    /// The nodes of a new cluster are quarantined before they may vote. [`init_cluster`](Self::init_cluster) avoids
    /// this quarantine. A quarantine ends only after clients have been connected for its whole length. So a program
    /// that exits and starts again if `connect` fails needs a [`state_folder`](Self::state_folder), or
    /// [`connect_lazy`](Self::connect_lazy).
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote, if there is no majority within the
    /// [timeout](Self::connect_timeout). `connect` returns it sooner if no majority can leave quarantine in that time.
    /// [`ConnectError::Unfit`] and [`ConnectError::Denied`] name the nodes that are unusable until an operator acts, if
    /// the other nodes are not a majority. If only a minority of the nodes is unusable, `connect` logs them and
    /// succeeds. [`ConnectError::Config`] if the configuration is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let client = self.start()?;
        wait_for_majority(&client, self.connect_timeout.unwrap_or(CONNECT_TIMEOUT_DEFAULT)).await?;
        Ok(client)
    }

    /// Connects like [`connect`](Self::connect), but does not fail if no majority can vote yet: the client keeps trying
    /// in the background.
    ///
    /// Use it for programs that may start before their nodes. Until a majority can vote, acquires wait; if they time
    /// out, their errors name the nodes that cannot vote, and so does [`Client::nodes`]. `connect_lazy` waits at most
    /// two seconds for the first answers.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is invalid, or if too many nodes are unusable until an operator acts: for
    /// example, they are replicas. Unreachable nodes are not an error.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_lazy(self) -> Result<Client, ConnectError> {
        let client = self.start()?;
        wait_for_answers(&client).await?;
        Ok(client)
    }

    fn start(&self) -> Result<Client, ConfigError> {
        let settings = self.settings()?;
        let nodes = self.open_nodes(&settings.constants(String::new()))?;
        self.launch(settings, nodes)
    }

    fn launch(&self, settings: Settings, nodes: Vec<Arc<dyn Node>>) -> Result<Client, ConfigError> {
        let node_deadline = settings.node_deadline(Ttl::new(settings.ttl, settings.max_ttl)?);
        let silence_limit = (node_deadline * 5).max(SILENCE_MIN);
        let link = LinkConfig {
            handshake_deadline: silence_limit,
            silence_limit,
            heartbeat: HEARTBEAT,
            check_interval: CHECK_INTERVAL,
            rules: settings.rules,
            trust: settings.trust(),
            claims: Arc::default(),
            channel: Channel(entropy::bits()),
            counters: Arc::default(),
            outages: Arc::new(Outages::new(settings.quorum, !self.hides_outages)),
            records: Records::new(self.state_folder.as_deref()),
        };
        Ok(Client::new(Cluster::start(settings, nodes, &link)))
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let settings = Settings { embedded: self.has_url("sqlite:"), ..self.settings.clone() };
        settings.complete(self.nodes.len(), self.node_key_template()?, self.holder())
    }
}

/// Shows only the number of nodes, because their URLs may contain passwords.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let builder = &mut f.debug_struct("ClientBuilder");
        builder.field("nodes", &self.nodes.len()).field("label", &self.label).field("settings", &self.settings);
        builder.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
