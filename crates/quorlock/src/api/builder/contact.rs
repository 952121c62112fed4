//! Waiting for the nodes after the client has started.

use std::time::Duration;

use quorlock_core::vote::Silence;

use crate::api::client::Client;
use crate::error::ConnectError;
use crate::link::Link;
use crate::node::Trouble;
use crate::platform::runtime;

/// How long `connect_lazy` waits for nodes that do not answer.
const LAZY_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for the rest once a majority can vote.
const STRAGGLER_PATIENCE: Duration = Duration::from_millis(200);

/// Waits until all nodes have answered, or a majority can vote and the others had a moment more.
pub(super) async fn first_contact(client: &Client) -> Result<(), ConnectError> {
    let heard =
        until(client, |nodes| nodes.pending() == 0 || nodes.can_vote() >= nodes.majority() || nodes.are_too_few());
    let _ = runtime::timeout(LAZY_PATIENCE, async {
        heard.await;
        stragglers(client).await;
    })
    .await;
    accept(client)
}

/// Waits until a majority can vote, and a moment more for the rest.
pub(super) async fn majority_contact(client: &Client, timeout: Duration) -> Result<(), ConnectError> {
    let began = runtime::now();
    let decided = until(client, |nodes| {
        if nodes.can_vote() >= nodes.majority() {
            return true;
        }
        // Once every node has answered, there may be nothing left to wait for.
        let left = timeout.saturating_sub(runtime::since(began));
        nodes.are_too_few() || nodes.pending() == 0 && nodes.quarantined_beyond(left) > nodes.can_miss()
    });
    let _ = runtime::timeout(timeout, decided).await;
    let nodes = Nodes(client);
    if nodes.can_vote() >= nodes.majority() {
        stragglers(client).await;
        return accept(client);
    }
    accept(client)?;
    Err(ConnectError::NoMajority { nodes: client.nodes(), waited: runtime::since(began) })
}

/// Waits a moment more for nodes that have not answered.
async fn stragglers(client: &Client) {
    let everyone = until(client, |nodes| nodes.pending() == 0 || nodes.can_vote() == nodes.links().len());
    let _ = runtime::timeout(STRAGGLER_PATIENCE, everyone).await;
}

/// Waits until the condition holds, and checks it after every change of a link.
async fn until(client: &Client, is_so: impl Fn(&Nodes<'_>) -> bool) {
    let nodes = Nodes(client);
    loop {
        let news: Vec<_> = nodes.links().iter().map(|link| Box::pin(link.news.notified())).collect();
        if is_so(&nodes) {
            return;
        }
        futures_util::future::select_all(news).await;
    }
}

/// The nodes as they are now.
struct Nodes<'a>(&'a Client);

impl Nodes<'_> {
    fn links(&self) -> &[std::sync::Arc<Link>] {
        &self.0.cluster().links
    }

    fn majority(&self) -> usize {
        self.0.cluster().settings.quorum.majority()
    }

    /// The number of nodes that a majority can do without.
    fn can_miss(&self) -> usize {
        self.links().len() - self.majority()
    }

    fn pending(&self) -> usize {
        self.links().iter().filter(|link| link.is_connecting()).count()
    }

    fn can_vote(&self) -> usize {
        self.0.nodes().iter().filter(|(_, trouble)| trouble.is_none()).count()
    }

    /// Each node that cannot be used before an operator acts, and the reason.
    fn unusable(&self) -> impl Iterator<Item = (String, Trouble)> {
        self.links().iter().filter_map(|link| Some((link.title.clone(), link.refusal()?)))
    }

    /// Whether every node has answered, and too many of them cannot be used.
    fn are_too_few(&self) -> bool {
        let waiting = self.links().iter().filter(|link| waits(link));
        waiting.count() == self.pending() && self.unusable().count() > self.can_miss()
    }

    /// Whether every node cannot be used, or waits for those that cannot.
    fn are_stuck(&self) -> bool {
        self.links().iter().all(|link| link.refusal().is_some() || waits(link))
    }

    /// The number of nodes that stay in quarantine for longer than this.
    fn quarantined_beyond(&self, left: Duration) -> usize {
        let quarantine = |link: &Link| link.trouble().and_then(|why| why.quarantine_left());
        self.links().iter().filter(|link| quarantine(link).is_some_and(|quarantine| quarantine > left)).count()
    }
}

/// Whether a node is there, and waits for others before it may vote.
fn waits(link: &Link) -> bool {
    matches!(link.trouble(), Some(Silence::Waiting(_)))
}

/// Refuses nodes that cannot be used if no majority can come about without an operator.
///
/// A node that cannot be used never votes, so a minority of them is like as many dead nodes: running clients and new ones
/// work without them.
fn accept(client: &Client) -> Result<(), ConnectError> {
    let nodes = Nodes(client);
    let unusable: Vec<(String, Trouble)> = nodes.unusable().collect();
    if unusable.len() <= nodes.can_miss() && (unusable.is_empty() || !nodes.are_stuck()) {
        return Ok(());
    }
    let is_denied = unusable.iter().any(|(_, trouble)| matches!(trouble, Trouble::Denied(_)));
    let nodes = unusable.into_iter().map(|(title, trouble)| (title, trouble.to_string())).collect();
    Err(if is_denied { ConnectError::Denied { nodes } } else { ConnectError::Unfit { nodes } })
}
