//! The history: the events that the nodes record.

use std::time::Duration;

use quorlock::{Break, Client, DetachedLease, Event, LeaseError, Released, Target, What};
use quorlock_testkit::eventually_async;

use crate::conformance::backend::{Backend, wait_for_all_nodes};

/// The timeout for closing a client: long enough to write all events.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

async fn client_with_history(backend: &Backend) -> Client {
    backend.builder().history(true).label("the client with a history").connect().await.unwrap()
}

/// The events of a name, oldest first.
async fn events_of(client: &Client, name: &str) -> Vec<Event> {
    let mut events = client.history(1_000).await.unwrap();
    assert!(events.is_sorted_by(|event, next| event.at_micros >= next.at_micros), "not newest first: {events:?}");
    events.retain(|event| event.name.as_str() == name);
    events.reverse();
    events
}

fn event_kinds(events: &[Event]) -> Vec<What> {
    events.iter().map(|event| event.what).collect()
}

pub(crate) async fn grants_and_releases_are_recorded_once(backend: &Backend) {
    let client = client_with_history(backend).await;
    let lease = client.lock("x").acquire().await.unwrap();
    let (fence, id) = (lease.fence().unwrap(), lease.id().reveal());
    lease.release().await.unwrap();
    client.rw("x").read().acquire().await.unwrap().release().await.unwrap();
    client.lock("x").plain().acquire().await.unwrap().release().await.unwrap();
    // The client that wrote the events sees them at once.
    let events = events_of(&client, "x").await;
    let grant_and_release = [What::Granted, What::Released];
    assert_eq!(event_kinds(&events), [grant_and_release, grant_and_release, grant_and_release].concat());
    let modes: Vec<&str> = events.iter().map(|event| event.mode.as_str()).collect();
    assert_eq!(modes, ["exclusive", "exclusive", "shared", "shared", "plain", "plain"]);
    assert_eq!((events[0].fence, events[1].fence, events[5].fence), (Some(fence), Some(fence), None));
    assert_eq!(events[0].holder.as_ref().unwrap().label, "the client with a history");
    assert!(!format!("{events:?}").contains(&id), "the events show the lease id, which is a secret");
    // Other clients see the events before the writer is closed.
    let other_client = backend.client().await;
    eventually_async("the other client to see the events", async || events_of(&other_client, "x").await == events)
        .await;
}

pub(crate) async fn a_closed_client_has_written_all_events(backend: &Backend) {
    let client = client_with_history(backend).await;
    let lease = client.lock("x").acquire().await.unwrap();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    drop(lease);
    let other_client = backend.client().await;
    let events = events_of(&other_client, "x").await;
    assert_eq!(event_kinds(&events), [What::Granted, What::Released]);
    assert!(events[1].reason.contains("client was closed"), "{events:?}");
}

pub(crate) async fn without_history_only_breaks_are_recorded(backend: &Backend) {
    let client = backend.client().await;
    let operator = backend.builder().label("the operator").connect().await.unwrap();
    let lease = client.lock("x").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    wait_for_all_nodes(&operator, "x", "held", |report| report.held.is_some()).await;
    operator.break_lock("x", Break::new(Target::Fence(fence), "its host\nis on fire").now()).await.unwrap();
    operator.close(CLOSE_TIMEOUT).await.unwrap();
    lease.lost().await;
    let events = events_of(&client, "x").await;
    assert_eq!(event_kinds(&events), [What::Broken]);
    assert_eq!((events[0].fence, events[0].mode.as_str()), (Some(fence), "now"));
    assert_eq!(
        (events[0].holder.as_ref().unwrap().label.as_str(), &*events[0].reason),
        ("the operator", "its host is on fire")
    );
}

