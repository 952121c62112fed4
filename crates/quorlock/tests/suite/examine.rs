//! Examining nodes without changing them.

use std::time::Duration;

use crate::common::{Cluster, MAX_TTL, builder};
use quorlock::{Examination, MemoryNodes, NodeState, Severity, Topic};
use quorlock_testkit::RedisServer;

async fn look(nodes: &MemoryNodes) -> Examination {
    builder().memory(nodes).examine(Duration::ZERO).await
}

fn states(found: &Examination) -> Vec<&NodeState> {
    found.nodes.iter().map(|node| &node.state).collect()
}

#[tokio::test]
async fn an_examination_shows_each_state_and_changes_nothing() {
    let nodes = MemoryNodes::new(3);
    for _ in 0..2 {
        let found = look(&nodes).await;
        assert_eq!(states(&found), [&NodeState::Blank; 3], "it stays as it is");
        assert_eq!((found.worst(), found.voting(), found.majority), (Severity::Note, 0, 2));
    }
    let client = builder().memory(&nodes).init_cluster().await.expect("the nodes are blank");
    let found = look(&nodes).await;
    assert_eq!((states(&found), found.worst()), ([&NodeState::Voting; 3].to_vec(), Severity::Ok));
    drop(client);

    nodes.down(0);
    let found = look(&nodes).await;
    assert!(matches!(&found.nodes[0].state, NodeState::Unreachable(why) if why == "it is down"), "{found:?}");
    assert_eq!((found.worst(), found.voting()), (Severity::Wrong, 2));
    let wrong = found.all().find(|(_, finding)| finding.severity == Severity::Wrong).expect("one finding is an error");
    assert_eq!((wrong.0.map(|node| &*node.title), wrong.1.topic), (Some("memory:0"), Topic::Reach));
    assert!(wrong.1.advice.is_some() && found.nodes[0].round_trip.is_none());
    assert!(found.nodes[1].round_trip.is_some() && found.nodes[1].rate_ppm.is_none(), "its clock was not watched");
}

#[tokio::test]
async fn an_examination_shows_the_rest_of_a_quarantine() {
    let nodes = MemoryNodes::new(3);
    let client = builder().memory(&nodes).connect_lazy().await.expect("the nodes are blank");
    let mut least = MAX_TTL * 2;
    quorlock_testkit::eventually_async("the quarantine to go by", async || {
        let found = look(&nodes).await;
        if let NodeState::Quarantined { left } = found.nodes[0].state {
            assert!(left <= least, "the remaining quarantine never grows");
            least = left;
        }
        found.voting() == 3
    })
    .await;
    assert!(least < MAX_TTL, "{least:?}");
    drop(client);
}

#[tokio::test]
async fn nodes_that_connect_would_refuse_can_be_examined() {
    let servers = RedisServer::builder().password("correct-horse").start_many(2);
    let urls = servers.iter().map(|server| server.url().replace("correct-horse", "hunter2"));
    let found = builder().nodes(urls).examine(Duration::ZERO).await;
    assert!(
        found.findings.iter().any(|finding| finding.topic == Topic::Settings && finding.text.contains("two nodes"))
    );
    assert!(found.nodes.iter().all(|node| matches!(node.state, NodeState::Denied(_))), "{found:?}");
    assert!(!format!("{found:?}").contains("hunter2"));
}

#[tokio::test]
async fn nodes_with_other_constants_are_unfit() {
    let cluster = Cluster::start(3).await;
    let found = cluster.builder().max_ttl(MAX_TTL * 2).examine(Duration::from_millis(100)).await;
    for node in &found.nodes {
        assert!(matches!(&node.state, NodeState::Unfit(why) if why.contains("max_ttl is 3s on the node and 6s here")), "{node:?}");
        assert!(node.rate_ppm.is_some() && node.skew_micros.is_some());
        let (run, epoch) = (node.run.as_ref().expect("the node reports its run id"), node.epoch.as_ref().expect("the node belongs to a cluster"));
        assert_eq!((run.len(), epoch.len()), (8, 8));
    }
}
