//! The first contact with the nodes.

use std::time::Duration;

use crate::client::Client;
use crate::error::ConnectError;
use crate::link::Contact;
use crate::node::Trouble;
use crate::runtime;

/// How long `connect` waits for nodes that do not answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits for the rest once a majority can vote.
const STRAGGLER_PATIENCE: Duration = Duration::from_millis(200);

/// Waits until the nodes have been heard: all of them, or a majority and a moment more.
pub(super) async fn first_contact(client: &Client) -> Result<(), ConnectError> {
    let cluster = client.cluster();
    let links = &cluster.links;
    let settled = async |count: usize| loop {
        let news: Vec<_> = links.iter().map(|link| Box::pin(link.news.notified())).collect();
        let pending = links.iter().filter(|link| link.contact() == Contact::Pending).count();
        let ready = links.iter().filter(|link| link.trouble().is_none()).count();
        if pending == 0 || ready >= count {
            return;
        }
        futures_util::future::select_all(news).await;
    };
    let everyone = links.len();
    let _ = runtime::timeout(CONNECT_PATIENCE, async {
        settled(cluster.settings.quorum.majority()).await;
        let _ = runtime::timeout(STRAGGLER_PATIENCE, settled(everyone)).await;
    })
    .await;
    for link in links {
        let title = link.title.clone();
        match link.contact() {
            Contact::Refused(Trouble::Denied(why)) => return Err(ConnectError::Denied { title, why }),
            Contact::Refused(Trouble::Unfit(why)) => return Err(ConnectError::Unfit { title, why }),
            _ => {}
        }
    }
    Ok(())
}
