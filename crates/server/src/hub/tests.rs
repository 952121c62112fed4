use quorlock::{LockView, MemoryNodes};
use tokio::task::yield_now;

use super::change::TrackedLock;
use super::lapses::Lapses;
use super::*;
use crate::auth::Identity;
use crate::problem::Problem;

/// Returns the event of a grant at this time.
pub(super) fn event_at(at_ms: u64) -> EventView {
    let (name, mode, reason) = ("a".into(), "exclusive".into(), String::new());
    EventView { at_ms, name, what: "granted", fence: None, by: None, mode, reason }
}

async fn hub(nodes: &MemoryNodes) -> Arc<Hub> {
    let client = Client::builder().memory(nodes).history(true).connect_lazy().await.unwrap();
    Hub::new(client.clone(), client, Counter::default())
}

/// Returns the data of all kept stream events of this kind.
fn stream_events(hub: &Hub, kind: &str) -> Vec<serde_json::Value> {
    let state = hub.state();
    let events = state.events.iter().filter(|event| event.kind == kind);
    events.map(|event| serde_json::from_str(&event.data).unwrap()).collect()
}

#[tokio::test]
async fn all_events_between_two_reads_are_published() {
    let hub = hub(&MemoryNodes::new(1)).await;
    hub.read_nodes().await;
    for reads in 1..=2 {
        // More events than a snapshot has, and fewer than a client can buffer until they are written.
        for _ in 0..SNAPSHOT_EVENTS * 2 {
            hub.client.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        hub.read_nodes().await;
        assert_eq!(stream_events(&hub, "history").len(), SNAPSHOT_EVENTS * 4 * reads);
    }
    assert_eq!(
        (stream_events(&hub, "gap").len(), hub.state().history.len()),
        (0, SNAPSHOT_EVENTS * 8),
        "gaps, and events in the copy"
    );
}

#[tokio::test]
async fn a_gap_is_published_if_there_are_more_events_than_the_nodes_keep() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let events = |times: std::ops::Range<usize>| times.rev().map(|at| event_at(at as u64)).collect::<Vec<_>>();
    hub.read_nodes().await;
    let mut state = hub.state();
    state.update_history(events(0..SNAPSHOT_EVENTS), true);
    state.events.clear();
    state.update_history(events(SNAPSHOT_EVENTS + 1..SNAPSHOT_EVENTS + 1 + HISTORY_MAX), true);
    let gap = state.events.iter().find(|event| event.kind == "gap").unwrap();
    assert_eq!(gap.data, r#"{"at_ms":201}"#);
    assert_eq!(state.events.iter().filter(|event| event.kind == "history").count(), HISTORY_MAX);
}

#[tokio::test]
async fn a_restart_of_a_node_is_published_although_nobody_follows_the_stream() {
    let nodes = MemoryNodes::new(3);
    let hub = hub(&nodes).await;
    hub.record_known_health();
    nodes.restart_empty(1);
    let is_published = || {
        hub.record_known_health();
        stream_events(&hub, "node").iter().any(|outage| outage["what"] == "restarted")
    };
    while !is_published() {
        tokio::time::sleep(FRESH_FOR / 100).await;
    }
    assert!(!hub.state().outages.is_empty(), "later snapshots must have the restart");
}

fn lapsed_events(hub: &Hub) -> Vec<serde_json::Value> {
    stream_events(hub, "history").into_iter().filter(|event| event["what"] == "lapsed").collect()
}

/// Acquires a lock with a short ttl and without renewals, and reads the nodes while the lease holds.
async fn acquire_and_read(hub: &Hub, name: &str) -> quorlock::DetachedLease {
    loop {
        let lock = hub.client.lock(name).ttl(FRESH_FOR / 2).renewals(quorlock::Renewals::Off);
        let lease = lock.acquire().await.unwrap();
        hub.read_nodes().await;
        // On a busy machine the lease may have expired before the read.
        if hub.state().locks.get(name).is_some_and(|tracked| tracked.lock.held)
            && let Ok(lease) = lease.detach()
        {
            return lease;
        }
    }
}

/// Waits until the lease of `acquire_and_read` has expired, and reads the nodes often enough to confirm a lapse.
async fn read_after_expiry(hub: &Hub) {
    let begun = Instant::now();
    while begun.elapsed() < FRESH_FOR {
        tokio::time::sleep(FRESH_FOR / 100).await;
    }
    for _ in 0..4 {
        hub.read_nodes().await;
    }
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_published_as_lapsed_once() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let fence = acquire_and_read(&hub, "a").await.fence().unwrap().get();
    read_after_expiry(&hub).await;
    let lapses = lapsed_events(&hub);
    assert_eq!((lapses.len(), &lapses[0]["name"], &lapses[0]["fence"]), (1, &"a".into(), &fence.into()));
    read_after_expiry(&hub).await;
    assert_eq!(lapsed_events(&hub).len(), 1, "a lapse must be published only once");
    let snapshot = snapshot_of(&mut follower(&hub, None).await).await;
    assert_eq!(snapshot["lapses"], serde_json::json!(lapses), "a later snapshot must have the lapse");
}

#[tokio::test]
async fn a_released_lease_is_not_published_as_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let lease = acquire_and_read(&hub, "a").await;
    hub.client.release(&lease).await.unwrap();
    read_after_expiry(&hub).await;
    assert_eq!(lapsed_events(&hub), [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn a_lease_that_may_still_be_held_has_not_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = acquire_and_read(&hub, "a").await;
    let before = hub.state().locks["a"].clone();
    let count_lapses = |before: &TrackedLock, now: Option<LockView>, now_ms: u64| {
        let mut lapses = Lapses::default();
        lapses.has_full_view = true;
        lapses.check(before, now.as_ref(), now_ms);
        (0..4).map(|_| lapses.confirm(&[]).len()).sum::<usize>()
    };
    let expiry_ms = before.at_ms + before.lock.left_ms.unwrap();
    let lock = || before.lock.clone();
    let free = || LockView { held: false, ..lock() };
    let with_another_lease = || LockView { fence: Some(u64::MAX), ..lock() };
    assert_eq!(count_lapses(&before, None, expiry_ms), 1, "the lock is not listed after the expiry");
    assert_eq!(count_lapses(&before, Some(free()), expiry_ms), 1, "the lock is free after the expiry");
    let lapses = count_lapses(&before, Some(with_another_lease()), expiry_ms);
    assert_eq!(lapses, 1, "the lock has another lease after the expiry");
    assert_eq!(count_lapses(&before, None, before.at_ms - 1_000), 0, "the lock is free before the expiry");
    assert_eq!(count_lapses(&before, Some(lock()), expiry_ms), 0, "the lease was renewed");
    let mut silent = free();
    silent.nodes[0].trouble = Some("no answer".into());
    assert_eq!(count_lapses(&before, Some(silent), expiry_ms), 0, "a silent node may have a vote for the lease");
    let mut unrecorded = before.clone();
    unrecorded.has_recorded_grant = false;
    assert_eq!(count_lapses(&unrecorded, None, expiry_ms), 0, "the holder records no events");
    let mut shared = before.clone();
    shared.lock.mode = Some("shared");
    assert_eq!(count_lapses(&shared, None, expiry_ms), 0, "it is unknown which of the shared leases is gone");
}

#[tokio::test]
async fn an_end_that_is_recorded_two_reads_later_prevents_a_lapse() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = acquire_and_read(&hub, "a").await;
    let before = hub.state().locks["a"].clone();
    // Counts the lapses if an end, changed by `change`, is in the history only from the third read on.
    let count_lapses = |change: fn(&mut EventView)| {
        let mut lapses = Lapses::default();
        lapses.has_full_view = true;
        lapses.check(&before, None, u64::MAX);
        assert_eq!(
            (lapses.confirm(&[]), lapses.confirm(&[])),
            (vec![], vec![]),
            "another replica may still record the end"
        );
        let mut end = lapses::lapse_event(&before.lock, before.at_ms);
        change(&mut end);
        lapses.confirm(&[end]).len()
    };
    assert_eq!(count_lapses(|_| {}), 0);
    assert_eq!(count_lapses(|end| end.fence = None), 0, "a release by key has no fence");
    assert_eq!(count_lapses(|end| end.fence = Some(1)), 1, "the end of another lease");
    assert_eq!(count_lapses(|end| end.at_ms = 0), 1, "an end from long before the lease");
    assert_eq!(count_lapses(|end| end.name = "b".into()), 1, "the end of a lease of another lock");
}

#[tokio::test]
async fn a_lease_that_ends_while_nobody_follows_the_stream_is_not_published_as_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = acquire_and_read(&hub, "a").await;
    // The hub only records the known health while nobody follows the stream.
    hub.record_known_health();
    read_after_expiry(&hub).await;
    assert_eq!(lapsed_events(&hub), [] as [serde_json::Value; 0]);
}

