//! A service that refuses requests of old lock holders. Callers send the fence of their lease as a header. A middleware
//! compares the fence with the highest fence that it has seen for the same path.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::put;

/// The highest fence that was seen for each path. If the fences must survive a restart, store them with the data, as
/// the example `fence_sql` does.
pub(crate) type HighestFences = Arc<std::sync::Mutex<HashMap<String, HighestFence>>>;
type HighestFence = Arc<tokio::sync::Mutex<u64>>;

/// Runs the handler if the header `x-fence` is not below the highest fence of the path. Otherwise answers 412, or 428
/// if there is no fence. Handles the requests for one path one after the other.
pub(crate) async fn check_fence(State(fences): State<HighestFences>, request: Request, next: Next) -> Response {
    let fence = request.headers().get("x-fence").and_then(|fence| fence.to_str().ok()?.parse::<u64>().ok());
    let Some(fence) = fence else {
        return (StatusCode::PRECONDITION_REQUIRED, "the header x-fence is missing: send the fence of your lease\n")
            .into_response();
    };
    let highest = {
        let mut fences = fences.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(fences.entry(request.uri().path().to_owned()).or_default())
    };
    // Keep the mutex locked until the handler has written, so that a stalled request cannot write after a newer
    // request.
    let mut highest = highest.lock().await;
    if fence < *highest {
        let reason = format!("fence {fence} is too low: a newer lease with fence {highest} has written\n");
        return (StatusCode::PRECONDITION_FAILED, reason).into_response();
    }
    // Raise the fence even if the write fails: no client with a lower fence holds the lock any more.
    *highest = fence;
    // If the caller hangs up, axum drops the handler. A handler must not leave a task behind that still writes.
    next.run(request).await
}

/// Returns a service that protects its writes with fences.
pub(crate) fn app() -> Router {
    let fences = HighestFences::default();
    Router::new().route("/invoices/{id}", put(|| async { "written\n" })).layer(from_fn_with_state(fences, check_fence))
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("curl -X PUT -H 'x-fence: 7' http://{}/invoices/42", listener.local_addr()?);
    axum::serve(listener, app()).await
}
