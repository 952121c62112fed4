//! The stream of changes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::acquire::KEEP_ALIVE;
use crate::auth::{Caller, Scope};
use crate::hub::EventId;
use crate::problem::Problem;

/// The number of pieces of the stream's text that the service buffers for each reader. A piece has about 8 KiB.
const PIECES_BUFFERED: usize = 1;

/// Follow changes of locks, nodes and the history.
///
/// The event `snapshot` has the full state. `lock`, `gone`, `nodes`, `node`, `history` and `gap` are changes after the
/// snapshot. `look` is sent about once a second. If a reader is so slow that the events after its snapshot are no
/// longer kept, the service disconnects it. If the request has a `Last-Event-ID` of this replica that is not too old,
/// the stream continues after that event, without a snapshot.
#[utoipa::path(
    get, path = "/v1/events", tag = "locks",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was read")),
    responses((status = 200, description = "The stream of events", content_type = "text/event-stream", body = String))
)]
pub(super) async fn events(caller: Caller, headers: HeaderMap) -> Result<Response, Problem> {
    caller.check_scope(Scope::Read)?;
    let service = Arc::clone(&caller.service);
    let last_read_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(EventId::parse);
    let guard = (service.limiter.event_streams.reserve(&caller.limit_key)?, caller.mark_waiting());
    let subscription = service.hub.subscribe(Arc::clone(&caller.identity), last_read_id);
    let mut follower = service.run_unless_stopping(subscription).await?;
    let (sender, receiver) = mpsc::channel(PIECES_BUFFERED);
    let reader_runtime = service.reader_runtime.clone();
    let forward = async move {
        loop {
            let next = tokio::time::timeout(KEEP_ALIVE, follower.next());
            let text = match service.run_unless_stopping(next).await {
                Ok(Ok(Some(text))) => text,
                // After a timeout, send a keep-alive comment, which detects a caller that is gone.
                Ok(Err(_)) => ":\n\n".into(),
                Ok(Ok(None)) | Err(_) => return,
            };
            if sender.send(text).await.is_err() {
                return;
            }
        }
    };
    let mut task = JoinSet::new();
    task.spawn_on(forward, &reader_runtime);
    let pieces = unfold((receiver, task, guard), async |(mut receiver, task, guard)| {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (receiver, task, guard)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}
