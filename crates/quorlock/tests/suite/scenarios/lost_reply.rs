//! Three nodes, A to C. A votes for a client, but the reply is lost. Another program has the key on B and C.

use quorlock::{AcquireError, Retry};
use quorlock_testkit::{Proxy, eventually_async};

use super::{LONG, NAME, NewBuilder, ScenarioCluster};
use crate::common::lock_keys;
use crate::common::long_timeouts::connect_to_all;

/// Runs the scenario. Returns whether A still has the vote after the client has delivered all its releases.
pub async fn leaves_a_vote(new_builder: NewBuilder<'_>) -> bool {
    let cluster = ScenarioCluster::start(3, new_builder).await;
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    for server in &cluster.servers[1..] {
        server.command(&["SET", &format!("quorlock:{NAME}"), "another program"]);
    }
    let builder = cluster.builder().retry(Retry::ONCE).nodes(proxies.iter().map(Proxy::url));
    let client = connect_to_all(builder).await;

    proxies[0].drop_replies(true);
    // B and C reply only after A has voted.
    let hold_requests_to_b_and_c = |on| proxies[1..].iter().for_each(|proxy| proxy.hold(on));
    hold_requests_to_b_and_c(true);
    let lock = client.lock(NAME);
    let attempt = tokio::spawn(async move { lock.acquire().await });
    eventually_async("A to vote", async || !lock_keys(&cluster.servers[0]).is_empty()).await;
    hold_requests_to_b_and_c(false);
    let outcome = attempt.await.expect("an attempt does not panic");
    assert!(matches!(outcome, Err(AcquireError::Held(_))), "{outcome:?}");

    // The connection breaks together with the lost reply.
    proxies[0].cut();
    proxies[0].drop_replies(false);
    client.close(LONG).await.expect("all nodes can be reached");
    !lock_keys(&cluster.servers[0]).is_empty()
}
