//! What changes, as it changes.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::acquire::{KEEP_ALIVE, StreamEvent};
use crate::auth::{Caller, Peer, Scope};
use crate::http::read::Waited;
use crate::hub::Mark;
use crate::problem::{Problem, Unseen};
use crate::rate::Share;
use crate::service::Service;

/// Pieces of the stream that are written ahead of a reader.
const PIECES_AHEAD: usize = 1;

/// Follow what changes: locks, nodes and what has happened.
///
/// `snapshot` has everything as of now; `lock`, `gone`, `nodes`, `node`, `history` and `gap` what has changed since; `look`
/// comes about once a second. A reader that is so slow that the events after its snapshot are gone is disconnected. With a `Last-Event-ID` of this replica that is not too old, the stream goes on behind it.
#[utoipa::path(
    get, path = "/v1/events", tag = "locks",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was read")),
    responses((status = 200, description = "What changes", content_type = "text/event-stream", body = StreamEvent), Unseen)
)]
pub(super) async fn events(
    State(service): State<Service>,
    caller: Caller,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(Mark::parse);
    let counted = service.rates().follower(caller.share())?;
    let mut follower = service.unless_stopping(service.hub().subscribe(caller, last)).await?;
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let following = Following::new(&service, &peer, counted);
    let tell = async move {
        loop {
            // So that a caller that is gone is noticed.
            let told = tokio::time::timeout(KEEP_ALIVE, follower.next());
            let text = match service.unless_stopping(told).await {
                Ok(Ok(Some(text))) => text,
                Ok(Err(_)) => ":\n\n".into(),
                Ok(Ok(None)) | Err(_) => return,
            };
            if sender.send(text).await.is_err() {
                return;
            }
        }
    };
    let mut telling = JoinSet::new();
    telling.spawn_on(tell, following.service.readers());
    let pieces = unfold((receiver, telling, following), async |(mut receiver, telling, following)| {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (receiver, telling, following)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Somebody who follows, for as long as it lives.
struct Following {
    service: Service,
    _waited: Waited,
    _counted: Share,
}

impl Following {
    fn new(service: &Service, peer: &Peer, counted: Share) -> Self {
        service.metrics().followers.inc();
        Self { service: service.clone(), _waited: peer.conversation().wait(), _counted: counted }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.service.metrics().followers.dec();
    }
}
