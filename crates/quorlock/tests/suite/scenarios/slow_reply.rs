//! Three nodes, and a slow network between them and client 1: a vote is old when its reply arrives.

use std::time::Duration;

use quorlock::{Drift, Lease};
use quorlock_testkit::{Proxy, eventually_async};

use super::{NAME, Recipe, Stage};
use crate::common::long::connected;

const TTL: Duration = Duration::from_secs(6);
/// The delay in each direction. A vote is this old when its reply arrives.
const DELAY: Duration = Duration::from_millis(1_300);

/// Runs the scenario. Returns whether client 1 believed in its lease when client 2 had won.
pub async fn has_two_holders(recipe: Recipe<'_>) -> bool {
    let stage = Stage::new(3, recipe).await;
    let builder = || {
        let builder = stage.builder().ttl(TTL).node_deadline(TTL / 2).min_validity(Duration::from_millis(100));
        builder.drift(Drift::REDLOCK)
    };
    let proxies: Vec<Proxy> = stage.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let one = connected(builder().nodes(proxies.iter().map(Proxy::url))).await;
    let two = connected(builder().nodes(stage.urls())).await;
    for proxy in &proxies {
        proxy.delay(DELAY);
    }

    let first = one.lock(NAME).acquire().await.expect("no limit is set");
    let mut second: Option<Lease> = None;
    eventually_async("the first lease's votes to lapse", async || {
        second = two.lock(NAME).try_acquire().await.unwrap_or_default();
        second.is_some()
    })
    .await;
    first.ensure(Duration::ZERO).is_ok()
}
