//! The first contact with the nodes.

use std::time::Duration;

use crate::client::Client;
use crate::error::ConnectError;
use crate::link::{Contact, Link};
use crate::node::Trouble;
use crate::runtime;

/// How long `connect_lazy` waits for nodes that do not answer.
const LAZY_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for the rest once a majority can vote.
const STRAGGLER_PATIENCE: Duration = Duration::from_millis(200);

/// Waits until the nodes have been heard: all of them, or a majority and a moment more.
pub(super) async fn first_contact(client: &Client) -> Result<(), ConnectError> {
    let heard = until(client, |nodes| nodes.pending() == 0 || nodes.can_vote() >= nodes.majority());
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
        // Once every node has been heard, some answers leave nothing to wait for.
        let left = timeout.saturating_sub(runtime::since(began));
        nodes.pending() == 0 && (accept(client).is_err() || nodes.quarantined_beyond(left) > nodes.can_miss())
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

/// Gives nodes that have not been heard another moment.
async fn stragglers(client: &Client) {
    let everyone = until(client, |nodes| nodes.pending() == 0 || nodes.can_vote() == nodes.links().len());
    let _ = runtime::timeout(STRAGGLER_PATIENCE, everyone).await;
}

/// Looks again whenever something changed.
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

    /// How many may be missing from a majority.
    fn can_miss(&self) -> usize {
        self.links().len() - self.majority()
    }

    fn pending(&self) -> usize {
        self.links().iter().filter(|link| link.contact() == Contact::Pending).count()
    }

    fn can_vote(&self) -> usize {
        self.0.nodes().iter().filter(|(_, trouble)| trouble.is_none()).count()
    }

    /// How many stay in quarantine for longer than this.
    fn quarantined_beyond(&self, left: Duration) -> usize {
        let quarantine = |link: &Link| link.trouble().and_then(|why| why.quarantine_left());
        self.links().iter().filter(|link| quarantine(link).is_some_and(|quarantine| quarantine > left)).count()
    }
}

/// Nodes that contradict the configuration are an error even if the others vote.
fn accept(client: &Client) -> Result<(), ConnectError> {
    for link in &client.cluster().links {
        let title = link.title.clone();
        match link.contact() {
            Contact::Refused(Trouble::Denied(why)) => return Err(ConnectError::Denied { title, why }),
            Contact::Refused(Trouble::Unfit(why)) => return Err(ConnectError::Unfit { title, why }),
            _ => {}
        }
    }
    Ok(())
}
