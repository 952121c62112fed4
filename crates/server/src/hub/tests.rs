use quorlock::{LockView, MemoryNodes};
use tokio::task::yield_now;

use super::change::Tracked;
use super::lapses::Lapses;
use super::*;
use crate::auth::Identity;
use crate::problem::Problem;

/// A grant at this time.
pub(super) fn event_at(at_ms: u64) -> EventView {
    let (name, mode, reason) = ("a".into(), "exclusive".into(), String::new());
    EventView { at_ms, name, what: "granted", fence: None, by: None, mode, reason }
}

async fn hub(nodes: &MemoryNodes) -> Arc<Hub> {
    let client = Client::builder().memory(nodes).history(true).connect_lazy().await.unwrap();
    Hub::new(client.clone(), client, Counter::default())
}

fn told(hub: &Hub, what: &str) -> Vec<serde_json::Value> {
    let state = hub.state();
    let news = state.kept.iter().filter(|news| news.what == what);
    news.map(|news| serde_json::from_str(&news.data).unwrap()).collect()
}

#[tokio::test]
async fn changes_between_two_reads_are_reported() {
    let hub = hub(&MemoryNodes::new(1)).await;
    hub.read_nodes().await;
    for looks in 1..=2 {
        // More than a snapshot has, and fewer than a client keeps until they are written.
        for _ in 0..HISTORY_SHOWN * 2 {
            hub.client.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        hub.read_nodes().await;
        assert_eq!(told(&hub, "history").len(), HISTORY_SHOWN * 4 * looks);
    }
    assert_eq!((told(&hub, "gap").len(), hub.state().history.len()), (0, HISTORY_SHOWN * 8), "and kept");
}

#[tokio::test]
async fn more_than_the_nodes_keep_is_told_as_a_gap() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let events = |times: std::ops::Range<usize>| times.rev().map(|at| event_at(at as u64)).collect::<Vec<_>>();
    hub.read_nodes().await;
    let mut state = hub.state();
    state.remember(events(0..HISTORY_SHOWN), true);
    state.kept.clear();
    state.remember(events(HISTORY_SHOWN + 1..HISTORY_SHOWN + 1 + HISTORY_MAX), true);
    let first = state.kept.iter().find(|news| news.what == "gap").unwrap();
    assert_eq!(first.data, r#"{"at_ms":201}"#);
    assert_eq!(state.kept.iter().filter(|news| news.what == "history").count(), HISTORY_MAX);
}

#[tokio::test]
async fn a_node_that_restarts_is_remembered_whether_or_not_anybody_follows() {
    let nodes = MemoryNodes::new(3);
    let hub = hub(&nodes).await;
    hub.record_known_health();
    nodes.restart_empty(1);
    let is_seen = || {
        hub.record_known_health();
        told(&hub, "node").iter().any(|outage| outage["what"] == "restarted")
    };
    while !is_seen() {
        tokio::time::sleep(PACE / 100).await;
    }
    assert!(!hub.state().outages.is_empty(), "and those who come later are told as well");
}

fn lapsed(hub: &Hub) -> Vec<serde_json::Value> {
    told(hub, "history").into_iter().filter(|event| event["what"] == "lapsed").collect()
}

/// Somebody has the lock for a moment, and is seen to.
async fn seen_with(hub: &Hub, name: &str) -> quorlock::DetachedLease {
    loop {
        let lock = hub.client.lock(name).ttl(PACE / 2).renewals(quorlock::Renewals::Off);
        let lease = lock.acquire().await.unwrap();
        hub.read_nodes().await;
        // A busy machine may have taken longer than that.
        if hub.state().locks.get(name).is_some_and(|tracked| tracked.lock.held)
            && let Ok(lease) = lease.detach()
        {
            return lease;
        }
    }
}

/// Waits until the lease would be over in any case, and looks until that has been judged.
async fn look_later(hub: &Hub) {
    let begun = Instant::now();
    while begun.elapsed() < PACE {
        tokio::time::sleep(PACE / 100).await;
    }
    for _ in 0..4 {
        hub.read_nodes().await;
    }
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_told_to_have_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let fence = seen_with(&hub, "a").await.fence().unwrap().get();
    look_later(&hub).await;
    let lapses = lapsed(&hub);
    assert_eq!((lapses.len(), &lapses[0]["name"], &lapses[0]["fence"]), (1, &"a".into(), &fence.into()));
    look_later(&hub).await;
    assert_eq!(lapsed(&hub).len(), 1, "and it is told once");
    let everything = snapshot_of(&mut follower(&hub, None).await).await;
    assert_eq!(everything["lapses"], serde_json::json!(lapses), "those who come later are told as well");
}

#[tokio::test]
async fn what_was_released_has_not_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let lease = seen_with(&hub, "a").await;
    hub.client.release(&lease).await.unwrap();
    look_later(&hub).await;
    assert_eq!(lapsed(&hub), [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn what_may_be_held_has_not_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = seen_with(&hub, "a").await;
    let before = hub.state().locks["a"].clone();
    let after = |before: &Tracked, now: Option<LockView>, now_ms: u64| {
        let mut lapses = Lapses::default();
        lapses.is_watching = true;
        lapses.compare(before, now.as_ref(), now_ms);
        (0..4).map(|_| lapses.judge(&[]).len()).sum::<usize>()
    };
    let late = before.at_ms + before.lock.left_ms.unwrap();
    let lock = || before.lock.clone();
    let free = || LockView { held: false, ..lock() };
    assert_eq!(
        (after(&before, None, late), after(&before, Some(free()), late)),
        (1, 1),
        "it is gone when it had to be"
    );
    assert_eq!(after(&before, Some(LockView { fence: Some(u64::MAX), ..lock() }), late), 1, "somebody else has it");
    assert_eq!(after(&before, None, before.at_ms - 1_000), 0, "it is gone before: somebody has released it");
    assert_eq!(after(&before, Some(lock()), late), 0, "it was renewed");
    let mut silent = free();
    silent.nodes[0].trouble = Some("no answer".into());
    assert_eq!(after(&before, Some(silent), late), 0, "whether it is free is not known");
    let mut unwritten = before.clone();
    unwritten.is_written_down = false;
    assert_eq!(after(&unwritten, None, late), 0, "its holder writes no events");
    let mut shared = before.clone();
    shared.lock.mode = Some("shared");
    assert_eq!(after(&shared, None, late), 0, "whose it was is not known");
}

#[tokio::test]
async fn an_end_may_be_written_down_some_looks_later() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = seen_with(&hub, "a").await;
    let before = hub.state().locks["a"].clone();
    // After two looks that knew of nothing, this end is told.
    let after = |differ: fn(&mut EventView)| {
        let mut lapses = Lapses::default();
        lapses.is_watching = true;
        lapses.compare(&before, None, u64::MAX);
        assert_eq!((lapses.judge(&[]), lapses.judge(&[])), (vec![], vec![]), "others may be about to write");
        let mut end = lapses::lapsed(&before.lock, before.at_ms);
        differ(&mut end);
        lapses.judge(&[end]).len()
    };
    assert_eq!(after(|_| {}), 0);
    assert_eq!(after(|end| end.fence = None), 0, "by key, without the fence");
    assert_eq!(after(|end| end.fence = Some(1)), 1, "of another lease");
    assert_eq!(after(|end| end.at_ms = 0), 1, "of long before");
    assert_eq!(after(|end| end.name = "b".into()), 1, "of another lock");
}

#[tokio::test]
async fn what_is_not_seen_has_not_lapsed() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _ = seen_with(&hub, "a").await;
    // Nobody follows for a while.
    hub.record_known_health();
    look_later(&hub).await;
    assert_eq!(lapsed(&hub), [] as [serde_json::Value; 0]);
}

