//! The stream of events about a wait.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use quorlock::{Leases, Progress, Wait};
use serde::Serialize;
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

/// The holder and the queue.
#[derive(Serialize)]
struct QueueView {
    /// The caller's own position, from 1.
    position: Option<u32>,
    /// The number of waiters.
    waiting: u32,
    holder: Option<quorlock::HolderView>,
    /// The time until the holder's lease ends, unless it is renewed.
    remaining_ms: Option<u64>,
    fence: Option<u64>,
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Leases, Problem>> + Send>>;

/// A waiting request. When its connection drops it, it leaves the queue.
struct AcquireStream {
    service: Arc<Service>,
    order: Arc<Order>,
    began: Instant,
    /// `None` after the last event.
    request: Option<UnansweredRequest>,
    acquiring: Acquiring,
    /// Only the newest state: a slow reader misses only outdated ones.
    news: watch::Receiver<Option<Wait>>,
    told: Option<Wait>,
    _guard: Option<WaitGuard>,
}

pub(super) fn stream(
    service: Arc<Service>,
    order: Order,
    began: Instant,
    guard: Option<WaitGuard>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (tell, news) = watch::channel(None);
    let observer: Observer = Arc::new(move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            tell.send_replace(Some(wait.clone()));
        }
    });
    let order = Arc::new(order);
    let (theirs, ours) = (Arc::clone(&service), Arc::clone(&order));
    let acquiring: Acquiring = Box::pin(async move { ours.acquire(&theirs, Some(&observer)).await });
    let stream = AcquireStream {
        request: Some(UnansweredRequest::new(&service, Span::current())),
        service,
        order,
        began,
        acquiring,
        news,
        told: None,
        _guard: guard,
    };
    let events = unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok(event), stream))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

impl AcquireStream {
    /// Returns the next event, or `None` after the last.
    async fn next(&mut self) -> Option<Event> {
        while self.request.is_some() {
            tokio::select! {
                biased;
                acquired = &mut self.acquiring => return Some(self.end(acquired)),
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
        let queue = QueueView {
            position: wait.place,
            waiting: wait.waiting,
            holder: wait.holder.as_ref().map(quorlock::HolderView::from),
            remaining_ms: wait.remaining.map(millis),
            fence: Some(wait.fence.get()).filter(|fence| *fence > 0),
        };
        let event = event(what, &queue);
        self.told = Some(wait);
        Some(event)
    }

    fn end(&mut self, acquired: Result<Leases, Problem>) -> Event {
        let granted = acquired.and_then(|won| Granted::new(&self.service, &self.order, self.began, won));
        let code = granted.as_ref().err().map(Problem::code);
        if let Some(request) = self.request.take() {
            request.answered(|took_us| tracing::info!(code = code.map(word), took_us, "waited"));
        }
        match granted {
            Ok(granted) => event("granted", &granted),
            Err(problem) => {
                self.service.metrics.failed(problem.code());
                event("failed", &problem)
            }
        }
    }
}

/// Returns an event with its data as one line of JSON.
pub(in crate::api) fn event(what: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(what);
    // Strings and numbers can always be serialized.
    event.data(serde_json::to_string(data).unwrap_or_default())
}
