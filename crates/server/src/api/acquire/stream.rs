//! How the waiting goes, as it goes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use quorlock::{AcquireError, Leases, Progress, Wait};
use serde::Serialize;
use tokio::sync::watch;
use tracing::Span;
use utoipa::ToSchema;

use super::{Granted, Waits};
use crate::api::order::{Observer, Order};
use crate::problem::{Problem, word};
use crate::service::Service;
use crate::trace::hung_up;
use crate::view::millis;

/// How often a stream says that it is alive, so that a reader that is gone is noticed.
pub(in crate::api) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// One event of a stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written line by line")]
pub(in crate::api) struct StreamEvent {
    /// What it tells.
    event: String,
    /// Where in the stream it is.
    id: Option<String>,
    /// JSON, in one line.
    data: String,
}

/// Who has it, and how the queue looks.
#[derive(Serialize)]
struct InLine {
    /// The own place, from 1.
    position: Option<u32>,
    /// How many wait.
    waiting: u32,
    holder: Option<quorlock::HolderView>,
    /// How long it is theirs at most, unless they renew it.
    remaining_ms: Option<u64>,
    fence: Option<u64>,
}

impl InLine {
    fn new(wait: &Wait) -> Self {
        Self {
            position: wait.place,
            waiting: wait.waiting,
            holder: wait.holder.as_ref().map(quorlock::HolderView::from),
            remaining_ms: wait.remaining.map(millis),
            fence: Some(wait.fence.get()).filter(|fence| *fence > 0),
        }
    }
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Result<Leases, AcquireError>, Problem>> + Send>>;

/// One who waits. Dropped with its connection, it gives its place back.
struct Waiting {
    service: Service,
    order: Arc<Order>,
    began: Instant,
    /// That of the request, which was answered long before the stream ends.
    span: Span,
    acquiring: Acquiring,
    /// Only the newest: a reader that is slow misses what is no longer true anyway.
    news: watch::Receiver<Option<Wait>>,
    told: Option<Wait>,
    has_ended: bool,
    _counted: Option<Waits>,
}

pub(super) fn stream(
    service: Service,
    order: Order,
    began: Instant,
    counted: Option<Waits>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (tell, news) = watch::channel(None);
    let observer: Observer = Arc::new(move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            tell.send_replace(Some(wait.clone()));
        }
    });
    let order = Arc::new(order);
    let (theirs, ours) = (service.clone(), Arc::clone(&order));
    let acquiring: Acquiring = Box::pin(async move {
        let acquired = ours.acquire(theirs.client(), Some(&observer));
        theirs.unless_stopping(acquired).await
    });
    let waiting = Waiting {
        service,
        order,
        began,
        span: Span::current(),
        acquiring,
        news,
        told: None,
        has_ended: false,
        _counted: counted,
    };
    let events = unfold(Some(waiting), async |waiting| {
        let mut waiting = waiting?;
        let (event, is_last) = waiting.next().await;
        Some((Ok(event), (!is_last).then_some(waiting)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

impl Waiting {
    /// What is to be told next, and whether it is the last thing.
    async fn next(&mut self) -> (Event, bool) {
        loop {
            tokio::select! {
                biased;
                acquired = &mut self.acquiring => return (self.end(acquired), true),
                Ok(()) = self.news.changed() => {
                    let wait = self.news.borrow_and_update().clone();
                    if let Some(event) = wait.and_then(|wait| self.tell(wait)) {
                        return (event, false);
                    }
                }
            }
        }
    }

    fn tell(&mut self, wait: Wait) -> Option<Event> {
        let what = match &self.told {
            None => "queued",
            Some(told) if (&told.holder, told.fence) != (&wait.holder, wait.fence) => "holder",
            Some(told) if (told.place, told.waiting) != (wait.place, wait.waiting) => "position",
            Some(_) => return None,
        };
        let event = event(what, &InLine::new(&wait));
        self.told = Some(wait);
        Some(event)
    }

    fn end(&mut self, acquired: Result<Result<Leases, AcquireError>, Problem>) -> Event {
        self.has_ended = true;
        let granted = acquired
            .and_then(|acquired| acquired.map_err(|error| self.order.refused(error)))
            .and_then(|won| Granted::new(&self.service, &self.order, self.began, won));
        let (code, took_us) = (granted.as_ref().err().map(Problem::code), self.began.elapsed().as_micros() as u64);
        self.span.in_scope(|| tracing::info!(code = code.map(word), took_us, "waited"));
        match granted {
            Ok(granted) => event("granted", &granted),
            Err(problem) => {
                self.service.metrics().failed(problem.code());
                event("failed", &problem)
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.has_ended {
            hung_up(&self.service, &self.span, self.began);
        }
    }
}

/// An event with its data as one line of JSON.
pub(in crate::api) fn event(what: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(what);
    // Texts and numbers can always be written down.
    event.data(serde_json::to_string(data).unwrap_or_default())
}
