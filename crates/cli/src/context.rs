//! What every command starts from: the settings, the nodes, and where to print.

use std::path::PathBuf;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Silence};

use crate::config::Settings;
use crate::duration::show;
use crate::exit::Failure;
use crate::output::Output;

/// The settings, and where to print.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
}

impl Context {
    /// A builder for the configured nodes.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let settings = &self.settings;
        let mut builder = Client::builder().nodes(self.urls()?);
        if let Some(template) = settings.text("key_template") {
            builder = builder.key_template(template);
        }
        if let Some(ttl) = settings.duration("ttl") {
            builder = builder.ttl(ttl);
        }
        if let Some(max_ttl) = settings.duration("max_ttl") {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(sigma) = settings.duration("sigma") {
            builder = builder.sigma(sigma);
        }
        if let Some(backstep) = settings.duration("backstep") {
            builder = builder.backstep(backstep);
        }
        if let Some(password) = settings.password()? {
            builder = builder.login(settings.text("username").unwrap_or("default"), &password);
        }
        if settings.is_on("danger_trust_restarts") {
            builder = builder.danger_trust_restarts();
        }
        Ok(builder)
    }

    /// A builder for those who take no lock: the ttl plays no part.
    pub(crate) fn operator(&self) -> Result<ClientBuilder, Failure> {
        let shortest = |max_ttl: Duration| max_ttl.min(quorlock::TTL_DEFAULT);
        let max_ttl = self.settings.duration("max_ttl").unwrap_or(quorlock::MAX_TTL_DEFAULT);
        Ok(self.builder()?.ttl(shortest(max_ttl)))
    }

    /// Connects to the configured nodes, and says so if they may not vote yet.
    #[allow(dead_code, reason = "commands to come need no more than this")]
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.open(self.builder()?).await
    }

    /// The same, with more that is set.
    pub(crate) async fn open(&self, builder: ClientBuilder) -> Result<Client, Failure> {
        let client = builder.connect().await?;
        if let Some(text) = not_yet(&client.nodes()) {
            self.output.note(text);
        }
        Ok(client)
    }

    /// The nodes' URLs, secrets and all: those that were given, or the file of this user and machine.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Failure> {
        let nodes = self.settings.nodes();
        if nodes.is_empty() { Ok(vec![format!("sqlite:{}", default_file()?.display())]) } else { Ok(nodes.to_vec()) }
    }
}

/// What is going on where so many nodes are in quarantine that nobody gets a lock: most likely they are new.
fn not_yet(nodes: &[(String, Option<Silence>)]) -> Option<String> {
    let majority = nodes.len() / 2 + 1;
    let voting = nodes.iter().filter(|(_, trouble)| trouble.is_none()).count();
    let mut left: Vec<Duration> = nodes
        .iter()
        .filter_map(|(_, trouble)| match trouble {
            Some(Silence::Quarantined(left)) => Some(*left),
            _ => None,
        })
        .collect();
    left.sort_unstable();
    // As soon as those with the least time left make up a majority.
    let wait = left.get(majority.checked_sub(voting + 1)?)?;
    Some(format!(
        "{} of {} nodes are new, or lost their memory, and may vote in {}; \
         if no lock can be outstanding: quorlock nodes init --yes",
        left.len(),
        nodes.len(),
        show(*wait)
    ))
}

/// `$XDG_STATE_HOME/quorlock/locks.db`, or below `~/.local/state`.
pub(crate) fn default_file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::Config(
            "neither XDG_STATE_HOME nor HOME says where to keep locks: use --nodes sqlite:/some/path".into(),
        )
    })?;
    Ok(state.join("quorlock/locks.db"))
}
