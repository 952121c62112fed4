use std::sync::Arc;

use quorlock::{Client, ClientBuilder, MemoryNodes, Renewals};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::config::Config;

const TTL: Duration = Duration::from_millis(200);

/// Starts a service on one memory node. The service renews no lease.
async fn service() -> Arc<Service> {
    service_with_client(Client::builder()).await
}

async fn service_with_client(client: ClientBuilder) -> Arc<Service> {
    let client = client.memory(&MemoryNodes::new(1)).renewals(Renewals::Off).connect().await.unwrap();
    let (stop, stopping) = watch::channel(false);
    // The service must not stop before the test ends.
    std::mem::forget(stop);
    Service::new(
        Config::new(([127, 0, 0, 1], 0).into(), client.clone()),
        client,
        tokio::runtime::Handle::current(),
        stopping,
    )
}

fn checked_request(service: &Service, request: serde_json::Value) -> ValidRequest {
    let request: LeaseRequest = serde_json::from_value(request).unwrap();
    request.check(&service.client, service.limits, "somebody").unwrap()
}

#[tokio::test]
async fn leases_that_expire_before_the_answer_is_written_are_released_and_reported_as_too_slow() {
    let service = service().await;
    for request in [json!({"name": "a", "ttl_ms": 200}), json!({"names": ["a", "b"], "ttl_ms": 200})] {
        let request = checked_request(&service, request);
        let (began, leases) = (Instant::now(), request.acquire(&service, None).await.unwrap());
        while !leases.validity().is_zero() {
            tokio::time::sleep(TTL / 20).await;
        }
        let problem = Granted::new(&service, &request, began, leases).err().expect("the leases have expired");
        assert_eq!(problem.code(), Code::TooSlow);
        assert_eq!(
            problem.into_response().headers()[header::RETRY_AFTER],
            "1",
            "the caller may retry after one second"
        );
        for name in &request.names {
            assert!(service.client.lock(name).try_acquire().await.unwrap().is_some(), "{name} must be free");
        }
    }
}

#[tokio::test]
async fn the_reported_validity_has_a_margin_for_the_callers_clock() {
    let service = service().await;
    let request = checked_request(&service, json!({"name": "a", "ttl_ms": 30_000}));
    let (began, leases) = (Instant::now(), request.acquire(&service, None).await.unwrap());
    let left = leases.validity();
    let granted =
        Granted::new(&service, &request, began, leases).unwrap_or_else(|_| panic!("the lease is still valid"));
    let reported = Duration::from_millis(granted.times.validity_ms);
    assert!(
        reported + CALLER_DRIFT.fixed <= left,
        "{reported:?} of {left:?}: there is no margin for a slow clock of the caller"
    );
}

#[tokio::test]
async fn the_margin_for_the_callers_clock_depends_on_the_configured_ttl() {
    const CONFIGURED_TTL: Duration = Duration::from_secs(60);
    let service = service_with_client(Client::builder().ttl(CONFIGURED_TTL)).await;
    let began = Instant::now().checked_sub(CONFIGURED_TTL).unwrap();
    for request in [json!({"name": "a"}), json!({"names": ["b", "c"]})] {
        let request = checked_request(&service, request);
        let leases = request.acquire(&service, None).await.unwrap();
        let left = leases.validity();
        let granted =
            Granted::new(&service, &request, began, leases).unwrap_or_else(|_| panic!("the leases are still valid"));
        // By its own clock, the caller may have waited for half of the ttl before it uses the leases.
        let margin_min = (left + CONFIGURED_TTL / 2) / 10 + CALLER_DRIFT.fixed;
        let reported = Duration::from_millis(granted.times.validity_ms);
        assert!(reported + margin_min <= left, "{reported:?} of {left:?}, with a margin of at least {margin_min:?}");
    }
}
