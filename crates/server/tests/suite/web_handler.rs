//! Tests the example `web_handler`.

#[path = "../../examples/web_handler.rs"]
mod example;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use quorlock::Client;
use quorlock_testkit::eventually_async;
use tower::ServiceExt;

#[tokio::test]
async fn a_second_export_gets_409_and_the_name_of_the_holder() {
    let client = Client::memory().await;
    let app = example::app(client.clone());
    let post = |path: &str| app.clone().oneshot(Request::post(path).body(Body::empty()).unwrap());
    let first_export = tokio::spawn(post("/exports/2026-10"));
    let is_held = async || client.inspect("export/2026-10").await.unwrap().holder().is_some();
    eventually_async("the first export has begun", is_held).await;

    let second_reply = post("/exports/2026-10").await.unwrap();
    assert_eq!(second_reply.status(), StatusCode::CONFLICT);
    let text = to_bytes(second_reply.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("\"export/2026-10\" is held by") && text.contains("export of 2026-10"), "{text}");

    // If a caller hangs up, its export ends, and the lock becomes free.
    first_export.abort();
    eventually_async("the lock is free", async || !is_held().await).await;
}
