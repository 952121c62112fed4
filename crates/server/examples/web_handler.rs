//! A web handler that refuses a second export of the same month: it answers 409 and names the holder of the lock.
//!
//! Run `cargo run -p quorlock-server --example web_handler`. Then run the printed command in two terminals at once.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use quorlock::{AcquireError, Client};

/// Exports a month under its lock.
async fn export(State(client): State<Client>, Path(month): Path<String>) -> Response {
    // With a wait of zero, the acquire fails at once if the lock is held. The error names the holder.
    let lock = client.lock(format!("export/{month}")).label(&format!("export of {month}"));
    let lease = match lock.acquire_within(Duration::ZERO).await {
        Ok(lease) => lease,
        Err(AcquireError::Held(held) | AcquireError::WaitTimeout(held)) => {
            return (StatusCode::CONFLICT, format!("{held}\n")).into_response();
        }
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    };
    // If the caller hangs up, axum drops this future and the lease, which releases the lock.
    tokio::select! {
        () = write(&month) => (StatusCode::OK, format!("exported {month}\n")).into_response(),
        lost = lease.lost() => (StatusCode::SERVICE_UNAVAILABLE, format!("{lost}\n")).into_response(),
    }
}

/// Stands for the export. A real export sends `lease.fence()` with every write.
async fn write(_month: &str) {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

pub(crate) fn app(client: Client) -> Router {
    Router::new().route("/exports/{month}", post(export)).with_state(client)
}

#[tokio::main]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // To share the lock with other hosts, use servers: `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("run this in two terminals: curl -i -X POST http://{}/exports/2026-10", listener.local_addr()?);
    axum::serve(listener, app(client)).await?;
    Ok(())
}
