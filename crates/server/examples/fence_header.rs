//! A service that refuses requests of holders that have been overtaken: callers send their fence as a header, and a
//! middleware compares it with the highest one that it has seen for that path.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::put;

/// The highest fence of each path. One that has to survive a restart belongs where the data are, as in `fence_sql`.
pub(crate) type Seen = Arc<std::sync::Mutex<HashMap<String, Highest>>>;
type Highest = Arc<tokio::sync::Mutex<u64>>;

/// Lets a request pass if its `x-fence` is not below what was seen: 428 without one, 412 if it is too low. The requests of
/// one path pass one after the other.
pub(crate) async fn check_fence(State(seen): State<Seen>, request: Request, next: Next) -> Response {
    let fence = request.headers().get("x-fence").and_then(|fence| fence.to_str().ok()?.parse::<u64>().ok());
    let Some(fence) = fence else {
        return (StatusCode::PRECONDITION_REQUIRED, "a fence is needed: x-fence\n").into_response();
    };
    let highest = {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(seen.entry(request.uri().path().to_owned()).or_default())
    };
    // Until it has written: one that was let in and stalls must not write behind the next.
    let mut highest = highest.lock().await;
    if fence < *highest {
        let why = format!("fence {fence} was overtaken by {highest}\n");
        return (StatusCode::PRECONDITION_FAILED, why).into_response();
    }
    // Even if its write fails, no client with a lower fence holds the lock any more.
    *highest = fence;
    // A handler that is dropped, with its connection, must leave nothing behind that still writes.
    next.run(request).await
}

/// Something that is worth protecting.
pub(crate) fn app() -> Router {
    let seen = Seen::default();
    Router::new().route("/invoices/{id}", put(|| async { "written\n" })).layer(from_fn_with_state(seen, check_fence))
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("curl -X PUT -H 'x-fence: 7' http://{}/invoices/42", listener.local_addr()?);
    axum::serve(listener, app()).await
}
