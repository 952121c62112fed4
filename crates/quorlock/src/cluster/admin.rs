//! Changes to all nodes by an operator: creates a cluster, or changes the constants of a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorlock_core::name::{Channel, Name};
use quorlock_core::node::{Epoch, Identity, Incarnation, NodeCommand};
use quorlock_core::quorum::Quorum;
use quorlock_core::request::Request;
use quorlock_core::vote::Vote;

use crate::cluster::list::{INSPECTED_AT_ONCE, PAGES_MAX};
use crate::cluster::settings::Settings;
use crate::error::ReconfigureError;
use crate::node::key::KeyTemplate;
use crate::node::{LockKey, Message, Node, Reply, RequestReply, STEP_DEADLINE, Search, Trouble, within};
use crate::platform::entropy;

/// The largest number of names in the error message for each node.
const NAMES_SHOWN_MAX: usize = 5;

/// The nodes that failed, each with the reason.
pub(crate) type Failed = Vec<(String, Trouble)>;

/// The title of a node, and a session to that node.
type OpenedNode = (String, RequestReply);

/// Returns an error if any node failed.
pub(crate) fn check(failed: Failed) -> Result<(), ReconfigureError> {
    if failed.is_empty() {
        return Ok(());
    }
    let is_denied = failed.iter().any(|(_, trouble)| matches!(trouble, Trouble::Denied(_)));
    let nodes = failed.into_iter().map(|(title, trouble)| (title, trouble.as_silence().to_string())).collect();
    Err(if is_denied { ReconfigureError::Denied { nodes } } else { ReconfigureError::Failed { nodes } })
}

/// Makes the nodes a new cluster. The nodes of the new cluster may vote at once.
pub(crate) async fn init(nodes: &[Arc<dyn Node>], settings: &Settings) -> Result<(), ReconfigureError> {
    let constants = settings.constants(format!("{:032x}", entropy::bits()));
    let mut sessions = open_all(nodes).await?;
    if !settings.discards_leases {
        refuse_leases(&mut sessions, &settings.template).await?;
    }
    let node_command =
        |identity| NodeCommand::Init { identity, fresh: Epoch(entropy::bits()), constants: constants.clone() };
    command_all(&mut sessions, node_command).await
}

/// Fails if any node has a lease, or cannot list its names.
async fn refuse_leases(sessions: &mut [OpenedNode], template: &KeyTemplate) -> Result<(), ReconfigureError> {
    let mut found = Vec::new();
    for (title, session) in sessions {
        let reason = match held_names(session, template).await {
            Ok(names) if names.is_empty() => continue,
            Ok(names) => {
                let shown = names.iter().take(NAMES_SHOWN_MAX).map(|name| format!("{:?}", name.as_str()));
                let more = if names.len() > NAMES_SHOWN_MAX { ", and more" } else { "" };
                format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
            }
            Err(trouble) => format!("cannot list its names: {}", trouble.as_silence()),
        };
        found.push((title.clone(), reason));
    }
    if found.is_empty() { Ok(()) } else { Err(ReconfigureError::Leases { nodes: found }) }
}

/// Returns the names that are held on a node, or the first of these names if there are more than an error message
/// shows.
async fn held_names(session: &mut RequestReply, template: &KeyTemplate) -> Result<Vec<Name>, Trouble> {
    let span = template.span("");
    let (mut held, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page = within(STEP_DEADLINE, session.search(Search { span: span.clone(), after })).await?;
        let names = page.keys.iter().filter_map(|key| template.name_of(key));
        let keys: Vec<Arc<LockKey>> = names.filter_map(|name| template.key(&name).ok().map(Arc::new)).collect();
        for keys in keys.chunks(INSPECTED_AT_ONCE) {
            let message = |key: &Arc<LockKey>| Message { key: Arc::clone(key), request: Arc::new(Request::Inspect) };
            let replies = within(STEP_DEADLINE, session.send(None, keys.iter().map(message).collect())).await?;
            for (key, reply) in keys.iter().zip(replies) {
                match reply {
                    Reply::Voted { vote: Vote::Report(report), .. } if report.held.is_none() => {}
                    // The key holds another program's data.
                    Reply::Failed(why) if why.contains("WRONGTYPE") => {}
                    Reply::Failed(why) | Reply::Moved(why) => return Err(Trouble::Broken(why)),
                    Reply::Voted { .. } => held.push(key.name.clone()),
                }
            }
        }
        match page.next {
            Some(next) if held.len() <= NAMES_SHOWN_MAX => after = next,
            _ => return Ok(held),
        }
    }
    Err(Trouble::Unfit("it has too many keys to search for leases".into()))
}

