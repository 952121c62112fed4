//! Elections: there is one leader at a time.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use quorlock::{AcquireError, Leader, LostError};

use crate::conformance::backend::{
    Backend, LONG, SHORT, assert_held, assert_waiters, enqueue, take_over, wait_for_holders,
};

pub(crate) async fn the_next_candidate_leads_when_the_leader_steps_down(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let first_leadership = our_client.election("a").acquire().await.unwrap();
    let candidate = their_client.election("a");
    let campaign = enqueue(&our_client, "a", 1, async move { candidate.acquire().await }).await;
    assert!(first_leadership.ensure(Duration::ZERO).is_ok() && !campaign.is_finished());
    assert!(first_leadership.lost().now_or_never().is_none());
    let first_term = first_leadership.fence().unwrap();
    first_leadership.release().await.unwrap();
    let second_leadership = campaign.await.unwrap();
    assert!(second_leadership.ensure(Duration::ZERO).is_ok() && second_leadership.fence().unwrap() > first_term);
    drop(second_leadership);
    assert!(our_client.election("a").acquire().await.unwrap().ensure(Duration::ZERO).is_ok());
}

pub(crate) async fn the_leader_is_known_by_its_label(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    assert_eq!(their_client.election("a").leader().await.unwrap(), None);
    let leadership = our_client.election("a").label("label of the holder").acquire().await.unwrap();
    let leader = their_client.election("a").leader().await.unwrap().unwrap();
    assert_eq!(leader.holder.unwrap().label, "label of the holder");
    assert_eq!(leader.term, leadership.fence().unwrap());
    match their_client.election("a").acquire_within(SHORT).await {
        Err(AcquireError::WaitTimeout(error)) => assert_eq!(error.holder.unwrap().label, "label of the holder"),
        other => panic!("there is no leader: {other:?}"),
    }
    leadership.release().await.unwrap();
    wait_for_holders(&our_client, "a", 0).await;
    assert_eq!(their_client.election("a").leader().await.unwrap(), None);
}

pub(crate) async fn a_follower_learns_of_every_leader(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    // The stream reads the nodes three times in a ttl.
    let mut changes = pin!(their_client.election("a").ttl(SHORT).leader_changes());
    assert_eq!(changes.next().await, Some(None));
    let mut last_term = None;
    for label in ["first", "second"] {
        let leadership = our_client.election("a").label(label).acquire().await.unwrap();
        let Leader { holder, term, .. } = changes.next().await.unwrap().expect("there is a leader");
        assert_eq!((holder.unwrap().label.as_str(), Ok(term)), (label, leadership.fence()));
        assert!(last_term.replace(term) < Some(term));
        leadership.release().await.unwrap();
        assert_eq!(changes.next().await, Some(None));
    }
    their_client.close(LONG).await.unwrap();
    assert_eq!(changes.next().await, None, "the stream did not end when its client was closed");
}

pub(crate) async fn a_leader_whose_client_is_closed_stops_leading(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let leadership = our_client.election("a").acquire().await.unwrap();
    our_client.close(LONG).await.unwrap();
    assert_eq!(leadership.lost().await, LostError::Closed);
    assert!(leadership.ensure(Duration::ZERO).is_err());
    leadership.fence().unwrap_err();
    assert!(their_client.election("a").acquire().await.unwrap().ensure(Duration::ZERO).is_ok());
}

pub(crate) async fn a_cancelled_candidacy_leaves_the_queue(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let leadership = our_client.election("a").acquire().await.unwrap();
    let candidate = their_client.election("a");
    let campaign = enqueue(&our_client, "a", 1, async move { candidate.acquire().await }).await;
    campaign.abort();
    assert!(campaign.await.unwrap_err().is_cancelled());
    assert_waiters(&their_client, "a", 0).await;
    assert!(matches!(their_client.election("a").acquire_within(Duration::ZERO).await, Err(AcquireError::Held(_))));
    assert_held(&their_client, "a").await;
    leadership.release().await.unwrap();
    take_over(&their_client, "a").await.release().await.unwrap();
}
