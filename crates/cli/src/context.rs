//! The context of every command: the settings, the nodes that they name, and the output.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Quorum, Silence, TTL_DEFAULT, TTL_MIN};
use serde::{Deserialize, Serialize};

use crate::config::{Settings, Value, join_paths, user_folder};
use crate::duration::{show, show_exactly};
use crate::exit::{Failure, Outcome, unrecorded_text};
use crate::output::Output;

/// The settings, and the output.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
}

/// How long to wait until nodes beyond the majority acknowledge a release.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The nodes and how to use them, with secrets: everything that another process needs to connect to them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Access {
    nodes: Vec<String>,
    key_template: String,
    /// The username and the password.
    login: Option<(String, String)>,
    pub(crate) ttl: Duration,
    max_ttl: Duration,
    max_clock_skew: Duration,
    max_clock_step_back: Duration,
    node_deadline: Option<Duration>,
    trusts_restarts: bool,
}

impl Access {
    pub(crate) fn builder(&self) -> ClientBuilder {
        let mut builder = Client::builder()
            .nodes(&self.nodes)
            .key_template(&self.key_template)
            .ttl(self.ttl)
            .max_ttl(self.max_ttl)
            .max_clock_skew(self.max_clock_skew)
            .max_clock_step_back(self.max_clock_step_back);
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
    /// Returns the configured nodes.
    pub(crate) fn access(&self) -> Outcome<Access> {
        let settings = &self.settings;
        let user = settings.text("username").unwrap_or("default");
        Ok(Access {
            nodes: self.urls()?,
            key_template: settings.text("key_template").unwrap_or_default().to_owned(),
            login: settings.password()?.map(|password| (user.to_owned(), password)),
            ttl: settings.duration("ttl"),
            max_ttl: settings.duration("max_ttl"),
            max_clock_skew: settings.duration("max_clock_skew"),
            max_clock_step_back: settings.duration("max_clock_step_back"),
            node_deadline: settings.optional_duration("node_deadline"),
            trusts_restarts: settings.is_on("danger_trust_restarts"),
        })
    }

    /// Returns a builder for the configured nodes.
    pub(crate) fn builder(&self) -> Outcome<ClientBuilder> {
        Ok(self.access()?.builder())
    }

    /// Returns a builder for commands that acquire no lock, for which the ttl does not matter.
    pub(crate) fn builder_without_lock(&self) -> Outcome<ClientBuilder> {
        Ok(self.builder()?.ttl(self.settings.duration("max_ttl").min(TTL_DEFAULT)))
    }

    /// Connects to the configured nodes for a command that acquires no lock, and warns if they cannot vote yet.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        self.connect_with(self.builder_without_lock()?).await
    }

    /// Connects. Warns about nodes that cannot vote until an operator acts, and warns if too many nodes are in
    /// quarantine (the time in which a node that lost its memory must not vote).
    pub(crate) async fn connect_with(&self, builder: ClientBuilder) -> Outcome<Client> {
        let client = builder.connect_lazy().await?;
        let nodes = client.nodes();
        let in_quarantine = quarantine_warning(&nodes).map(|text| match unrecorded_reason(&client) {
            Some(reason) => format!("{text}\n{}", unrecorded_text(&reason)),
            None => text,
        });
        let unfit = nodes.iter().filter_map(|(node, trouble)| match trouble {
            Some(Silence::Unfit(why)) => Some(format!("{node} has no vote: {why}")),
            _ => None,
        });
        for text in [even_number_warning(nodes.len()), in_quarantine].into_iter().flatten().chain(unfit) {
            self.output.note(text);
        }
        Ok(client)
    }

    /// Connects for a service: succeeds even if nodes fail, and logs which nodes do not vote.
    pub(crate) async fn connect_for_service(&self, builder: ClientBuilder) -> Outcome<Client> {
        let client = builder.connect_lazy().await?;
        let nodes = client.nodes();
        let in_quarantine = quarantine_warning(&nodes);
        // A warning about the quarantine already covers the nodes in quarantine.
        let is_covered = |why: &Silence| in_quarantine.is_some() && why.quarantine_left().is_some();
        let silent = nodes.iter().filter_map(|(node, why)| Some((node, why.as_ref().filter(|why| !is_covered(why))?)));
        let silent: Vec<_> = silent.map(|(node, why)| format!("{node} {why}")).collect();
        let without_vote = (!silent.is_empty())
            .then(|| format!("{} of {} nodes without a vote: {}", silent.len(), nodes.len(), silent.join("; ")));
        for text in [even_number_warning(nodes.len()), without_vote, in_quarantine].into_iter().flatten() {
            tracing::warn!("{text}");
        }
        Ok(client)
    }

