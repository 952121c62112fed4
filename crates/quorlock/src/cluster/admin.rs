//! Changes to all nodes by an operator: a new cluster, or other constants for the same cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorlock_core::name::{Channel, Name};
use quorlock_core::node::{Epoch, Identity, Incarnation, NodeCommand};
use quorlock_core::request::Request;
use quorlock_core::terms::Quorum;
use quorlock_core::vote::Vote;

use crate::cluster::list::{INSPECTED_AT_ONCE, PAGES_MAX};
use crate::cluster::settings::Settings;
use crate::error::ReconfigureError;
use crate::node::key::KeyTemplate;
use crate::node::{LockKey, Message, Node, Reply, RequestReply, STEP_DEADLINE, Search, Trouble, within};
use crate::platform::entropy;

/// The largest number of names that are shown for each node.
const NAMES_SHOWN: usize = 5;

/// The nodes that failed, each with the reason.
pub(crate) type Failed = Vec<(String, Trouble)>;

/// The title of a node, and a session to it.
type Opened = (String, RequestReply);

/// Returns an error if any node failed.
pub(crate) fn check(failed: Failed) -> Result<(), ReconfigureError> {
    if failed.is_empty() {
        return Ok(());
    }
    let is_denied = failed.iter().any(|(_, trouble)| matches!(trouble, Trouble::Denied(_)));
    let nodes = failed.into_iter().map(|(title, trouble)| (title, trouble.as_silence().to_string())).collect();
    Err(if is_denied { ReconfigureError::Denied { nodes } } else { ReconfigureError::Failed { nodes } })
}

/// Makes the nodes a new cluster, whose nodes may vote at once.
pub(crate) async fn init(nodes: &[Arc<dyn Node>], settings: &Settings) -> Result<(), ReconfigureError> {
    let constants = settings.constants(format!("{:032x}", entropy::bits()));
    let mut sessions = open_all(nodes).await?;
    if !settings.discards_leases {
        refuse_leases(&mut sessions, &settings.template).await?;
    }
    let node_command =
        |identity| NodeCommand::Init { identity, fresh: Epoch(entropy::bits()), constants: constants.clone() };
    tell_all(&mut sessions, node_command).await
}

/// Fails if any node has a lease, or cannot list its names.
async fn refuse_leases(sessions: &mut [Opened], template: &KeyTemplate) -> Result<(), ReconfigureError> {
    let mut found = Vec::new();
    for (title, session) in sessions {
        let what = match leases(session, template).await {
            Ok(names) if names.is_empty() => continue,
            Ok(names) => {
                let shown = names.iter().take(NAMES_SHOWN).map(|name| format!("{:?}", name.as_str()));
                let more = if names.len() > NAMES_SHOWN { ", and more" } else { "" };
                format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
            }
            Err(trouble) => format!("its names cannot be listed: {}", trouble.as_silence()),
        };
        found.push((title.clone(), what));
    }
    if found.is_empty() { Ok(()) } else { Err(ReconfigureError::Leases { nodes: found }) }
}

/// Returns names that are held on a node: all of them, or enough to show.
async fn leases(session: &mut RequestReply, template: &KeyTemplate) -> Result<Vec<Name>, Trouble> {
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
            Some(next) if held.len() <= NAMES_SHOWN => after = next,
            _ => return Ok(held),
        }
    }
    Err(Trouble::Unfit("it has too many keys to look through".into()))
}

/// Changes the constants of the nodes' cluster. The nodes vote again after a quarantine, unless restarted nodes are
/// trusted.
///
/// The client first suspends every node, and then starts the quarantines, because an old majority and a new majority
/// may have no node in common. If the change fails after some nodes were suspended, they stay suspended until it is
/// repeated.
pub(crate) async fn reconfigure(nodes: &[Arc<dyn Node>], settings: &Settings) -> Result<(), ReconfigureError> {
    let mut sessions = open_all(nodes).await?;
    let mut lives = Vec::new();
    for (title, session) in &mut sessions {
        match within(STEP_DEADLINE, session.node_command(NodeCommand::Look)).await {
            Ok(look) => lives.extend(look.life),
            Err(trouble) => check(vec![(title.clone(), trouble)])?,
        }
    }
    let (constants, trust) = (settings.constants(one_cluster(&lives)?), settings.trust());
    let steps: &[bool] = if nodes.len() > 1 { &[true, false] } else { &[false] };
    for &suspend in steps {
        let node_command = |identity| {
            let (fresh, constants) = (Epoch(entropy::bits()), constants.clone());
            NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend }
        };
        tell_all(&mut sessions, node_command).await?;
    }
    Ok(())
}

/// Returns the id of the cluster that these nodes belong to. Fails if they are not a majority of that cluster.
fn one_cluster(lives: &[Incarnation]) -> Result<String, ReconfigureError> {
    let clusters: BTreeSet<&str> = lives.iter().map(|life| life.constants.cluster.as_str()).collect();
    let cluster = match clusters.into_iter().collect::<Vec<_>>().as_slice() {
        [] => return Err(ReconfigureError::Blank),
        [cluster] => (*cluster).to_owned(),
        [..] => return Err(ReconfigureError::Mixed),
    };
    // Clients with the old constants must not find a majority of nodes that still have the old constants.
    let cluster_nodes = lives.iter().map(|life| life.constants.nodes).max().unwrap_or(0);
    let present = lives.len();
    if present < Quorum::majority_of(cluster_nodes) {
        return Err(ReconfigureError::Minority { present, cluster_nodes });
    }
    Ok(cluster)
}

/// Opens a session to every node. Fails if one cannot be opened, because a change of only some nodes would stop the
/// cluster.
async fn open_all(nodes: &[Arc<dyn Node>]) -> Result<Vec<Opened>, ReconfigureError> {
    let mut sessions: Vec<Opened> = Vec::new();
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

async fn tell_all(
    sessions: &mut [Opened],
    node_command: impl Fn(Identity) -> NodeCommand,
) -> Result<(), ReconfigureError> {
    let mut failed = Failed::new();
    for (title, session) in sessions {
        let node_command = node_command(session.identity().clone());
        match within(STEP_DEADLINE, session.node_command(node_command)).await {
            Ok(standing) if standing.accepted => {}
            Ok(_) => failed.push((title.clone(), Trouble::Unfit("it belongs to another cluster by now".into()))),
            Err(trouble) => failed.push((title.clone(), trouble)),
        }
    }
    check(failed)
}
