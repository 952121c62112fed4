//! What changes, as it changes.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc;

use super::acquire::{KEEP_ALIVE, StreamEvent};
use crate::auth::{Caller, Peer, Scope};
use crate::hub::{Mark, News};
use crate::inflow::Waited;
use crate::problem::{Problem, Unseen};
use crate::rate::Share;
use crate::service::Service;

/// How many events are written ahead of a reader.
const WRITTEN_MAX: usize = 64;

/// Follow what changes: locks, nodes and what has happened.
///
/// `snapshot` has everything as of now; `lock`, `gone`, `nodes`, `node`, `history` and `gap` what has changed since; `look`
/// comes about once a second. With a `Last-Event-ID` of this replica that is not too old, the stream goes on behind it.
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
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    caller.may(Scope::Read)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(Mark::parse);
    let counted = service.rates().follower(caller.share())?;
    let mut reader = service.unless_stopping(service.hub().subscribe(caller, last)).await?;
    let (sender, receiver) = mpsc::channel(WRITTEN_MAX);
    let follower = Follower::new(&service, &peer, counted);
    let tell = async move {
        while let Ok(news) = service.unless_stopping(reader.next()).await {
            if sender.send(written(&news)).await.is_err() {
                break;
            }
        }
    };
    let telling = follower.service.aside().keep(tell);
    let events = unfold((receiver, telling, follower), async |(mut receiver, telling, follower)| {
        let event = receiver.recv().await?;
        Some((Ok(event), (receiver, telling, follower)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Somebody who follows, for as long as it lives.
struct Follower {
    service: Service,
    _waited: Waited,
    _counted: Share,
}

impl Follower {
    fn new(service: &Service, peer: &Peer, counted: Share) -> Self {
        service.metrics().followers.inc();
        Self { service: service.clone(), _waited: peer.conversation().wait(), _counted: counted }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.service.metrics().followers.dec();
    }
}

fn written(news: &News) -> Event {
    Event::default().id(news.mark.to_string()).event(news.what).data(&*news.data)
}
