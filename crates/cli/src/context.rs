//! What every command starts from: the settings, the nodes, and where to print.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, MAX_TTL_DEFAULT, Quorum, Silence, TTL_DEFAULT, TTL_MIN};
use serde::{Deserialize, Serialize};

use crate::config::{Settings, Value, list};
use crate::duration::{show, show_exactly};
use crate::exit::{Failure, between_runs};
use crate::output::Output;

/// The settings, and where to print.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
}

/// The nodes and how to use them, secrets included: all that another process needs to be a client of them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Access {
    nodes: Vec<String>,
    key_template: Option<String>,
    /// User name and password.
    login: Option<(String, String)>,
    pub(crate) ttl: Option<Duration>,
    max_ttl: Option<Duration>,
    max_clock_skew: Option<Duration>,
    max_clock_step_back: Option<Duration>,
    node_deadline: Option<Duration>,
    trusts_restarts: bool,
}

impl Access {
    pub(crate) fn builder(&self) -> ClientBuilder {
        let mut builder = Client::builder().nodes(&self.nodes);
        if let Some(template) = &self.key_template {
            builder = builder.key_template(template);
        }
        if let Some(ttl) = self.ttl {
            builder = builder.ttl(ttl);
        }
        if let Some(max_ttl) = self.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(max_clock_skew) = self.max_clock_skew {
            builder = builder.max_clock_skew(max_clock_skew);
        }
        if let Some(max_clock_step_back) = self.max_clock_step_back {
            builder = builder.max_clock_step_back(max_clock_step_back);
        }
        if let Some(deadline) = self.node_deadline {
            builder = builder.node_deadline(deadline);
        }
        if let Some((user, password)) = &self.login {
            builder = builder.login(user, password);
        }
        if let Some(folder) = state_folder() {
            builder = builder.state_folder(folder);
        }
        if self.trusts_restarts {
            builder = builder.danger_trust_restarts();
        }
        builder
    }
}

impl Context {
    /// The configured nodes.
    pub(crate) fn access(&self) -> Result<Access, Failure> {
        let settings = &self.settings;
        let user = settings.text("username").unwrap_or("default");
        Ok(Access {
            nodes: self.urls()?,
            key_template: settings.text("key_template").map(ToOwned::to_owned),
            login: settings.password()?.map(|password| (user.to_owned(), password)),
            ttl: settings.duration("ttl"),
            max_ttl: settings.duration("max_ttl"),
            max_clock_skew: settings.duration("max_clock_skew"),
            max_clock_step_back: settings.duration("max_clock_step_back"),
            node_deadline: settings.duration("node_deadline"),
            trusts_restarts: settings.is_on("danger_trust_restarts"),
        })
    }

    /// A builder for the configured nodes.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        Ok(self.access()?.builder())
    }

    /// A builder for those who take no lock: the ttl plays no part.
    pub(crate) fn operator(&self) -> Result<ClientBuilder, Failure> {
        Ok(self.builder()?.ttl(self.max_ttl().min(TTL_DEFAULT)))
    }

    /// Connects to the configured nodes to take no lock, and says so if they may not vote yet.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.open(self.operator()?).await
    }

    /// Connects, and says so if the nodes may not vote yet, or if one of them is of no use.
    pub(crate) async fn open(&self, builder: ClientBuilder) -> Result<Client, Failure> {
        let client = builder.connect_lazy().await?;
        let nodes = client.nodes();
        let new = not_yet(&nodes).map(|text| match unrecorded(&client) {
            Some(why) => format!("{text}\n{}", between_runs(&why)),
            None => text,
        });
        for text in [one_too_many(nodes.len()), new].into_iter().flatten().chain(unusable(&nodes)) {
            self.output.note(text);
        }
        Ok(client)
    }

    /// The same for those who stay, whatever the nodes do: says which of them do not vote, into their log.
    pub(crate) async fn open_to_stay(&self, builder: ClientBuilder) -> Result<Client, Failure> {
        let client = builder.connect_lazy().await?;
        let nodes = client.nodes();
        let new = not_yet(&nodes);
        let away = away(&nodes, new.is_some());
        for text in [one_too_many(nodes.len()), away, new].into_iter().flatten() {
            tracing::warn!("{text}");
        }
        Ok(client)
    }

    /// The ttl of a flag, if it was given, else the one that is set.
    pub(crate) fn ttl(&self, flag: Option<Duration>) -> Result<Duration, Failure> {
        let most = self.max_ttl();
        match flag {
            Some(ttl) if ttl < TTL_MIN || ttl > most => Err(Failure::Usage(format!(
                "--ttl {} is out of bounds: it is at least {}, and at most the max_ttl of {}",
                show_exactly(ttl),
                show_exactly(TTL_MIN),
                show_exactly(most)
            ))),
            Some(ttl) => Ok(ttl),
            None => Ok(self.settings.duration("ttl").unwrap_or(TTL_DEFAULT)),
        }
    }

    fn max_ttl(&self) -> Duration {
        self.settings.duration("max_ttl").unwrap_or(MAX_TTL_DEFAULT)
    }

    /// Refuses nodes that lock nobody else out.
    pub(crate) fn outlasts(&self, command: &str) -> Result<(), Failure> {
        if self.settings.nodes().unwrap_or_default().iter().any(|url| url.starts_with("memory:")) {
            let why = "memory: is gone with the process, so it locks nobody else out";
            return Err(Failure::Config(format!("{why}: not for {command}")));
        }
        Ok(())
    }

    /// The nodes' URLs, secrets included: the configured ones, or the file of this user and host.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Failure> {
        let nodes = self.settings.nodes();
        let local = nodes.is_none_or(|nodes| nodes.iter().any(|url| is_local(url)));
        if local && self.settings.is_on("require_cluster") {
            return Err(self.refuse_local());
        }
        nodes.map_or_else(|| Ok(vec![format!("sqlite:{}", default_file()?.display())]), |nodes| Ok(nodes.to_vec()))
    }

    fn refuse_local(&self) -> Failure {
        let what = match self.settings.nodes() {
            Some(_) => format!("but {} lists an sqlite: or memory: node", self.settings.origin("nodes")),
            None => format!("and no nodes are configured; looked for {}", list(&self.settings.looked_for)),
        };
        let origin = self.settings.origin("require_cluster");
        Failure::Config(format!("require_cluster ({origin}) refuses locks of this host alone, {what}"))
    }

    /// Says which nodes are used and who chose them, without passwords.
    pub(crate) fn name_nodes(&self) -> Result<(), Failure> {
        if !self.output.verbose && !std::io::stderr().is_terminal() {
            return Ok(());
        }
        let urls = self.urls()?;
        let shown = Value::List(urls.clone()).show();
        let alone = if urls.iter().any(|url| is_local(url)) { "; this host alone" } else { "" };
        self.output.note(format!("nodes: {shown} ({}{alone})", self.settings.origin("nodes")));
        Ok(())
    }
}