#[test]
fn too_many_new_events_end_the_full_view() {
    let mut lapses = Lapses::default();
    lapses.has_full_view = true;
    lapses.check_new_event_count(usize::MAX);
    assert_eq!(format!("{lapses:?}"), format!("{:?}", Lapses::default()));
}

/// Keeps the copy fresh until it is aborted.
fn keep_fresh(hub: &Arc<Hub>) -> tokio::task::JoinHandle<()> {
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        loop {
            hub.read_when_due().await;
        }
    })
}

async fn follower(hub: &Arc<Hub>, last: Option<EventId>) -> Follower {
    hub.read_nodes().await;
    hub.subscribe(Identity::anonymous([127, 0, 0, 1].into()), last).await
}

/// Reads the snapshot, with which the stream must begin.
async fn snapshot_of(follower: &mut Follower) -> serde_json::Value {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        text.push_str(&follower.next().await.expect("the follower was too slow"));
    }
    let (head, data) = text.split_once("data: ").unwrap();
    assert!(head.contains("event: snapshot\n"), "{head}");
    serde_json::from_str(data).unwrap()
}

/// Acquires locks with long names. Nobody renews their leases.
async fn acquire_many(hub: &Hub, count: usize) -> Vec<quorlock::DetachedLease> {
    let mut leases = Vec::new();
    for number in 0..count {
        let lock = hub.client.lock(format!("{number}/{}", "n".repeat(500)));
        leases.push(lock.acquire().await.unwrap().detach().unwrap());
    }
    leases
}