/// Changes the constants of the nodes' cluster. The nodes vote again after a quarantine, unless restarted nodes are
/// trusted.
///
/// An old majority and a new majority may have no node in common. The client therefore first suspends every node, and
/// then starts the quarantines. If the change fails after some nodes were suspended, these nodes stay suspended until
/// the operator repeats the change.
pub(crate) async fn reconfigure(nodes: &[Arc<dyn Node>], settings: &Settings) -> Result<(), ReconfigureError> {
    let mut sessions = open_all(nodes).await?;
    let mut incarnations = Vec::new();
    for (title, session) in &mut sessions {
        match within(STEP_DEADLINE, session.node_command(NodeCommand::Look)).await {
            Ok(standing) => incarnations.extend(standing.life),
            Err(trouble) => check(vec![(title.clone(), trouble)])?,
        }
    }
    let (constants, trust) = (settings.constants(common_cluster(&incarnations)?), settings.trust());
    let steps: &[bool] = if nodes.len() > 1 { &[true, false] } else { &[false] };
    for &suspend in steps {
        let node_command = |identity| {
            let (fresh, constants) = (Epoch(entropy::bits()), constants.clone());
            NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend }
        };
        command_all(&mut sessions, node_command).await?;
    }
    Ok(())
}

/// Returns the id of the cluster that the nodes with these incarnations belong to. Fails if the nodes are not a
/// majority of that cluster.
fn common_cluster(incarnations: &[Incarnation]) -> Result<String, ReconfigureError> {
    let clusters: BTreeSet<&str> = incarnations.iter().map(|life| life.constants.cluster.as_str()).collect();
    let cluster = match clusters.into_iter().collect::<Vec<_>>().as_slice() {
        [] => return Err(ReconfigureError::Blank),
        [cluster] => (*cluster).to_owned(),
        [..] => return Err(ReconfigureError::Mixed),
    };
    // The nodes that keep the old constants must not be a majority, because clients with the old constants could use
    // it.
    let cluster_nodes = incarnations.iter().map(|life| life.constants.nodes).max().unwrap_or(0);
    let present = incarnations.len();
    if present < Quorum::majority_of(cluster_nodes) {
        return Err(ReconfigureError::Minority { present, cluster_nodes });
    }
    Ok(cluster)
}

/// Opens a session to every node. Fails if a session cannot be opened, because a change of only some nodes would stop
/// the cluster.
async fn open_all(nodes: &[Arc<dyn Node>]) -> Result<Vec<OpenedNode>, ReconfigureError> {
    let mut sessions: Vec<OpenedNode> = Vec::new();
    let mut failed = Failed::new();
    for node in nodes {
        let opened = within(STEP_DEADLINE, RequestReply::open(&**node, Channel(0))).await.and_then(|session| {
            match sessions.iter().find(|(_, other)| other.identity().run == session.identity().run) {
                Some((twin, _)) => Err(Trouble::Unfit(format!("it is the same server as {twin}"))),
                None => Ok(session),
            }
        });
        match opened {
            Ok(session) => sessions.push((node.title().to_owned(), session)),
            Err(trouble) => failed.push((node.title().to_owned(), trouble)),
        }
    }
    check(failed)?;
    Ok(sessions)
}

/// Sends a node command to every node. Fails if any node does not accept the command.
async fn command_all(
    sessions: &mut [OpenedNode],
    node_command: impl Fn(Identity) -> NodeCommand,
) -> Result<(), ReconfigureError> {
    let mut failed = Failed::new();
    for (title, session) in sessions {
        let node_command = node_command(session.identity().clone());
        match within(STEP_DEADLINE, session.node_command(node_command)).await {
            Ok(standing) if standing.accepted => {}
            Ok(_) => failed.push((title.clone(), Trouble::Unfit("it has just joined another cluster".into()))),
            Err(trouble) => failed.push((title.clone(), trouble)),
        }
    }
    check(failed)
}
