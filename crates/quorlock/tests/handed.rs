//! Leases without a guard, on real servers: what a majority says counts, and nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::long::{DRAINING, Wired, connected};
use quorlock::{CheckError, Client, ExtendError, HandedLease, LostError, ReleaseError, Released};
use quorlock_testkit::Reply;

const KEY: &str = "quorlock:a";

async fn handed(client: &Client) -> HandedLease {
    client.lock("a").acquire().await.unwrap().hand_over().unwrap()
}

/// A client that does not wait long for nodes that do not answer.
async fn brisk(cluster: &Wired) -> Client {
    connected(cluster.direct().node_deadline(Duration::from_millis(500))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_is_away_does_not_matter_and_is_told_later() {
    let cluster = Wired::ready(3).await;
    let client = brisk(&cluster).await;
    let lease = handed(&client).await;
    cluster.stands_on(KEY, &[0, 1, 2]).await;
    cluster.servers[2].freeze();
    client.check(&lease).await.unwrap();
    client.extend(&lease).await.unwrap();
    assert_eq!(client.release(&lease).await, Ok(Released::Standing));
    cluster.servers[2].thaw();
    client.close(DRAINING).await.unwrap();
    cluster.stands_on(KEY, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_known_and_the_release_stays_owed() {
    let cluster = Wired::ready(3).await;
    let client = brisk(&cluster).await;
    let lease = handed(&client).await;
    cluster.stands_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.freeze();
    }
    assert!(matches!(client.check(&lease).await, Err(CheckError::NoQuorum { tally }) if tally.granted() == 1));
    assert!(matches!(client.extend(&lease).await, Err(ExtendError::NoQuorum { tally }) if tally.granted() == 1));
    assert!(matches!(client.release(&lease).await, Err(ReleaseError::NoQuorum { tally }) if tally.granted() == 1));
    for server in &cluster.servers[..2] {
        server.thaw();
    }
    client.close(DRAINING).await.unwrap();
    cluster.stands_on(KEY, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_that_is_gone_is_not_given_again() {
    let cluster = Wired::ready(3).await;
    let client = brisk(&cluster).await;
    let lease = handed(&client).await;
    cluster.stands_on(KEY, &[0, 1, 2]).await;
    cluster.servers[0].command(&["DEL", KEY]);
    client.extend(&lease).await.unwrap();
    client.check(&lease).await.unwrap();
    cluster.stands_on(KEY, &[1, 2]).await;
    cluster.servers[1].command(&["DEL", KEY]);
    assert_eq!(client.check(&lease).await, Err(CheckError::Lost(LostError::Taken)));
    assert_eq!(client.extend(&lease).await, Err(ExtendError::Lost(LostError::Taken)));
    cluster.stands_on(KEY, &[2]).await;
    assert_eq!(client.release(&lease).await, Ok(Released::Gone));
    cluster.stands_on(KEY, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_have_under_way_for_a_released_lease_is_refused() {
    let cluster = Wired::ready(3).await;
    let client = brisk(&cluster).await;
    let lease = handed(&client).await;
    cluster.stands_on(KEY, &[0, 1, 2]).await;
    client.release(&lease).await.unwrap();
    client.close(DRAINING).await.unwrap();
    let tombstone = format!("quorlock~done:{}", lease.id().reveal());
    for server in &cluster.servers {
        assert_eq!(server.command(&["EXISTS", &tombstone]), Reply::Int(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_longer_ttl_than_these_nodes_allow_is_refused() {
    let cluster = Wired::ready(1).await;
    let lease = handed(&connected(cluster.direct()).await).await;
    let other = Client::memory().await;
    assert!(matches!(other.check(&lease).await, Err(CheckError::Config(_))));
    assert!(matches!(other.extend(&lease).await, Err(ExtendError::Config(_))));
    assert!(matches!(other.release(&lease).await, Err(ReleaseError::Config(_))));
}
