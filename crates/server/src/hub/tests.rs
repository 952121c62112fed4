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
