//! Three nodes. A votes for a client and the reply is lost; another program holds B and C.

use quorlock::{AcquireError, Retry};
use quorlock_testkit::{Proxy, eventually_async};

use super::{LONG, NAME, Recipe, Stage};
use crate::common::lock_keys;
use crate::common::long::connected;

/// Runs the scenario. Returns whether A's vote is left after the client has delivered all its releases.
pub async fn leaves_a_vote(recipe: Recipe<'_>) -> bool {
    let stage = Stage::new(3, recipe).await;
    let proxies: Vec<Proxy> = stage.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    for server in &stage.servers[1..] {
        server.command(&["SET", &format!("quorlock:{NAME}"), "another program"]);
    }
    let builder = stage.builder().retry(Retry::ONCE).nodes(proxies.iter().map(Proxy::url));
    let client = connected(builder).await;

    proxies[0].drop_replies(true);
    // B and C reply only after A has voted.
    let hold_the_others = |on| proxies[1..].iter().for_each(|proxy| proxy.hold(on));
    hold_the_others(true);
    let lock = client.lock(NAME);
    let attempt = tokio::spawn(async move { lock.acquire().await });
    eventually_async("A to vote", async || !lock_keys(&stage.servers[0]).is_empty()).await;
    hold_the_others(false);
    let outcome = attempt.await.expect("an attempt does not panic");
    assert!(matches!(outcome, Err(AcquireError::Held(_))), "{outcome:?}");

    // The connection breaks together with the lost reply.
    proxies[0].cut();
    proxies[0].drop_replies(false);
    client.close(LONG).await.expect("all nodes can be reached");
    !lock_keys(&stage.servers[0]).is_empty()
}
