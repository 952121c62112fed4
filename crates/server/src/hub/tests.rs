use quorlock::MemoryNodes;

use super::*;

async fn hub(nodes: &MemoryNodes) -> Arc<Hub> {
    let client = Client::builder().memory(nodes).history(true).connect().await.unwrap();
    Hub::new(client, watch::channel(false).1)
}

fn told(hub: &Hub, what: &str) -> Vec<serde_json::Value> {
    let state = hub.state();
    let news = state.kept.iter().filter(|news| news.what == what);
    news.map(|news| serde_json::from_str(&news.data).unwrap()).collect()
}

#[tokio::test]
async fn whatever_happens_between_two_looks_is_told() {
    let hub = hub(&MemoryNodes::new(1)).await;
    hub.look(Instant::now()).await;
    for looks in 1..=2 {
        // More than a snapshot has, and fewer than a client keeps until they are written.
        for _ in 0..HISTORY_SHOWN * 2 {
            hub.client.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        hub.look(Instant::now()).await;
        assert_eq!(told(&hub, "history").len(), HISTORY_SHOWN * 4 * looks);
    }
    assert_eq!((told(&hub, "gap").len(), hub.state().history.len()), (0, HISTORY_SHOWN));
}

#[tokio::test]
async fn more_than_the_nodes_keep_is_told_as_a_gap() {
    let hub = hub(&MemoryNodes::new(1)).await;
    let events = |times: std::ops::Range<usize>| times.rev().map(|at| EventView::at(at as u64)).collect::<Vec<_>>();
    let mut state = hub.state();
    state.remember(events(0..HISTORY_SHOWN));
    state.looked = Some(Instant::now());
    let news = state.remember(events(HISTORY_SHOWN + 1..HISTORY_SHOWN + 1 + HISTORY_MAX));
    assert_eq!((news[0].0, news[0].1.as_str(), news.len()), ("gap", r#"{"at_ms":201}"#, 1 + HISTORY_MAX));
}

#[tokio::test]
async fn a_node_that_restarts_is_remembered_whether_or_not_anybody_follows() {
    let nodes = MemoryNodes::new(3);
    let hub = hub(&nodes).await;
    hub.glance();
    nodes.restart_empty(1);
    let is_seen = || {
        hub.glance();
        told(&hub, "node").iter().any(|outage| outage["what"] == "restarted")
    };
    while !is_seen() {
        tokio::time::sleep(PACE / 100).await;
    }
    let seen: Vec<_> = hub.state().outages.seen().cloned().collect();
    assert!(!seen.is_empty(), "and those who come later are told as well");
}

fn lapsed(hub: &Hub) -> Vec<serde_json::Value> {
    told(hub, "history").into_iter().filter(|event| event["what"] == "lapsed").collect()
}

/// Somebody has the lock for a moment, and is seen to.
async fn seen_with(hub: &Hub, name: &str) -> quorlock::HandedLease {
    loop {
        let lock = hub.client.lock(name).ttl(PACE / 2).renewals(quorlock::Renewals::Off);
        let lease = lock.acquire().await.unwrap();
        hub.look(Instant::now()).await;
        // A busy machine may have taken longer than that.
        if hub.state().locks.get(name).is_some_and(|tracked| tracked.lock.held)
            && let Ok(lease) = lease.hand_over()
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
        hub.look(Instant::now()).await;
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
    let everything = hub.state().snapshot(&Caller::anybody([127, 0, 0, 1].into()));
    let everything: serde_json::Value = serde_json::from_str(&everything.data).unwrap();
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
        lapses.looked();
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
    assert_eq!(after(&unwritten, None, late), 0, "whoever has it writes nothing down");
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
        lapses.looked();
        lapses.compare(&before, None, u64::MAX);
        assert_eq!((lapses.judge(&[]), lapses.judge(&[])), (vec![], vec![]), "others may be about to write");
        let mut end = EventView::lapsed(&before.lock, before.at_ms);
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
    hub.glance();
    look_later(&hub).await;
    assert_eq!(lapsed(&hub), [] as [serde_json::Value; 0]);
}

#[test]
fn where_much_happens_nothing_can_be_told_from_what_is_missing() {
    let mut lapses = Lapses::default();
    lapses.looked();
    lapses.hear(usize::MAX);
    assert_eq!(format!("{lapses:?}"), format!("{:?}", Lapses::default()));
}
