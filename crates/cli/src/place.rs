//! Where the locks live, from flags and environment.

use std::path::PathBuf;

use quorlock::{Client, ClientBuilder};

use crate::args::PlaceArgs;
use crate::exit::Failure;

impl PlaceArgs {
    /// A builder for these nodes.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder().nodes(self.urls()?);
        if let Some(template) = &self.key_template {
            builder = builder.key_template(template);
        }
        if let Some(max_ttl) = self.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        Ok(builder)
    }

    /// The nodes' URLs: those that were given, or the file of this user and machine.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Failure> {
        if self.nodes.is_empty() {
            Ok(vec![format!("sqlite:{}", default_file()?.display())])
        } else {
            Ok(self.nodes.clone())
        }
    }
}

/// `$XDG_STATE_HOME/quorlock/locks.db`, or below `~/.local/state`.
fn default_file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::Config(
            "neither XDG_STATE_HOME nor HOME says where to keep locks: use --nodes sqlite:/some/path".into(),
        )
    })?;
    Ok(state.join("quorlock/locks.db"))
}
