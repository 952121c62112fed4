//! Whether a server can be a node: asked in the handshake, and of what an operator may change while it runs, again and again.

use std::collections::HashMap;

use ::redis::{Cmd, Value, cmd};

use super::trouble::{malformed, readable, trouble};
use crate::node::Trouble;

/// The oldest server that has everything the scripts need (`SET .. PXAT`).
const VERSION_MIN: (u32, u32) = (6, 2);

/// What a server has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Post {
    /// A master that depends on nobody.
    Alone,
    /// The master of the moment.
    Named,
    /// A master of a Redis Cluster.
    Cluster,
}

/// Who the server is, or why it cannot be a node.
pub(super) fn identify(info: &str, post: Post) -> Result<String, Trouble> {
    let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default().trim();
    fitness(post, field)?;
    Ok(format!("{}/{}", field("run_id"), field("master_replid")))
}

/// Why a server that says this of itself cannot be a node.
pub(super) fn fitness<'a>(post: Post, field: impl Fn(&str) -> &'a str) -> Result<(), Trouble> {
    let unfit = |why: String| Err(Trouble::Unfit(why));
    let version = field("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if (major, minor) < VERSION_MIN {
        return unfit(format!("Redis {} is too old: 6.2 or later is needed", readable(version)));
    }
    let role = field("role");
    match post {
        _ if role == "master" => {}
        Post::Alone => {
            return unfit(format!("it is a replica (role {role:?}): every node must be an independent master"));
        }
        // It takes a while for all of them to agree.
        Post::Named => {
            return Err(Trouble::Unreachable("its sentinels name a server that is not the master".into()));
        }
        Post::Cluster => return Err(Trouble::Unreachable("it is not a master any more".into())),
    }
    match (post, field("cluster_enabled")) {
        (Post::Cluster, "1") | (Post::Alone | Post::Named, "0" | "") => {}
        (Post::Cluster, _) => return unfit("it is not part of a Redis Cluster".into()),
        (Post::Alone | Post::Named, _) => {
            return unfit(
                "it is part of a Redis Cluster: every node must be an independent master, or the Cluster the only node, \
                 as redis+cluster://"
                    .into(),
            );
        }
    }
    never_evicts(field("maxmemory_policy"))?;
    if field("run_id").is_empty() {
        return unfit("it does not tell its run_id".into());
    }
    Ok(())
}

/// A server that evicts forgets votes, by itself and without a trace.
fn never_evicts(policy: &str) -> Result<(), Trouble> {
    if policy == "noeviction" {
        return Ok(());
    }
    let policy = readable(policy);
    Err(Trouble::Unfit(format!(
        "its maxmemory-policy is {policy:?}, so it may forget a lock under pressure: set it to noeviction"
    )))
}

/// Asks for what [`keeps_all`] reads. Not by `CONFIG`: the handshake needs leave for `INFO` anyway.
pub(super) fn policy() -> Cmd {
    let mut command = cmd("INFO");
    command.arg("memory");
    command
}

/// Whether the server still keeps what it is told to keep.
pub(super) fn keeps_all(value: Value) -> Result<(), Trouble> {
    if let Value::ServerError(error) = value {
        return Err(trouble(&error.into()));
    }
    let text = info_text(value).ok_or_else(|| malformed("INFO"))?;
    let policy = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
    never_evicts(policy.unwrap_or_default().trim())
}

/// What a server says of itself.
pub(super) fn info_text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}