    /// Returns the ttl of the flag, or the configured ttl if the flag was not given.
    pub(crate) fn ttl(&self, flag: Option<Duration>) -> Outcome<Duration> {
        let max_ttl = self.settings.duration("max_ttl");
        if let Some(ttl) = flag.filter(|ttl| *ttl < TTL_MIN || *ttl > max_ttl) {
            let [ttl, min_ttl, max_ttl] = [ttl, TTL_MIN, max_ttl].map(show_exactly);
            let text = format!("--ttl must be between {min_ttl} and the max_ttl of {max_ttl} (got {ttl})");
            return Err(Failure::usage(text));
        }
        Ok(flag.unwrap_or_else(|| self.settings.duration("ttl")))
    }

    /// Fails if a node is in the memory of this process, because locks on that node exclude no other process.
    pub(crate) fn refuse_memory_nodes(&self, command: &str) -> Outcome<()> {
        if self.settings.nodes().unwrap_or_default().iter().any(|url| url.starts_with("memory:")) {
            let why = "memory: is a node of this process alone, and excludes no other process";
            return Err(Failure::config(format!("quorlock {command} cannot use memory: nodes: {why}")));
        }
        Ok(())
    }

    /// Returns the configured URLs of the nodes, with secrets. Without configured nodes, returns the URL of a file of
    /// this user on this host.
    pub(crate) fn urls(&self) -> Outcome<Vec<String>> {
        let nodes = self.settings.nodes();
        let has_local_node = nodes.is_none_or(|nodes| nodes.iter().any(|url| is_local(url)));
        if has_local_node && self.settings.is_on("require_cluster") {
            let conflict = match nodes {
                Some(_) => format!("but {} lists an sqlite: or memory: node", self.settings.origin("nodes")),
                None => format!("and no nodes are configured; looked for {}", join_paths(&self.settings.looked_for)),
            };
            let origin = self.settings.origin("require_cluster");
            let text = format!("require_cluster ({origin}) refuses locks of this host alone, {conflict}");
            return Err(Failure::config(text));
        }
        nodes.map_or_else(|| Ok(vec![format!("sqlite:{}", default_file()?.display())]), |nodes| Ok(nodes.to_vec()))
    }

    /// Prints which nodes are used and where they were configured, without passwords. Prints nothing without a
    /// terminal, unless the output is verbose.
    pub(crate) fn print_nodes(&self) -> Outcome<()> {
        if !self.output.verbose && !std::io::stderr().is_terminal() {
            return Ok(());
        }
        let urls = self.urls()?;
        let nodes = Value::List(urls.clone()).show();
        let scope = if urls.iter().any(|url| is_local(url)) { "; this host alone" } else { "" };
        self.output.note(format!("nodes: {nodes} ({}{scope})", self.settings.origin("nodes")));
        Ok(())
    }
}

/// Returns whether only processes of this host see the locks of a node.
fn is_local(url: &str) -> bool {
    url.starts_with("sqlite:") || url.starts_with("memory:")
}

/// Returns a warning if the number of nodes is even: with one node less, the cluster would tolerate as many failures.
fn even_number_warning(nodes: usize) -> Option<String> {
    let text = || format!("{nodes} nodes tolerate no more failures than {}: use an odd number", nodes - 1);
    (nodes > 0 && nodes.is_multiple_of(2)).then(text)
}

/// Returns a warning if too many nodes are in quarantine for anyone to acquire a lock.
fn quarantine_warning(nodes: &[(String, Option<Silence>)]) -> Option<String> {
    let voting = nodes.iter().filter(|(_, trouble)| trouble.is_none()).count();
    let left: Vec<Duration> = nodes.iter().filter_map(|(_, trouble)| trouble.as_ref()?.quarantine_left()).collect();
    let quarantined = left.len();
    let majority_left = Quorum::quarantine_left(nodes.len(), voting, left)?;
    let are_new = nodes.iter().all(|(_, trouble)| matches!(trouble, Some(Silence::Founding(_))));
    let (why, advice) = if are_new {
        ("are new", "if no lock can be outstanding: quorlock nodes init --yes")
    } else {
        ("lost their memory", "to wait for these nodes: quorlock nodes wait")
    };
    Some(format!("{quarantined} of {} nodes {why}, and can vote in {}; {advice}", nodes.len(), show(majority_left)))
}

/// Returns why the time between two runs of quorlock does not count towards a quarantine; `None` if that time counts.
pub(crate) fn unrecorded_reason(client: &Client) -> Option<String> {
    if state_folder().is_none() {
        return Some("neither XDG_STATE_HOME nor HOME names a state folder".into());
    }
    client.state_folder_trouble()
}

/// Returns `$XDG_STATE_HOME/quorlock`, or else `~/.local/state/quorlock`; `None` if neither variable is set.
fn state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state")
}

/// Returns the path of `locks.db` in the state folder.
fn default_file() -> Outcome<PathBuf> {
    let folder = state_folder().ok_or_else(|| {
        Failure::config("neither XDG_STATE_HOME nor HOME says where to keep locks: use --nodes sqlite:/some/path")
    })?;
    Ok(folder.join("locks.db"))
}