#[test]
fn where_much_happens_nothing_can_be_told_from_what_is_missing() {
    let mut lapses = Lapses::default();
    lapses.is_watching = true;
    lapses.hear(usize::MAX);
    assert_eq!(format!("{lapses:?}"), format!("{:?}", Lapses::default()));
}

/// Keeps the copy fresh until it is aborted.
fn watch(hub: &Arc<Hub>) -> tokio::task::JoinHandle<()> {
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        loop {
            hub.read_when_due().await;
        }
    })
}

async fn follower(hub: &Arc<Hub>, last: Option<Mark>) -> Follower {
    hub.read_nodes().await;
    hub.subscribe(Identity::anonymous([127, 0, 0, 1].into()), last).await
}

/// The next whole event, and how many pieces it came in.
async fn event(follower: &mut Follower) -> (String, usize) {
    let (mut text, mut pieces) = (String::new(), 0);
    while !text.ends_with("\n\n") {
        text.push_str(&follower.next().await.expect("it is not too slow"));
        pieces += 1;
    }
    (text, pieces)
}

async fn snapshot_of(follower: &mut Follower) -> serde_json::Value {
    let (text, _) = event(follower).await;
    let (head, data) = text.split_once("data: ").unwrap();
    assert!(head.contains("event: snapshot\n"), "{head}");
    serde_json::from_str(data).unwrap()
}

/// Locks with long names, held by nobody who renews them.
async fn hold_many(hub: &Hub, count: usize) -> Vec<quorlock::DetachedLease> {
    let mut held = Vec::new();
    for number in 0..count {
        let lock = hub.client.lock(format!("{number}/{}", "n".repeat(500)));
        held.push(lock.acquire().await.unwrap().detach().unwrap());
    }
    held
}

/// Tells more than is kept.
fn tell_much(hub: &Hub) {
    for _ in 0..32 {
        hub.state().tell("node", "x".repeat(1024 * 1024), None);
    }
}

