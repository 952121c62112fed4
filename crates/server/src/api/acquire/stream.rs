//! The stream of events about a wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use quorlock::{Progress, Wait};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use tracing::Span;

use super::{Granted, WaitGuard};
use crate::api::order::{Observer, Order};
use crate::problem::{Problem, word};
use crate::service::Service;
use crate::trace::UnansweredRequest;
use crate::view::millis;

/// The interval of keep-alive comments, which detect a reader that is gone.
pub(in crate::api) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A waiting request. When its connection drops it, it leaves the queue.
struct AcquireStream {
    /// `None` after the last event.
    request: Option<UnansweredRequest>,
    acquiring: BoxFuture<'static, Result<Granted, Problem>>,
    /// Only the newest state: a slow reader misses only outdated ones.
    news: watch::Receiver<Option<Wait>>,
    told: Option<Wait>,
    _guard: Option<WaitGuard>,
}

pub(super) fn stream(service: &Arc<Service>, order: Order, began: Instant, guard: Option<WaitGuard>) -> Response {
    let (tell, news) = watch::channel(None);
    let observer: Observer = Box::new(move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            tell.send_replace(Some(wait.clone()));
        }
    });
    let request = Some(UnansweredRequest::new(service, Span::current()));
    let service = Arc::clone(service);
    let acquiring = async move {
        let won = order.acquire(&service, Some(observer)).await;
        let granted = won.and_then(|won| Granted::new(&service, &order, began, won));
        granted.inspect_err(|problem| service.metrics.failed(problem.code()))
    };
    let stream = AcquireStream { request, acquiring: Box::pin(acquiring), news, told: None, _guard: guard };
    let events = unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl AcquireStream {
    /// Returns the next event, or `None` after the last.
    async fn next(&mut self) -> Option<Event> {
        while self.request.is_some() {
            tokio::select! {
                biased;
                granted = &mut self.acquiring => return Some(self.end(granted)),
                Ok(()) = self.news.changed() => {
                    let wait = self.news.borrow_and_update().clone();
                    let event = wait.and_then(|wait| self.tell(wait));
                    if event.is_some() {
                        return event;
                    }
                }
            }
        }
        None
    }

    fn tell(&mut self, wait: Wait) -> Option<Event> {
        let what = match &self.told {
            None => "queued",
            Some(told) if (&told.holder, told.fence) != (&wait.holder, wait.fence) => "holder",
            Some(told) if (told.place, told.waiting) != (wait.place, wait.waiting) => "position",
            Some(_) => return None,
        };
        // The holder, and the queue with the caller's own position in it, from 1.
        let queue = json!({
            "position": wait.place,
            "waiting": wait.waiting,
            "holder": wait.holder.as_ref().map(quorlock::HolderView::from),
            "remaining_ms": wait.remaining.map(millis),
            "fence": Some(wait.fence.get()).filter(|fence| *fence > 0),
        });
        let event = event(what, &queue);
        self.told = Some(wait);
        Some(event)
    }

    fn end(&mut self, granted: Result<Granted, Problem>) -> Event {
        let code = granted.as_ref().err().map(Problem::code);
        if let Some(request) = self.request.take() {
            request.answered(|took_us| tracing::info!(code = code.map(word), took_us, "waited"));
        }
        granted.map_or_else(|problem| event("failed", &problem), |granted| event("granted", &granted))
    }
}

/// Returns an event with its data as one line of JSON.
pub(in crate::api) fn event(what: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(what);
    // Strings and numbers can always be serialized.
    event.data(serde_json::to_string(data).unwrap_or_default())
}
