//! The environment variables that the command gets: they describe its lock, and the nodes for nested `quorlock` calls.

use std::path::Path;

use quorlock::{DetachedLease, Lease, Owner};

use super::{RunArgs, nesting};
use crate::config::Value;
use crate::context::Context;
use crate::duration::millis;
use crate::exit::{Failure, Outcome};

/// The variables of a command, by name. A variable without a value is removed from the environment.
pub(super) type Environment = Vec<(String, Option<String>)>;

/// Returns the environment of the command that runs under this lease.
pub(super) fn build(context: &Context, args: &RunArgs, lease: &Lease, outer: &[DetachedLease]) -> Outcome<Environment> {
    let fence = lease.fence().map_err(Failure::internal)?;
    let detached = lease.as_detached();
    let own = [
        ("QUORLOCK_NAME", Some(args.lock.name.clone())),
        ("QUORLOCK_KIND", Some(args.lock.kind().to_owned())),
        ("QUORLOCK_FENCE", Some(fence.to_string())),
        ("QUORLOCK_LEASE", Some(detached.reveal())),
        ("QUORLOCK_OWNER", detached.owner().map(Owner::reveal)),
        ("QUORLOCK_SLOT", lease.slot().map(|slot| slot.to_string())),
        ("QUORLOCK_TTL_MS", Some(millis(detached.ttl()).to_string())),
        (nesting::VARIABLE, Some(nesting::variable_value(outer, &detached))),
    ];
    // A relative path would name another file after the command changes its working directory.
    let nodes = context.urls()?.into_iter().map(|url| match url.strip_prefix("sqlite:") {
        Some(path) => format!("sqlite:{}", absolute(path)),
        None => url,
    });
    let nodes = nodes.collect::<Vec<_>>().join(",");
    let settings = context.settings.values.iter().filter(|(key, ..)| key.is_global() && key.name != "color");
    let settings = settings.map(|(key, value, _)| match key.name {
        "nodes" => (key.variable(), Some(nodes.clone())),
        "password_file" => (key.variable(), value.as_ref().map(|path| absolute(&path.show()))),
        _ => (key.variable(), value.as_ref().map(Value::show)),
    });
    Ok(own.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(settings).collect())
}

fn absolute(path: &str) -> String {
    std::path::absolute(Path::new(path)).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
