//! What the command is told of its lock, and where its own `quorlock` finds the nodes.

use std::path::Path;
use std::time::Duration;

use quorlock::{Lease, Owner};

use super::RunArgs;
use super::nesting::Outer;
use crate::context::Context;
use crate::exit::Failure;

/// The settings that say which cluster it is.
const PLACE: [&str; 8] = [
    "require_cluster",
    "username",
    "password_file",
    "max_ttl",
    "max_clock_skew",
    "max_clock_step_back",
    "node_deadline",
    "danger_trust_restarts",
];

/// The variables of a command; `None` for one that it must not have from us.
pub(super) type Environment = Vec<(String, Option<String>)>;

/// Where the locks of this run live.
pub(super) struct Surroundings {
    nodes: String,
    template: String,
    place: Environment,
}

impl Surroundings {
    pub(super) fn new(context: &Context) -> Result<Self, Failure> {
        // A command that changes its folder must not find another file there.
        let nodes = context.urls()?.into_iter().map(|url| match url.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", absolute(path)),
            None => url,
        });
        let set = context.settings.iter().filter(|(key, ..)| PLACE.contains(&key.name));
        let place = set.map(|(key, value, _)| {
            let text = value.map(crate::config::Value::show);
            let text = if key.name == "password_file" { text.map(|path| absolute(&path)) } else { text };
            (key.variable(), text)
        });
        Ok(Self {
            nodes: nodes.collect::<Vec<_>>().join(","),
            template: context.settings.text("key_template").unwrap_or_default().to_owned(),
            place: place.collect(),
        })
    }

    /// What the command gets.
    pub(super) fn for_command(
        &self,
        args: &RunArgs,
        ttl: Duration,
        lease: &Lease,
        owner: Option<Owner>,
        outer: &Outer,
    ) -> Result<Environment, Failure> {
        let fence = lease.fence().map_err(Failure::internal)?;
        let detached = lease.as_detached();
        let own = [
            ("QUORLOCK_NAME", Some(args.name.clone())),
            ("QUORLOCK_KIND", Some(args.kind().text().to_owned())),
            ("QUORLOCK_FENCE", Some(fence.to_string())),
            ("QUORLOCK_LEASE", Some(detached.reveal())),
            ("QUORLOCK_OWNER", owner.map(Owner::reveal)),
            ("QUORLOCK_SLOT", lease.slot().map(|slot| slot.to_string())),
            ("QUORLOCK_TTL_MS", Some(ttl.as_millis().to_string())),
            ("QUORLOCK_NODES", Some(self.nodes.clone())),
            ("QUORLOCK_KEY_TEMPLATE", Some(self.template.clone())),
            (Outer::VARIABLE, outer.with(args.kind(), &detached)),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(own.chain(self.place.iter().cloned()).collect())
    }
}

fn absolute(path: &str) -> String {
    std::path::absolute(Path::new(path)).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
