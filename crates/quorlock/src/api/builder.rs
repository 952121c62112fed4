//! Everything that can be set about a client, checked before anything is opened.

mod contact;
mod host;
mod nodes;
mod operate;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::backoff::Retry;
use quorlock_core::node::Trust;
use quorlock_core::quorum::Quorum;
use quorlock_core::rules::{Rule, Rules};
use quorlock_core::ticket::Channel;
use quorlock_core::time::{Drift, TTL_DEFAULT, TTL_MAX, TTL_MIN, Ttl};
use quorlock_core::watchdog::Renewals;

use crate::api::client::Client;
use crate::cluster::{Claims, Cluster, DEADLINE_MIN, Settings};
use crate::error::{ConfigError, ConnectError};
use crate::link::quarantine_records::Records;
use crate::link::{BreakListener, LinkConfig, Outages};
use crate::node::Node;
use crate::node::key::KeyTemplate;
use crate::node::memory::MemoryNodes;
use crate::platform::entropy;
use contact::{first_contact, majority_contact};
pub(crate) use nodes::not_a_process;

/// The longest ttl of a cluster that names none.
pub const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
/// How far the nodes' wall clocks may be apart, unless said otherwise.
pub const MAX_CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(10);
/// How far a node's wall clock may step back, unless said otherwise.
pub const MAX_CLOCK_STEP_BACK_DEFAULT: Duration = Duration::from_secs(10);
/// How often a link tries again what failed.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often every connection looks at its node, busy or not. The guarantees promise ten seconds, and a thousand idle clients
/// shall cost a node less than one percent of a core.
const LOOK: (Duration, Duration) = (Duration::from_secs(8), Duration::from_millis(9_500));
/// How long [`connect`](ClientBuilder::connect) waits for a majority, unless set.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// The least patience with a connection, whatever the node deadline.
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
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "settings that have nothing to do with each other")]
#[must_use = "a builder does nothing before connect"]
pub struct ClientBuilder {
    urls: Vec<String>,
    memory: Option<MemoryNodes>,
    ttl: Duration,
    max_ttl: Duration,
    max_clock_skew: Duration,
    max_clock_step_back: Duration,
    drift: Drift,
    node_deadline: Option<Duration>,
    connect_timeout: Duration,
    log_outages: bool,
    min_validity: Option<Duration>,
    retry: Retry,
    renewals: Renewals,
    template: String,
    login: Option<(String, String)>,
    label: String,
    trust_restarts: bool,
    discard_leases: bool,
    history: bool,
    outlived: bool,
    companions: Vec<u32>,
    state_folder: Option<PathBuf>,
    rules: Rules,
    #[cfg(feature = "sim")]
    simulated: Option<usize>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            memory: None,
            ttl: TTL_DEFAULT,
            max_ttl: MAX_TTL_DEFAULT,
            max_clock_skew: MAX_CLOCK_SKEW_DEFAULT,
            max_clock_step_back: MAX_CLOCK_STEP_BACK_DEFAULT,
            drift: Drift::default(),
            node_deadline: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            log_outages: true,
            min_validity: None,
            retry: Retry::default(),
            renewals: Renewals::default(),
            template: KeyTemplate::DEFAULT.into(),
            login: None,
            label: String::new(),
            trust_restarts: false,
            discard_leases: false,
            history: false,
            outlived: false,
            companions: Vec::new(),
            state_folder: None,
            rules: Rules::default(),
            #[cfg(feature = "sim")]
            simulated: None,
        }
    }
}