#[tokio::test]
async fn followers_share_one_snapshot_and_read_it_piece_by_piece() {
    const LOCKS: usize = 200;
    let hub = hub(&MemoryNodes::new(1)).await;
    let held = hold_many(&hub, LOCKS).await;
    let mut followers = Vec::new();
    for _ in 0..64 {
        let mut follower = follower(&hub, None).await;
        let first = follower.next().await.expect("the first piece");
        followers.push((follower, first));
        // The lock changes, and is told again, while others read the snapshot.
        hub.client.extend(&held[0]).await.unwrap();
    }
    let snapshots: std::collections::HashSet<_> =
        followers.iter().map(|(follower, _)| follower.reading.as_ref().unwrap().snapshot.as_ptr()).collect();
    assert_eq!(snapshots.len(), 1, "however many read it");
    // In the copy, in the list of kept events, and in the snapshot.
    let is_shared = |tracked: &Tracked| Arc::strong_count(&tracked.told) == 3;
    assert!(hub.state().locks.values().skip(1).all(is_shared), "its text is in memory once");
    for (mut follower, mut text) in followers {
        let mut longest = text.len();
        while !text.ends_with("\n\n") {
            let piece = follower.next().await.unwrap();
            longest = longest.max(piece.len());
            text.push_str(&piece);
        }
        assert!(longest < 2 * snapshot::PIECE_BYTES, "{longest} bytes at once");
        assert_eq!(text.matches("\"name\":").count() / 2, LOCKS, "each lock, and its grant in the history");
    }
    hub.read_nodes().await;
    assert!(hub.state().snapshot.is_none(), "nobody reads it");
}

#[tokio::test]
async fn a_follower_that_is_too_slow_for_its_snapshot_keeps_none_alive() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let _held = hold_many(&hub, 100).await;
    let mut slow = follower(&hub, None).await;
    slow.next().await.expect("the first piece");
    tell_much(&hub);
    assert!(slow.next().await.is_some(), "nobody needs another");
    snapshot_of(&mut follower(&hub, None).await).await;
    assert!(slow.next().await.is_none(), "the events after its own are gone: it has to begin again");
}

#[tokio::test]
async fn a_follower_that_is_far_behind_begins_again() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let mut slow = follower(&hub, None).await;
    snapshot_of(&mut slow).await;
    tell_much(&hub);
    snapshot_of(&mut slow).await;
}

#[tokio::test]
async fn one_read_of_the_nodes_answers_everyone() {
    let nodes = MemoryNodes::new(1);
    let hub = hub(&nodes).await;
    let _held = hold_many(&hub, 3).await;
    let watching = watch(&hub);
    let caller = Identity::anonymous([127, 0, 0, 1].into());
    let before = hub.reads.get();
    let begun = Instant::now();
    let asked = (0..100).map(async |_| {
        for _ in 0..10 {
            hub.history(&caller, Some("a"), 100).await.unwrap();
            let page = hub.list(&caller, ("", ""), 1, || panic!("the copy has all")).await.unwrap();
            assert_eq!((page.locks.len(), page.next.is_some()), (1, true));
            yield_now().await;
        }
    });
    futures_util::future::join_all(asked).await;
    let most = 2 + begun.elapsed().as_secs();
    assert!(hub.reads.get() - before <= most, "{} reads in {:?}", hub.reads.get() - before, begun.elapsed());
    watching.abort();
}

#[tokio::test]
async fn a_name_is_read_fresh_or_from_a_copy() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let watching = watch(&hub);
    let refused = || Err(Problem::invalid("not now"));
    let (_, free) = hub.one("a", || Ok(())).await.unwrap();
    let lease = hub.client.lock("a").acquire().await.unwrap();
    let reads = hub.reads.get();
    // A busy machine may have taken longer than the copy lasts.
    if let Ok((_, lock)) = hub.one("a", refused).await
        && hub.reads.get() == reads
    {
        assert_eq!(lock, free, "as it was a moment ago");
    }
    assert!(hub.one("a", || Ok(())).await.unwrap().1.held, "as it is");
    assert!(hub.one("b", refused).await.is_err(), "a name that no copy has may be free, or not be listed");
    drop(lease);
    watching.abort();
}

#[tokio::test]
async fn histories_go_further_back_than_one_read() {
    let hub = hub(&MemoryNodes::new(1)).await;
    for _ in 0..3 {
        for _ in 0..HISTORY_SHOWN / 4 {
            hub.client.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        hub.read_nodes().await;
    }
    let state = hub.state();
    assert_eq!(state.history.len(), HISTORY_SHOWN / 2 * 3);
    assert!(state.history.is_sorted_by(|newer, older| newer.at_ms >= older.at_ms));
    let distinct: std::collections::BTreeSet<_> = state.history.iter().collect();
    assert_eq!(distinct.len(), state.history.len(), "each once");
}