/// Whether a node's locks are seen by processes of this host alone.
fn is_local(url: &str) -> bool {
    url.starts_with("sqlite:") || url.starts_with("memory:")
}

/// An even number of nodes has a larger majority than the odd one below it, and needs it for the same.
fn one_too_many(nodes: usize) -> Option<String> {
    let text = || format!("{nodes} nodes stand no more failures than {} do: use an odd number of them", nodes - 1);
    (nodes > 0 && nodes.is_multiple_of(2)).then(text)
}

/// A warning for each node that has no vote until an operator acts.
fn unusable(nodes: &[(String, Option<Silence>)]) -> impl Iterator<Item = String> {
    nodes.iter().filter_map(|(node, trouble)| match trouble {
        Some(Silence::Unfit(why)) => Some(format!("{node} has no vote: {why}")),
        _ => None,
    })
}

/// Which nodes do not vote, and why; without those in quarantine if they are told of already.
fn away(nodes: &[(String, Option<Silence>)], knows_quarantines: bool) -> Option<String> {
    let is_told = |why: &Silence| knows_quarantines && why.quarantine_left().is_some();
    let silent = nodes.iter().filter_map(|(node, trouble)| Some((node, trouble.as_ref().filter(|why| !is_told(why))?)));
    let silent: Vec<_> = silent.map(|(node, why)| format!("{node} {why}")).collect();
    let text = || format!("{} of {} nodes without a vote: {}", silent.len(), nodes.len(), silent.join("; "));
    (!silent.is_empty()).then(text)
}

/// What is going on where so many nodes are in quarantine that nobody gets a lock.
fn not_yet(nodes: &[(String, Option<Silence>)]) -> Option<String> {
    let voting = nodes.iter().filter(|(_, trouble)| trouble.is_none()).count();
    let left: Vec<Duration> = nodes.iter().filter_map(|(_, trouble)| trouble.as_ref()?.quarantine_left()).collect();
    let quarantined = left.len();
    let wait = Quorum::quarantine_left(nodes.len(), voting, left)?;
    let are_new = nodes.iter().all(|(_, trouble)| matches!(trouble, Some(Silence::Founding(_))));
    let (why, advice) = if are_new {
        ("are new", "if no lock can be outstanding: quorlock nodes init --yes")
    } else {
        ("lost their memory", "to wait for them: quorlock nodes wait")
    };
    Some(format!("{} of {} nodes {why}, and may vote in {}; {advice}", quarantined, nodes.len(), show(wait)))
}

/// Why the time between two runs does not count towards a quarantine; `None` if it does.
pub(crate) fn unrecorded(client: &Client) -> Option<String> {
    if state_folder().is_none() {
        return Some("neither XDG_STATE_HOME nor HOME names a state folder".into());
    }
    client.state_folder_trouble()
}

/// `$XDG_STATE_HOME/quorlock`, or below `~/.local/state`, if either is set.
fn state_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Some(state?.join("quorlock"))
}

/// `$XDG_STATE_HOME/quorlock/locks.db`, or below `~/.local/state`.
pub(crate) fn default_file() -> Result<PathBuf, Failure> {
    let folder = state_folder().ok_or_else(|| {
        Failure::Config(
            "neither XDG_STATE_HOME nor HOME says where to keep locks: use --nodes sqlite:/some/path".into(),
        )
    })?;
    Ok(folder.join("locks.db"))
}