impl ClientBuilder {
    /// The nodes: `redis://`, `rediss://` (TLS); and, each of them only alone, `redis+sentinel://`, `redis+cluster://`,
    /// `sqlite:PATH` and `memory:`.
    ///
    /// `redis+sentinel://[user:password@]host[:port],host[:port],../SERVICE[?setting=value&..]` is the master that any of
    /// these sentinels names for the service. User and password are the server's; settings are `db` (a number), `tls`
    /// (`true` for sentinels and servers), `sentinel_username` and `sentinel_password`.
    ///
    /// `redis+cluster://[user:password@]host[:port],host[:port],..[?tls=true]` is the whole Redis Cluster that these
    /// servers belong to.
    ///
    /// What is special in a URL is written with `%`. After a failover, a lock goes on with what the new master has: the
    /// guarantees say what that means.
    pub fn nodes<U: AsRef<str>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.urls = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        self
    }

    /// The user and password for Redis nodes whose URL has no password, so that none has to be in a URL. The user of a
    /// server without users is `default`.
    pub fn login(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((username.into(), password.into()));
        self
    }

    /// Nodes in this process's memory, instead of URLs.
    pub fn memory(mut self, nodes: &MemoryNodes) -> Self {
        self.memory = Some(nodes.clone());
        self
    }

    /// The ttl of locks that name none: 30 s unless set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that the cluster allows: 60 s unless set. All clients of a cluster have to agree on it; a node
    /// that lost its memory is quarantined for it.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How far the nodes' wall clocks may be apart: 10 s unless set. All clients of a cluster have to agree on it.
    pub fn max_clock_skew(mut self, max_clock_skew: Duration) -> Self {
        self.max_clock_skew = max_clock_skew;
        self
    }

    /// How far a node's wall clock may step back: 10 s unless set.
    pub fn max_clock_step_back(mut self, max_clock_step_back: Duration) -> Self {
        self.max_clock_step_back = max_clock_step_back;
        self
    }

    /// What is taken off every ttl for clocks that run at different rates.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// How long to wait for a node: a twentieth of the ttl, between 5 and 200 ms, unless set. Never more than half of a
    /// lock's ttl.
    pub fn node_deadline(mut self, deadline: Duration) -> Self {
        self.node_deadline = Some(deadline);
        self
    }

    /// How long [`connect`](Self::connect) waits until a majority of the nodes can vote: 5 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Whether this client logs a warning when a node, or the majority, stops voting, and when it votes again: on unless set.
    /// For the second of two clients of the same nodes, which would log everything twice.
    pub fn log_outages(mut self, log: bool) -> Self {
        self.log_outages = log;
        self
    }

    /// A lease that has less than this left when it is decided is not handed out: half of the ttl unless set.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.min_validity = Some(min_validity);
        self
    }

    /// How `acquire` asks again when a lock is held.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Whether and how often leases are renewed.
    pub fn renewals(mut self, renewals: Renewals) -> Self {
        self.renewals = renewals;
        self
    }

    /// How a name becomes a key: `quorlock:{name}` unless set. `{name}` or `redlock:{name}` shares locks with other
    /// clients of the Redlock family on the same nodes.
    pub fn key_template(mut self, template: impl Into<String>) -> Self {
        self.template = template.into();
        self
    }

    /// Shown to whoever finds a lock of ours held.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Whether this client writes what it wins, releases and loses into the nodes' [history](Client::history): off
    /// unless set. It is written about once a second, for all locks together, and nothing waits for it.
    pub fn history(mut self, history: bool) -> Self {
        self.history = history;
        self
    }

    /// Counts this process, too, as one that stands behind this client's leases: for a wrapper whose guardian ends its
    /// children after it. Call it once for each.
    ///
    /// On an SQLite node a lock is free before its ttl ends if every process behind it is provably gone. Without this,
    /// that is the process of the client alone. It has to run when the client connects.
    pub fn also_alive_with(mut self, pid: u32) -> Self {
        self.companions.push(pid);
        self
    }

    /// Leases of this client may outlive its process, since somebody else has them by their ids: that it has ended says
    /// nothing about them. What counts are the processes given to [`also_alive_with`](Self::also_alive_with), and
    /// without any, the ttl alone.
    pub fn outlived_by_leases(mut self) -> Self {
        self.outlived = true;
        self
    }

    /// A folder of this host's own, in which clients leave what they know of quarantines: none unless set.
    ///
    /// A node that lost its memory votes again when clients have seen enough time pass. Without a folder, that is the time
    /// while a client is connected. With one, the time between two short runs counts, too. It must not be shared with other
    /// hosts, and may be lost at any time. One that cannot be used is like none; then
    /// [`Client::state_folder_trouble`](crate::Client::state_folder_trouble) tells why.
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Lets nodes vote at once that have lost their memory.
    ///
    /// With three and more nodes this gives up mutual exclusion whenever a node restarts during a lease, and fences are
    /// not guaranteed to grow. A single node is always trusted: it has nobody to disagree with.
    pub fn danger_trust_restarts(mut self) -> Self {
        self.trust_restarts = true;
        self
    }

    /// Lets [`init_cluster`](Self::init_cluster) go on although nodes show leases, or cannot list their names.
    ///
    /// The holders of such leases may then share their locks with others.
    pub fn danger_discard_leases(mut self) -> Self {
        self.discard_leases = true;
        self
    }

    /// Switches off a rule of the protocol, to see what it is for. For tests of this crate only.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// So many nodes of the simulation that this thread runs, instead of URLs. For tests of this project only.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    pub fn simulated(mut self, nodes: usize) -> Self {
        self.simulated = Some(nodes);
        self
    }

    /// Checks the settings, opens the connections, and waits until a majority of the nodes can vote.
    ///
    /// The nodes of a new cluster vote after a quarantine: see [`init_cluster`](Self::init_cluster).
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote, if there is no majority within the
    /// [timeout](Self::connect_timeout); sooner, if no majority can leave quarantine within it. [`ConnectError::Unfit`] and
    /// [`ConnectError::Denied`] name the nodes that cannot be used, if no majority is left without them. A minority of them is
    /// logged, and does not vote. [`ConnectError::Config`] when the configuration contradicts itself.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let client = self.start()?;
        majority_contact(&client, self.connect_timeout).await?;
        Ok(client)
    }

    /// Connects like [`connect`](Self::connect), but also when no majority can vote yet: the client keeps trying in the
    /// background.
    ///
    /// For programs that start before their nodes do. Until a majority can vote, acquires wait, and say why when their wait
    /// is over; [`Client::nodes`] tells which nodes are out. It waits at most two seconds for the first answers.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration contradicts itself, or so many nodes that no majority is left. Nodes that cannot
    /// be reached are no error.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_lazy(self) -> Result<Client, ConnectError> {
        let client = self.start()?;
        first_contact(&client).await?;
        Ok(client)
    }

    fn start(&self) -> Result<Client, ConfigError> {
        let settings = self.settings()?;
        let nodes = self.open_nodes(&settings.constants(String::new()))?;
        self.launch(settings, nodes)
    }

    fn launch(&self, settings: Settings, nodes: Vec<Arc<dyn Node>>) -> Result<Client, ConfigError> {
        let node_deadline = settings.node_deadline(Ttl::new(settings.ttl, settings.max_ttl)?);
        let patience = (node_deadline * 5).max(SILENCE_MIN);
        let claims = Arc::new(Claims::new());
        let link = LinkConfig {
            handshake_deadline: patience,
            silence_limit: patience,
            heartbeat: HEARTBEAT,
            look: LOOK,
            trust: Self::trust(&settings),
            pending: Arc::default(),
            channel: Channel(entropy::bits()),
            waiters: Arc::default(),
            breaks: Arc::clone(&claims) as Arc<dyn BreakListener>,
            traffic: Arc::default(),
            outages: Arc::new(Outages::new(settings.quorum, self.log_outages)),
            records: Records::new(self.state_folder.as_deref()),
        };
        Ok(Client::new(Cluster::start(settings, nodes, claims, &link)))
    }

    fn trust(settings: &Settings) -> Trust {
        let max_clock_skew = settings.max_clock_skew.as_micros() as i64;
        if settings.quorum.nodes() == 1 {
            // Ahead of every fence that was given out before: at most the max clock skew over the clock, and one for its steps.
            Trust::Vote { floor_offset: 2 * max_clock_skew }
        } else if settings.trusting {
            Trust::Vote { floor_offset: -max_clock_skew }
        } else {
            Trust::Quarantine
        }
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let setting = |setting, value: Duration, why: &str| {
            Err(ConfigError::Setting { setting, value: format!("{value:?}"), why: why.into() })
        };
        if self.max_ttl < TTL_MIN || self.max_ttl > TTL_MAX {
            return setting("a max_ttl", self.max_ttl, "between 100ms and 24h");
        }
        if self.max_ttl < self.max_clock_skew.saturating_mul(2).saturating_add(self.max_clock_step_back) {
            return setting(
                "a max_ttl",
                self.max_ttl,
                &format!(
                    "at least twice max_clock_skew ({:?}) plus max_clock_step_back ({:?})",
                    self.max_clock_skew, self.max_clock_step_back
                ),
            );
        }
        let ttl = Ttl::new(self.ttl, self.max_ttl)?;
        if let Some(deadline) = self.node_deadline
            && (deadline < DEADLINE_MIN || deadline > ttl.duration() / 2)
        {
            let why = format!("at least {DEADLINE_MIN:?}, and at most half of the ttl");
            return setting("a node_deadline", deadline, &why);
        }
        check_retry(self.retry)?;
        let nodes = self.count();
        let holder = self.holder();
        let settings = Settings {
            quorum: Quorum::new(nodes)?,
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            max_clock_skew: self.max_clock_skew,
            drift: self.drift,
            node_deadline: self.node_deadline,
            min_validity: self.min_validity,
            retry: self.retry,
            renewals: self.renewals,
            template: self.keys()?,
            told_holder: holder.encode().into(),
            holder,
            rules: self.rules,
            trusting: nodes == 1 || self.trust_restarts || !self.rules.hold(Rule::Quarantine),
            discards_leases: self.discard_leases,
            history: self.history,
            embedded: self.memory.is_none() && self.urls.iter().any(|url| url.starts_with("sqlite:")),
        };
        settings.check(ttl, self.renewals)?;
        Ok(settings)
    }
}

/// The nodes are only counted: their URLs may hold passwords.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let builder = &mut f.debug_struct("ClientBuilder");
        builder.field("nodes", &self.urls.len()).field("memory", &self.memory).field("ttl", &self.ttl);
        builder
            .field("max_ttl", &self.max_ttl)
            .field("max_clock_skew", &self.max_clock_skew)
            .field("template", &self.template);
        builder.field("label", &self.label).field("outlived", &self.outlived).field("companions", &self.companions);
        builder.finish_non_exhaustive()
    }
}

pub(crate) fn check_retry(retry: Retry) -> Result<(), ConfigError> {
    let wrong = |value: String, why: &str| Err(ConfigError::Setting { setting: "a retry", value, why: why.into() });
    if retry.min > retry.max {
        return wrong(format!("{:?} to {:?}", retry.min, retry.max), "the shortest delay is longer than the longest");
    }
    if retry.attempts == Some(0) {
        return wrong("0 attempts".into(), "at least one");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
