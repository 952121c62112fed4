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
use crate::api::lease_request::{Observer, ValidRequest};
use crate::problem::{Problem, code_text};
use crate::service::Service;
use crate::trace::UnansweredRequest;
use crate::view::millis;

/// The interval of the keep-alive comments in a stream. Sending them detects a reader that is gone.
pub(in crate::api) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The stream of one waiting request. When the connection drops the stream, the request leaves the queue.
struct AcquireStream {
    /// `None` after the last event.
    unanswered: Option<UnansweredRequest>,
    acquiring: BoxFuture<'static, Result<Granted, Problem>>,
    /// The newest state of the wait. A slow reader of the stream misses only outdated states.
    newest_wait: watch::Receiver<Option<Wait>>,
    /// The state of the wait in the last event.
    last_sent_wait: Option<Wait>,
    _guard: WaitGuard,
}

/// Returns the answer to a request for leases as a stream of events.
pub(super) fn streamed_answer(
    service: &Arc<Service>,
    request: ValidRequest,
    began: Instant,
    guard: WaitGuard,
) -> Response {
    let (sender, newest_wait) = watch::channel(None);
    let observer: Observer = Box::new(move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            sender.send_replace(Some(wait.clone()));
        }
    });
    let unanswered = Some(UnansweredRequest::new(service, Span::current()));
    let service = Arc::clone(service);
    let acquiring = async move {
        let leases = request.acquire(&service, Some(observer)).await;
        let granted = leases.and_then(|leases| Granted::new(&service, &request, began, leases));
        granted.inspect_err(|problem| service.metrics.count_problem(problem.code()))
    };
    let acquiring = Box::pin(acquiring);
    let stream = AcquireStream { unanswered, acquiring, newest_wait, last_sent_wait: None, _guard: guard };
    let events = unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl AcquireStream {
    /// Waits for the next event. Returns `None` after the last event.
    async fn next(&mut self) -> Option<Event> {
        while self.unanswered.is_some() {
            tokio::select! {
                biased;
                granted = &mut self.acquiring => return Some(self.last_event(granted)),
                Ok(()) = self.newest_wait.changed() => {
                    let wait = self.newest_wait.borrow_and_update().clone();
                    let event = wait.and_then(|wait| self.wait_event(wait));
                    if event.is_some() {
                        return event;
                    }
                }
            }
        }
        None
    }

    /// Returns the event for a new state of the wait, or `None` if nothing has changed since the last event.
    fn wait_event(&mut self, wait: Wait) -> Option<Event> {
        let kind = match &self.last_sent_wait {
            None => "queued",
            Some(last) if (&last.holder, last.fence) != (&wait.holder, wait.fence) => "holder",
            Some(last) if (last.position, last.waiting) != (wait.position, wait.waiting) => "position",
            Some(_) => return None,
        };
        let data = json!({
            "position": wait.position,
            "waiting": wait.waiting,
            "holder": wait.holder.as_ref().map(quorlock::HolderView::from),
            "remaining_ms": wait.remaining.map(millis),
            "fence": Some(wait.fence.get()).filter(|fence| *fence > 0),
        });
        let event = event(kind, &data);
        self.last_sent_wait = Some(wait);
        Some(event)
    }

    fn last_event(&mut self, granted: Result<Granted, Problem>) -> Event {
        let code = granted.as_ref().err().map(Problem::code);
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.log_answer(|took_us| tracing::info!(code = code.map(code_text), took_us, "waited"));
        }
        granted.map_or_else(|problem| event("failed", &problem), |granted| event("granted", &granted))
    }
}

/// Returns an event with its data as one line of JSON.
pub(in crate::api) fn event(kind: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(kind);
    // Strings and numbers can always be serialized.
    event.data(serde_json::to_string(data).unwrap_or_default())
}
