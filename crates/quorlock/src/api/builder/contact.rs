//! Waiting for the nodes after the client has started.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::vote::Silence;

use crate::api::client::Client;
use crate::cluster::admin::Failed;
use crate::error::ConnectError;
use crate::link::Link;
use crate::node::Trouble;
use crate::platform::runtime;

/// How long `connect_lazy` waits for nodes that do not answer.
const LAZY_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for the other nodes after a majority can vote.
const STRAGGLER_PATIENCE: Duration = Duration::from_millis(200);

/// Waits until all nodes have answered, or until a majority can vote and the other nodes had a short grace period.
/// Waits at most for [`LAZY_PATIENCE`]. Fails if too many nodes are unusable.
pub(super) async fn wait_for_answers(client: &Client) -> Result<(), Failed> {
    let answered = until(client, || pending_count(client) == 0 || has_majority(client) || is_hopeless(client));
    let _ = runtime::timeout(LAZY_PATIENCE, async {
        answered.await;
        wait_for_stragglers(client).await;
    })
    .await;
    check_usable(client)
}

/// Waits until a majority can vote, and then for a short grace period for the other nodes.
pub(super) async fn wait_for_majority(client: &Client, timeout: Duration) -> Result<(), ConnectError> {
    let began = runtime::now();
    let decided = until(client, || {
        if has_majority(client) {
            return true;
        }
        // Once every node has answered, stop if too many nodes stay in quarantine until the timeout.
        let left = timeout.saturating_sub(runtime::since(began));
        is_hopeless(client) || pending_count(client) == 0 && quarantined_beyond(client, left) > missing_max(client)
    });
    let _ = runtime::timeout(timeout, decided).await;
    if has_majority(client) {
        wait_for_stragglers(client).await;
        return Ok(check_usable(client)?);
    }
    check_usable(client)?;
    Err(ConnectError::NoMajority { nodes: client.nodes(), waited: runtime::since(began) })
}

/// Waits a short grace period for nodes that have not answered.
async fn wait_for_stragglers(client: &Client) {
    let everyone = until(client, || pending_count(client) == 0 || voting_count(client) == links(client).len());
    let _ = runtime::timeout(STRAGGLER_PATIENCE, everyone).await;
}

/// Waits until the condition holds. Checks it after every change of a link.
async fn until(client: &Client, condition: impl Fn() -> bool) {
    loop {
        let news: Vec<_> = links(client).iter().map(|link| Box::pin(link.news.notified())).collect();
        if condition() {
            return;
        }
        futures_util::future::select_all(news).await;
    }
}

fn links(client: &Client) -> &[Arc<Link>] {
    &client.cluster().links
}

/// Returns how many nodes may be missing so that the other nodes are still a majority.
fn missing_max(client: &Client) -> usize {
    links(client).len() - client.cluster().settings.quorum.majority()
}

/// Returns the number of nodes that have not answered yet, or wait for other nodes.
fn pending_count(client: &Client) -> usize {
    links(client).iter().filter(|link| link.is_connecting()).count()
}

fn voting_count(client: &Client) -> usize {
    client.nodes().iter().filter(|(_, trouble)| trouble.is_none()).count()
}

fn has_majority(client: &Client) -> bool {
    voting_count(client) >= client.cluster().settings.quorum.majority()
}

/// Returns each node that is unusable until an operator acts, with the reason.
fn unusable(client: &Client) -> Failed {
    links(client).iter().filter_map(|link| Some((link.title.clone(), link.refusal()?))).collect()
}

/// Returns whether every node has answered, and too many of them are unusable. A node that waits for other nodes has
/// answered.
fn is_hopeless(client: &Client) -> bool {
    let waiting = links(client).iter().filter(|link| is_waiting(link));
    waiting.count() == pending_count(client) && unusable(client).len() > missing_max(client)
}

/// Returns the number of nodes that stay in quarantine for longer than `time`.
fn quarantined_beyond(client: &Client, time: Duration) -> usize {
    let quarantine = |link: &Link| link.trouble().and_then(|why| why.quarantine_left());
    links(client).iter().filter(|link| quarantine(link).is_some_and(|quarantine| quarantine > time)).count()
}

/// Returns whether a node is reachable, and waits for other nodes before it may vote.
fn is_waiting(link: &Link) -> bool {
    matches!(link.trouble(), Some(Silence::Waiting(_)))
}

/// Returns the unusable nodes as an error if no majority can vote until an operator acts.
///
/// An unusable node never votes. If a minority of the nodes is unusable, clients work without them, as with unreachable
/// nodes.
fn check_usable(client: &Client) -> Result<(), Failed> {
    let unusable = unusable(client);
    // If all other nodes wait for the unusable nodes, even one unusable node is too many.
    let are_stuck = || links(client).iter().all(|link| link.refusal().is_some() || is_waiting(link));
    if unusable.len() <= missing_max(client) && (unusable.is_empty() || !are_stuck()) {
        return Ok(());
    }
    Err(unusable)
}

impl From<Failed> for ConnectError {
    fn from(failed: Failed) -> Self {
        let is_denied = failed.iter().any(|(_, trouble)| matches!(trouble, Trouble::Denied(_)));
        let nodes = failed.into_iter().map(|(title, trouble)| (title, trouble.to_string())).collect();
        if is_denied { Self::Denied { nodes } } else { Self::Unfit { nodes } }
    }
}