pub(crate) async fn a_loss_is_recorded_with_its_reason(backend: &Backend) {
    let client = client_with_history(backend).await;
    let lease = client.lock("x").acquire().await.unwrap();
    let target = Target::Fence(lease.fence().unwrap());
    wait_for_all_nodes(&client, "x", "held", |report| report.held.is_some()).await;
    client.break_lock("x", Break::new(target, "a test")).await.unwrap();
    lease.lost().await;
    let mut events = events_of(&client, "x").await;
    events.sort_by_key(|event| event.what == What::Broken);
    assert_eq!(event_kinds(&events), [What::Granted, What::Lost, What::Broken]);
    assert!(events[1].reason.contains("it was broken"), "{events:?}");
    assert_eq!(client.history(1).await.unwrap().len(), 1);
    assert_eq!(client.history(0).await.unwrap(), []);
}

/// Extends the lease. Returns whether the extension fails because the lease is lost.
async fn is_lost(client: &Client, lease: &DetachedLease) -> bool {
    matches!(client.extend(lease).await, Err(LeaseError::Lost(_)))
}

pub(crate) async fn an_expired_detached_lease_is_recorded_as_lost_once(backend: &Backend) {
    let client = client_with_history(backend).await;
    let lock = client.lock("x").ttl(Duration::from_millis(200));
    let lease = lock.acquire().await.unwrap().detach().unwrap();
    wait_for_all_nodes(&client, "x", "free", |report| report.held.is_none()).await;
    // Only the first extension that finds the lease expired records the loss.
    for _ in 0..3 {
        eventually_async("the lease to be lost", async || is_lost(&client, &lease).await).await;
    }
    let events = events_of(&client, "x").await;
    assert_eq!(event_kinds(&events), [What::Granted, What::Lost]);
    assert_eq!((events[1].fence, events[1].mode.as_str()), (lease.fence(), "exclusive"));
    assert_eq!(events[1].holder.as_ref().unwrap().label, "the client with a history");
    assert!(!events[1].reason.is_empty(), "{events:?}");
}

pub(crate) async fn a_released_lease_is_not_recorded_as_lost(backend: &Backend) {
    let (client, other_client) = (client_with_history(backend).await, client_with_history(backend).await);
    let lease = client.lock("x").acquire().await.unwrap().detach().unwrap();
    wait_for_all_nodes(&client, "x", "held", |report| report.held.is_some()).await;
    assert_eq!(client.release(&lease).await, Ok(Released::StillHeld));
    wait_for_all_nodes(&client, "x", "free", |report| report.held.is_none()).await;
    assert!(is_lost(&client, &lease).await && is_lost(&other_client, &lease).await);
    other_client.close(CLOSE_TIMEOUT).await.unwrap();
    assert_eq!(event_kinds(&events_of(&client, "x").await), [What::Granted, What::Released]);
}

pub(crate) async fn the_retirement_of_an_owner_is_recorded(backend: &Backend) {
    let client = client_with_history(backend).await;
    for (name, retires_by_lease, is_shared) in [("a", true, false), ("b", false, false), ("c", true, true)] {
        let owner = client.new_owner();
        let lease = if is_shared {
            client.rw(name).owned_by(owner).read().acquire().await
        } else {
            client.reentrant(name).owned_by(owner).acquire().await
        };
        let lease = lease.unwrap().detach().unwrap();
        wait_for_all_nodes(&client, name, "held", |report| report.held.is_some()).await;
        let released = if retires_by_lease {
            client.retire_owner_of(&lease, CLOSE_TIMEOUT).await
        } else {
            client.retire(name, owner, CLOSE_TIMEOUT).await
        };
        assert_eq!(released, Ok(Released::StillHeld));
        let events = events_of(&client, name).await;
        assert_eq!(event_kinds(&events), [What::Granted, What::Released]);
        let recorded_lease = |event: &Event| (event.fence, event.holder.clone(), event.mode.clone());
        assert_eq!(recorded_lease(&events[0]), recorded_lease(&events[1]), "{events:?}");
        assert_eq!(events[0].fence, lease.fence());
    }
}
