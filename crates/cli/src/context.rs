//! What every command starts from: the settings, the nodes, and where to print.

use std::path::PathBuf;

use quorlock::{Client, ClientBuilder};

use crate::config::Settings;
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

    /// Connects to the configured nodes.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.connect().await?)
    }

    /// The nodes' URLs, secrets and all: those that were given, or the file of this user and machine.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Failure> {
        let nodes = self.settings.nodes();
        if nodes.is_empty() { Ok(vec![format!("sqlite:{}", default_file()?.display())]) } else { Ok(nodes.to_vec()) }
    }
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
