//! Examines nodes, which changes nothing on them.

use std::time::Duration;

use crate::common::{Cluster, MAX_TTL, builder};
use quorlock::{Examination, MemoryNodes, NodeState, Severity, Topic};
use quorlock_testkit::RedisServer;

async fn examine(nodes: &MemoryNodes) -> Examination {
    builder().memory(nodes).examine(Duration::ZERO).await
}

fn states(examination: &Examination) -> Vec<&NodeState> {
    examination.nodes.iter().map(|node| &node.state).collect()
}

#[tokio::test]
async fn an_examination_shows_each_state_and_changes_nothing() {
    let nodes = MemoryNodes::new(3);
    for _ in 0..2 {
        let examination = examine(&nodes).await;
        assert_eq!(states(&examination), [&NodeState::Blank; 3], "an examination changed a node");
        assert_eq!((examination.worst(), examination.voting(), examination.majority), (Severity::Note, 0, 2));
    }
    let client = builder().memory(&nodes).init_cluster().await.expect("the nodes are blank");
    let examination = examine(&nodes).await;
    assert_eq!((states(&examination), examination.worst()), ([&NodeState::Voting; 3].to_vec(), Severity::Ok));
    drop(client);

    nodes.down(0);
    let examination = examine(&nodes).await;
    assert!(
        matches!(&examination.nodes[0].state, NodeState::Unreachable(reason) if reason == "it is down"),
        "{examination:?}"
    );
    assert_eq!((examination.worst(), examination.voting()), (Severity::Error, 2));
    let finding =
        examination.all().find(|(_, finding)| finding.severity == Severity::Error).expect("one finding is an error");
    assert_eq!((finding.0.map(|node| &*node.title), finding.1.topic), (Some("memory:0"), Topic::Reach));
    assert!(finding.1.advice.is_some() && examination.nodes[0].round_trip.is_none());
    assert!(
        examination.nodes[1].round_trip.is_some() && examination.nodes[1].rate_ppm.is_none(),
        "an examination without a duration cannot measure the rate of a clock"
    );
}

#[tokio::test]
async fn an_examination_shows_the_remaining_quarantine() {
    let nodes = MemoryNodes::new(3);
    let client = builder().memory(&nodes).connect_lazy().await.expect("the nodes are blank");
    let mut shortest_left = MAX_TTL * 2;
    quorlock_testkit::eventually_async("the quarantine to end", async || {
        let examination = examine(&nodes).await;
        if let NodeState::Quarantined { left } = examination.nodes[0].state {
            assert!(left <= shortest_left, "the remaining quarantine grew");
            shortest_left = left;
        }
        examination.voting() == 3
    })
    .await;
    assert!(shortest_left < MAX_TTL, "{shortest_left:?}");
    drop(client);
}

#[tokio::test]
async fn nodes_that_refuse_the_password_can_be_examined() {
    let servers = RedisServer::builder().password("correct-horse").start_many(2);
    let urls = servers.iter().map(|server| server.url().replace("correct-horse", "hunter2"));
    let examination = builder().nodes(urls).examine(Duration::ZERO).await;
    assert!(
        examination
            .findings
            .iter()
            .any(|finding| finding.topic == Topic::Settings && finding.text.contains("two nodes"))
    );
    assert!(examination.nodes.iter().all(|node| matches!(node.state, NodeState::Denied(_))), "{examination:?}");
    assert!(!format!("{examination:?}").contains("hunter2"));
}

#[tokio::test]
async fn an_examination_reports_nodes_with_other_constants_as_unfit() {
    let cluster = Cluster::start(3).await;
    let examination = cluster.builder().max_ttl(MAX_TTL * 2).examine(Duration::from_millis(100)).await;
    for node in &examination.nodes {
        assert!(
            matches!(&node.state, NodeState::Unfit(reason) if reason.contains("max_ttl is 3s on the node and 6s here")),
            "{node:?}"
        );
        assert!(node.rate_ppm.is_some() && node.skew_micros.is_some());
        let (run_id, epoch) = (
            node.run.as_ref().expect("the node reports its run id"),
            node.epoch.as_ref().expect("the node belongs to a cluster"),
        );
        assert_eq!((run_id.len(), epoch.len()), (8, 8));
    }
}
