use quorlock_core::request::Request;

use super::*;
use crate::link::Sender;
use crate::{Client, MemoryNodes};

#[tokio::test]
async fn a_lease_that_never_waited_is_detached_without_a_request() {
    let client = Client::builder().memory(&MemoryNodes::new(1)).connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    assert_eq!(client.stats().requests, 1);
    let _detached = lease.detach().unwrap();
    assert_eq!(client.stats().requests, 1);
}

#[tokio::test]
async fn a_request_that_is_lost_after_the_end_of_the_repair_is_not_remembered() {
    let client = Client::builder().memory(&MemoryNodes::new(1)).connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let claim = Arc::clone(&lease.claim);
    let detached = lease.detach().unwrap();
    let link = &claim.cluster.links[0];
    // The link's task replaces the connection before the node's task can answer the request below.
    link.reconnect();
    let request = claim.hold(|hold| Request::Renew {
        attempt: detached.id,
        fence: hold.fence().unwrap(),
        ttl: detached.ttl,
        repair: true,
        holder: detached.holder.clone(),
        mode: detached.mode,
    });
    let sender = Sender { key: Arc::clone(&claim.key), voter: Some(Arc::clone(&claim) as _) };
    link.ask(&Arc::new(request), 0, sender).unwrap();
    link.flush_now();
    assert_eq!((client.stats().requests, client.stats().replies), (2, 1));
    loop {
        let news = link.news.notified();
        if link.trouble().is_none() {
            break;
        }
        news.await;
    }
    assert_eq!((client.stats().requests, client.stats().replies), (2, 1), "the request must not be answered");
    assert_eq!(link.strays(), 0);
}