fn publish_more_than_the_hub_keeps(hub: &Hub) {
    for _ in 0..32 {
        hub.state().publish("node", "x".repeat(1024 * 1024), None);
    }
}

#[tokio::test]
async fn followers_share_one_snapshot_and_read_it_piece_by_piece() {
    const LOCKS: usize = 200;
    let hub = hub(&MemoryNodes::new(1)).await;
    let leases = acquire_many(&hub, LOCKS).await;
    let mut followers = Vec::new();
    for _ in 0..64 {
        let mut follower = follower(&hub, None).await;
        let first = follower.next().await.expect("the first piece");
        followers.push((follower, first));
        // The first lock changes, and is published again, while followers read the snapshot.
        hub.client.extend(&leases[0]).await.unwrap();
    }
    let snapshots: std::collections::HashSet<_> =
        followers.iter().map(|(follower, _)| follower.snapshot.as_ref().unwrap().snapshot.as_ptr()).collect();
    assert_eq!(snapshots.len(), 1, "all followers must share one snapshot");
    // The copy, the list of kept events and the snapshot refer to the same event.
    let is_shared = |tracked: &TrackedLock| Arc::strong_count(&tracked.event) == 3;
    assert!(hub.state().locks.values().skip(1).all(is_shared), "the event of a lock must be in memory only once");
    for (mut follower, mut text) in followers {
        let mut longest = text.len();
        while !text.ends_with("\n\n") {
            let piece = follower.next().await.unwrap();
            longest = longest.max(piece.len());
            text.push_str(&piece);
        }
        assert!(longest < 2 * snapshot::PIECE_BYTES, "a piece of {longest} bytes");
        assert_eq!(
            text.matches("\"name\":").count() / 2,
            LOCKS,
            "the snapshot must have each lock, and the grant of each lock"
        );
    }
    hub.read_nodes().await;
    assert!(hub.state().snapshot.is_none(), "a snapshot without a reader must be freed");
}

