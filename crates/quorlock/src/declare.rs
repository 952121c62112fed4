//! An operator's word to all nodes: to be one new cluster, or the same one with other constants.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::node::{Epoch, Errand, Incarnation, Trust};
use quorlock_core::ticket::Channel;

use crate::cluster::Settings;
use crate::entropy;
use crate::error::{InitError, ReconfigureError};
use crate::node::{Node, Talk, Trouble};

/// How long each step may take on each node.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// The nodes that failed, and why.
type Failed = Vec<(String, String)>;

/// Makes the nodes one new cluster, ripe at once.
pub(crate) async fn init(nodes: &[Arc<dyn Node>], settings: &Settings) -> Result<(), InitError> {
    let constants = settings.constants(format!("{:032x}", entropy::bits()));
    let told = async {
        let mut sessions = open_all(nodes).await?;
        let errand = |run| Errand::Init { run, fresh: Epoch(entropy::bits()), constants: constants.clone() };
        tell_all(nodes, &mut sessions, errand).await
    };
    told.await.map_err(|failed| InitError::Failed { failed })
}

/// Gives the nodes' cluster these constants. They vote again after a quarantine, unless they are trusted.
///
/// Every node stops voting before the first one may begin to ripen: an old majority and a new one need not have a node in
/// common. If that fails half-way, those that were told stay suspended until it is said again.
pub(crate) async fn reconfigure(
    nodes: &[Arc<dyn Node>],
    settings: &Settings,
    trust: Trust,
) -> Result<(), ReconfigureError> {
    let failed = |failed| ReconfigureError::Failed { failed };
    let mut sessions = open_all(nodes).await.map_err(failed)?;
    let mut lives = Vec::new();
    for (node, session) in nodes.iter().zip(&mut sessions) {
        let look = within(DEADLINE, session.errand(Errand::Look)).await;
        let look = look.map_err(|trouble| failed(vec![account(&**node, &trouble)]))?;
        lives.extend(look.life);
    }
    let constants = settings.constants(one_cluster(&lives)?);
    let errand = |suspend| {
        let constants = constants.clone();
        move |run| {
            let (fresh, constants) = (Epoch(entropy::bits()), constants.clone());
            Errand::Reconfigure { run, fresh, constants, trust, suspend }
        }
    };
    if nodes.len() > 1 {
        tell_all(nodes, &mut sessions, errand(true)).await.map_err(failed)?;
    }
    tell_all(nodes, &mut sessions, errand(false)).await.map_err(failed)
}

/// The name of the one cluster that these nodes belong to, if no majority of it is elsewhere.
fn one_cluster(lives: &[Incarnation]) -> Result<String, ReconfigureError> {
    let clusters: BTreeSet<&str> = lives.iter().map(|life| life.constants.cluster.as_str()).collect();
    let cluster = match clusters.into_iter().collect::<Vec<_>>().as_slice() {
        [] => return Err(ReconfigureError::Blank),
        [cluster] => (*cluster).to_owned(),
        [..] => return Err(ReconfigureError::Mixed),
    };
    // Whoever still goes by the old constants must not find a majority that has not heard of the new ones.
    let before = lives.iter().map(|life| life.constants.nodes).max().unwrap_or(0);
    let present = lives.len();
    if present < before / 2 + 1 {
        return Err(ReconfigureError::Minority { present, before });
    }
    Ok(cluster)
}

/// All or none: a cluster that is declared on some of its nodes is worse than one that is not.
async fn open_all(nodes: &[Arc<dyn Node>]) -> Result<Vec<Talk>, Failed> {
    let mut sessions: Vec<Talk> = Vec::new();
    let mut titles = Vec::new();
    let mut failed = Vec::new();
    for node in nodes {
        match within(DEADLINE, Talk::open(&**node, Channel(0))).await {
            Err(trouble) => failed.push(account(&**node, &trouble)),
            Ok(session) => {
                if let Some(twin) = sessions.iter().position(|other| other.run() == session.run()) {
                    failed.push((node.title().to_owned(), format!("it is the same server as {}", titles[twin])));
                } else {
                    sessions.push(session);
                    titles.push(node.title());
                }
            }
        }
    }
    if failed.is_empty() { Ok(sessions) } else { Err(failed) }
}

async fn tell_all(
    nodes: &[Arc<dyn Node>],
    sessions: &mut [Talk],
    errand: impl Fn(String) -> Errand,
) -> Result<(), Failed> {
    let mut failed = Vec::new();
    for (node, session) in nodes.iter().zip(sessions) {
        let errand = errand(session.run().to_owned());
        match within(DEADLINE, session.errand(errand)).await {
            Ok(standing) if standing.accepted => {}
            Ok(_) => failed.push((node.title().to_owned(), "it belongs to another cluster by now".into())),
            Err(trouble) => failed.push(account(&**node, &trouble)),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed) }
}

fn account(node: &dyn Node, trouble: &Trouble) -> (String, String) {
    (node.title().to_owned(), trouble.as_silence().to_string())
}

pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(Trouble::Unreachable(format!("no answer within {limit:?}"))))
}
