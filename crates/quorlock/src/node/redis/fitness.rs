//! Checks whether a server can be a node, and identifies its memory. The checks run in the handshake. The checks of the
//! role, the promotion and the eviction policy run again with every command about the node itself.

use quorlock_core::node::Identity;

use super::resp::Value;
use super::scripts::ServerKind;
use super::trouble::{checked, malformed, readable};
use crate::node::Trouble;
use crate::node::url::Origin;

/// The oldest version that has every command that the scripts use (`SET .. PXAT`).
const VERSION_MIN: (u32, u32) = (6, 2);

impl Origin {
    pub(super) fn server_kind(&self) -> ServerKind {
        if matches!(self, Self::Cluster(_)) { ServerKind::Cluster } else { ServerKind::Server }
    }
}

/// Returns the server's identity. Fails if `INFO` lacks one of its fields.
///
/// A server that has evicted keys may have evicted votes. So the number of evicted keys is a part of the run: another
/// number means another memory.
pub(super) fn identity(info: &str) -> Result<Identity, Trouble> {
    let (run_id, evicted) = (field(info, "run_id"), field(info, "evicted_keys"));
    if run_id.is_empty() {
        return Err(missing_field("run_id"));
    }
    let run = match evicted.parse::<u64>() {
        Ok(0) => run_id.to_owned(),
        Ok(evicted) => format!("{run_id}:{evicted}"),
        Err(_) => return Err(missing_field("evicted_keys")),
    };
    Ok(Identity { run, promotion: promotion(info)? })
}

/// Returns the server's last promotion from replica to master, or an empty text if there was none.
fn promotion(info: &str) -> Result<String, Trouble> {
    let (id, offset) = (field(info, "master_replid2"), field(info, "second_repl_offset"));
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(missing_field("master_replid2"));
    }
    if offset.parse::<i64>().is_err() {
        return Err(missing_field("second_repl_offset"));
    }
    Ok(if id.bytes().all(|byte| byte == b'0') { String::new() } else { format!("{id}:{offset}") })
}

fn missing_field(field: &str) -> Trouble {
    Trouble::Unfit(format!(
        "INFO does not show {field}: without this field, clients cannot detect that the server lost its memory"
    ))
}

/// Returns the value of a field in the reply to `INFO`; empty if the field is missing.
pub(super) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
}

/// Returns the identity of a server, or the reason why it cannot be a node.
pub(super) fn identify(info: &str, origin: &Origin) -> Result<Identity, Trouble> {
    let field = |name| field(info, name);
    let unfit = |why: String| Err(Trouble::Unfit(why));
    let version = field("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if (major, minor) < VERSION_MIN {
        return unfit(format!("Redis {} is too old: 6.2 or later is needed", readable(version)));
    }
    require_master(origin, field("role"))?;
    match (origin.server_kind(), field("cluster_enabled")) {
        (ServerKind::Cluster, "1") | (ServerKind::Server, "0" | "") => {}
        (ServerKind::Cluster, _) => return unfit("it is not part of a Redis Cluster".into()),
        (ServerKind::Server, _) => {
            return unfit(
                "it is part of a Redis Cluster: use independent masters as nodes, or the whole Cluster as the only \
                 node (redis+cluster://)"
                    .into(),
            );
        }
    }
    require_noeviction(field("maxmemory_policy"))?;
    identity(info)
}

fn require_master(origin: &Origin, role: &str) -> Result<(), Trouble> {
    match origin {
        _ if role == "master" => Ok(()),
        Origin::Server(_) => {
            let role = readable(role);
            Err(Trouble::Unfit(format!("it is a replica (role {role:?}): every node must be an independent master")))
        }
        // After a failover, a sentinel may still name the old master. The next connection asks the sentinels again.
        Origin::Sentinels(_) => Err(Trouble::Unreachable("its sentinels name a server that is not the master".into())),
        Origin::Cluster(_) => Err(Trouble::Unreachable("it is not a master any more".into())),
    }
}

/// Checks that the eviction policy is `noeviction`: eviction would silently delete votes.
fn require_noeviction(policy: &str) -> Result<(), Trouble> {
    if policy == "noeviction" {
        return Ok(());
    }
    let policy = readable(policy);
    Err(Trouble::Unfit(format!(
        "its maxmemory-policy is {policy:?}, so it may evict a lock when memory is full: set the policy to noeviction"
    )))
}

/// Returns the last promotion from the reply to `INFO replication`. Fails if the server is not a master any more. The
/// other part of the identity, the run id, cannot change during a connection.
pub(super) fn last_promotion(origin: &Origin, value: Value) -> Result<String, Trouble> {
    let info = info_text(value)?;
    require_master(origin, field(&info, "role"))?;
    promotion(&info)
}

/// Checks in the reply to `INFO memory` that the eviction policy is still `noeviction`. `CONFIG GET` would need another
/// permission; the handshake needs the permission for `INFO` anyway.
pub(super) fn check_never_evicts(value: Value) -> Result<(), Trouble> {
    require_noeviction(field(&info_text(value)?, "maxmemory_policy"))
}

/// Returns the text of a reply to `INFO`.
pub(super) fn info_text(value: Value) -> Result<String, Trouble> {
    let Value::Text(bytes) = checked(value)? else { return Err(malformed("INFO")) };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
