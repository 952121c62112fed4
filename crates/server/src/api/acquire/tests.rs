use std::sync::Arc;

use quorlock::{Client, ClientBuilder, MemoryNodes, Renewals};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::config::Config;

const TTL: Duration = Duration::from_millis(200);

/// A service on one memory node, whose leases nobody renews.
async fn service() -> Arc<Service> {
    service_of(Client::builder()).await
}

async fn service_of(client: ClientBuilder) -> Arc<Service> {
    let client = client.memory(&MemoryNodes::new(1)).renewals(Renewals::Off).connect().await.unwrap();
    let (running, stopped) = watch::channel(false);
    // The service runs for as long as the test.
    std::mem::forget(running);
    Service::new(
        Config::new(([127, 0, 0, 1], 0).into(), client.clone()),
        client,
        tokio::runtime::Handle::current(),
        stopped,
    )
}

fn order(service: &Service, request: serde_json::Value) -> Order {
    let request: LeaseRequest = serde_json::from_value(request).unwrap();
    request.check(&service.client, service.limits, "somebody").unwrap()
}

#[tokio::test]
async fn leases_that_run_out_before_the_answer_is_written_are_too_slow_and_given_back() {
    let service = service().await;
    for what in [json!({"name": "a", "ttl_ms": 200}), json!({"names": ["a", "b"], "ttl_ms": 200})] {
        let order = order(&service, what);
        let (began, won) = (Instant::now(), order.acquire(&service, None).await.unwrap());
        while !won.validity().is_zero() {
            tokio::time::sleep(TTL / 20).await;
        }
        let problem = Granted::new(&service, &order, began, won).err().expect("nothing is left of it");
        assert_eq!(problem.code(), Code::TooSlow);
        assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], "1", "ask again");
        for name in &order.names {
            assert!(service.client.lock(name).try_acquire().await.unwrap().is_some(), "{name} is free");
        }
    }
}

#[tokio::test]
async fn what_is_told_leaves_room_for_the_callers_clock() {
    let service = service().await;
    let order = order(&service, json!({"name": "a", "ttl_ms": 30_000}));
    let (began, won) = (Instant::now(), order.acquire(&service, None).await.unwrap());
    let left = won.validity();
    let granted = Granted::new(&service, &order, began, won).unwrap_or_else(|_| panic!("much is left of it"));
    let told = Duration::from_millis(granted.outlook.validity_ms);
    assert!(told + CALLER_DRIFT.fixed <= left, "{told:?} of {left:?}: the caller's clock may be slow");
}

#[tokio::test]
async fn the_margin_for_the_callers_clock_is_that_of_the_configured_ttl() {
    const CONFIGURED: Duration = Duration::from_secs(60);
    let service = service_of(Client::builder().ttl(CONFIGURED)).await;
    let waited = Instant::now().checked_sub(CONFIGURED).unwrap();
    for what in [json!({"name": "a"}), json!({"names": ["b", "c"]})] {
        let order = order(&service, what);
        let won = order.acquire(&service, None).await.unwrap();
        let left = won.validity();
        let granted = Granted::new(&service, &order, waited, won).unwrap_or_else(|_| panic!("much is left of it"));
        // The caller may have waited for half of the ttl, by its clock, before it uses the lease.
        let least = (left + CONFIGURED / 2) / 10 + CALLER_DRIFT.fixed;
        let told = Duration::from_millis(granted.outlook.validity_ms);
        assert!(told + least <= left, "{told:?} of {left:?}, with a margin of {least:?}");
    }
}