#[tokio::test]
async fn a_follower_that_is_too_slow_for_its_snapshot_does_not_keep_the_snapshot_alive() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _leases = acquire_many(&hub, 100).await;
    let mut slow = follower(&hub, None).await;
    slow.next().await.expect("the first piece");
    publish_more_than_the_hub_keeps(&hub);
    assert!(slow.next().await.is_some(), "no other follower needs a new snapshot yet");
    snapshot_of(&mut follower(&hub, None).await).await;
    assert!(slow.next().await.is_none(), "the snapshot was replaced: the slow follower must subscribe again");
}

#[tokio::test]
async fn a_follower_whose_next_event_is_no_longer_kept_gets_a_new_snapshot() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let mut slow = follower(&hub, None).await;
    snapshot_of(&mut slow).await;
    publish_more_than_the_hub_keeps(&hub);
    snapshot_of(&mut slow).await;
}

#[tokio::test]
async fn all_requests_are_answered_from_one_read_of_the_nodes_per_second() {
    let nodes = MemoryNodes::new(1);
    let hub = hub(&nodes).await;
    let _leases = acquire_many(&hub, 3).await;
    let reading = keep_fresh(&hub);
    let caller = Identity::anonymous([127, 0, 0, 1].into());
    let before = hub.reads_metric.get();
    let begun = Instant::now();
    let requests = (0..100).map(async |_| {
        for _ in 0..10 {
            hub.history(&caller, Some("a"), 100).await.unwrap();
            let page = hub.list(&caller, ("", ""), 1, || panic!("the copy has all locks")).await.unwrap();
            assert_eq!((page.locks.len(), page.next.is_some()), (1, true));
            yield_now().await;
        }
    });
    futures_util::future::join_all(requests).await;
    let reads_max = 2 + begun.elapsed().as_secs();
    assert!(
        hub.reads_metric.get() - before <= reads_max,
        "{} reads in {:?}",
        hub.reads_metric.get() - before,
        begun.elapsed()
    );
    reading.abort();
}

#[tokio::test]
async fn a_lock_is_inspected_on_the_nodes_if_permitted_and_else_in_a_copy() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let reading = keep_fresh(&hub);
    let refuse_read = || Err(Problem::invalid("not now"));
    let (_, free) = hub.inspect("a", || Ok(())).await.unwrap();
    let lease = hub.client.lock("a").acquire().await.unwrap();
    let reads = hub.reads_metric.get();
    // On a busy machine the copy may have expired.
    if let Ok((_, lock)) = hub.inspect("a", refuse_read).await
        && hub.reads_metric.get() == reads
    {
        assert_eq!(lock, free, "the copy must not have the new lease");
    }
    assert!(hub.inspect("a", || Ok(())).await.unwrap().1.held, "a read of the nodes must find the new lease");
    assert!(hub.inspect("b", refuse_read).await.is_err(), "no copy has the lock \"b\"");
    drop(lease);
    reading.abort();
}

#[tokio::test]
async fn the_copy_keeps_older_events_than_the_last_read_returned() {
    let hub = hub(&MemoryNodes::new(1)).await;
    for _ in 0..3 {
        for _ in 0..SNAPSHOT_EVENTS / 4 {
            hub.client.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        hub.read_nodes().await;
    }
    let state = hub.state();
    assert_eq!(state.history.len(), SNAPSHOT_EVENTS / 2 * 3);
    assert!(state.history.is_sorted_by(|newer, older| newer.at_ms >= older.at_ms));
    let distinct: std::collections::BTreeSet<_> = state.history.iter().collect();
    assert_eq!(distinct.len(), state.history.len(), "the copy must have each event once");
}
