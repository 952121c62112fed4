//! A client that is closed during an acquire leaves no vote on any node.

use std::time::Duration;

use crate::common::lock_keys;
use crate::common::long_timeouts::{ProxiedCluster, connect_to_all};
use quorlock::AcquireError;
use quorlock_testkit::{RedisServer, eventually_async};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_releases_the_votes_of_a_running_acquire() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    cluster.servers[1..].iter().for_each(RedisServer::freeze);
    let lock = client.lock("job");
    let acquire = tokio::spawn(async move { lock.acquire().await.map(drop) });
    eventually_async("the first node to vote", async || !lock_keys(&cluster.servers[0]).is_empty()).await;

    // Closing fails, because the frozen nodes cannot be reached in time.
    let _ = client.close(Duration::from_millis(10)).await;
    assert_eq!(acquire.await.expect("an acquire does not panic"), Err(AcquireError::Closed));
    eventually_async("the first node to release its vote", async || lock_keys(&cluster.servers[0]).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_acquired_while_its_client_closes_is_released() {
    let cluster = ProxiedCluster::start(3).await;
    for _ in 0..50 {
        let client = connect_to_all(cluster.direct_builder()).await;
        let lock = client.lock("job");
        let acquire = tokio::spawn(async move { lock.acquire().await.map(drop) });
        tokio::task::yield_now().await;
        client.close(Duration::from_secs(30)).await.expect("all nodes can be reached");
        let _ = acquire.await.expect("an acquire does not panic");
    }
    cluster.wait_until_unlocked().await;
}
