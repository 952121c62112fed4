//! A connection after the handshake: sends batches, receives votes, and watches for memory loss and silence.
//!
//! A batch is sent by the caller that queues a request, or by the code that takes a reply. If several callers are about
//! to queue requests, the link's task sends the batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::node::Incarnation;
use quorlock_core::quorum::Elector;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Refusal, Silence, Vote};
use tokio::sync::{mpsc, oneshot};

use super::heartbeat::lost_memory;
use super::membership::Membership;
use super::{Inner, LinkState, Notices, Sender};
use super::{Link, REPLACED};
use crate::node::event::Event;
use crate::node::{Answer, Message, Question, Reply, Session, Trouble};
use crate::platform::clock;
use crate::platform::runtime;

/// The largest number of requests in one batch. A batch of this size makes the fixed cost of a batch negligible, and is
/// small enough that the client can handle its replies while the node processes the next batch.
const BATCH_MAX: usize = 128;
/// The largest number of batches under way to a near node: the batch that the node processes, and the next one. Later
/// requests wait for a reply, and form the next batch.
const WINDOW_NEAR: usize = 2;
/// The largest batch that does not delay the next batch: the caller of a single acquire may release the lock before all
/// nodes have answered the acquire. Requests after a larger batch are collected into one batch, which costs less than
/// two batches.
const SMALL_BATCH: usize = 1;
/// The largest number of batches under way to a far node, which hides the round trip.
const WINDOW_FAR: usize = 8;
/// The longest time in which a near node replies. A node that takes longer is far away, or busy.
const NEAR_TRIP: Duration = Duration::from_millis(1);
/// How often the link's task checks for silence within the silence limit.
const SILENCE_CHECKS: u32 = 4;

/// A question without a reply.
struct UnderWay {
    /// The number of requests for votes; 0 for any other question.
    requests: usize,
    /// The receiver of the reply to any other question; `None` for a note.
    asker: Option<oneshot::Sender<Answer>>,
    /// The time at which the question was sent.
    at: Moment,
    /// The reply, if it is held back until a check of the node has confirmed its memory.
    held: Option<Answer>,
}

/// The connection in use.
pub(super) struct Connection {
    /// The connection's number on its link.
    number: u64,
    session: Box<dyn Session>,
    /// Whether the handshake is over.
    is_serving: bool,
    /// Oldest first, which is the order in which the node replies.
    under_way: VecDeque<UnderWay>,
    /// The number of requests in the last batch.
    last: usize,
    /// Whether the link's task was asked to send the queue after every runnable caller has queued its request.
    is_gathering: bool,
    /// Whether votes are held back until a check of the node has confirmed that its memory was not replaced.
    is_holding: bool,
}

impl Connection {
    /// Sends a question: requests for votes, a question with an asker, or a note.
    fn ask(&mut self, question: Question, requests: usize, asker: Option<oneshot::Sender<Answer>>) {
        // Read the clock before sending: a grant may be as old as its request.
        let at = clock::now();
        self.session.ask(question);
        self.under_way.push_back(UnderWay { requests, asker, at, held: None });
    }

    /// Adds events to the node's history.
    pub(super) fn note(&mut self, events: Vec<Arc<Event>>) {
        self.ask(Question::Note(events), 0, None);
    }

    /// Returns whether a note is under way.
    pub(super) fn is_noting(&self) -> bool {
        self.under_way.iter().any(|under_way| under_way.requests == 0 && under_way.asker.is_none())
    }

    /// Returns whether neither votes nor notes are under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.iter().all(|under_way| under_way.asker.is_some())
    }

    /// Returns the batches under way, oldest first. Other questions do not count: their replies send nothing.
    fn batches(&self) -> impl Iterator<Item = &UnderWay> {
        self.under_way.iter().filter(|under_way| under_way.requests > 0)
    }

    /// Returns whether another batch may be sent when this many requests wait.
    fn has_room(&self, waiting: usize) -> bool {
        let Some(oldest) = self.batches().next() else { return true };
        may_send(self.batches().count(), oldest.requests, waiting, || clock::now().since(oldest.at) > NEAR_TRIP)
    }
}

/// Returns whether another batch may be sent, given the number of batches under way, the number of requests in the
/// oldest of them, and the number of waiting requests.
fn may_send(under_way: usize, oldest: usize, waiting: usize, is_far: impl FnOnce() -> bool) -> bool {
    under_way < WINDOW_NEAR && (oldest <= SMALL_BATCH || waiting >= BATCH_MAX) || under_way < WINDOW_FAR && is_far()
}

/// Returns whether a batch waits for other runnable callers. If the last batch had several requests, its replies woke
/// several callers that are about to queue requests. Without waiting, the first would be sent alone and the others in a
/// second batch.
fn must_gather(under_way: usize, last: usize, waiting: usize) -> bool {
    under_way == 0 && last > SMALL_BATCH && waiting < BATCH_MAX
}

impl Link {
    /// Serves a session from the handshake until it ends. Returns why it ended, and whether the handshake succeeded.
    pub(super) async fn serve(
        &self,
        session: Box<dyn Session>,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
        membership: &Membership,
    ) -> (Trouble, bool) {
        self.inner.lock().connection = Some(Connection {
            number: self.connection(),
            session,
            is_serving: false,
            under_way: VecDeque::new(),
            last: 0,
            is_gathering: false,
            is_holding: false,
        });
        match self.shake_hands(answers, membership).await {
            Ok(life) => {
                tracing::debug!(node = %self.title, votes = life.floor.is_some(), "connected");
                let trouble = self.serve_until_trouble(&life, answers).await.err();
                (trouble.unwrap_or_else(|| Trouble::Unreachable("the client was closed".into())), true)
            }
            Err(trouble) => (trouble, false),
        }
    }

    async fn serve_until_trouble(
        &self,
        life: &Incarnation,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
    ) -> Result<(), Trouble> {
        let epoch = life.epoch.ok_or_else(lost_memory)?;
        {
            // Do this before any caller queues a new request.
            let mut inner = self.inner.lock();
            let closing = inner.closing;
            inner.delivery.forget_expired(clock::now(), closing);
            inner.delivery.connected(life.floor.is_some());
            if let Some(connection) = &mut inner.connection {
                connection.is_serving = true;
            }
        }
        let mut watch = self.start_watch(epoch, life);
        let mut retry = runtime::now() + self.config.heartbeat;
        loop {
            if self.is_stale() {
                return Err(Trouble::Broken(REPLACED.into()));
            }
            if self.is_doubted() {
                self.check_node(&mut watch);
            }
            self.gather().await;
            self.flush_now();
            // Read the flag once: if the link is closed after the notes were sent, there may be more notes to send.
            let closing = self.inner.lock().closing;
            if closing || self.notes_due().is_some_and(|due| due <= runtime::now()) {
                self.send_notes();
            }
            if closing && self.is_done_closing() {
                return Ok(());
            }
            let next_check = (runtime::now() + self.config.silence_limit / SILENCE_CHECKS).min(retry).min(watch.due());
            let next_check = self.notes_due().map_or(next_check, |due| next_check.min(due));
            tokio::select! {
                biased;
                answer = answers.recv() => self.take(self.connection(), answer.ok_or_else(ended)?)?,
                answer = watch.answer() => self.take_check(&mut watch, answer)?,
                () = self.wake.notified() => {}
                () = runtime::sleep_until(next_check) => {
                    self.check_silence()?;
                    if runtime::now() >= watch.due() {
                        self.check_node(&mut watch);
                    }
                    if runtime::now() >= retry {
                        retry = runtime::now() + self.config.heartbeat;
                        // Failed releases are retried at this interval.
                        let mut inner = self.inner.lock();
                        inner.delivery.forget_expired(clock::now(), closing);
                        inner.delivery.retry_failed();
                    }
                }
            }
        }
    }

    /// Yields to runnable callers, if the link's task was asked to send the queue.
    async fn gather(&self) {
        let is_gathering = |inner: &Inner| inner.connection.as_ref().is_some_and(|connection| connection.is_gathering);
        if is_gathering(&self.inner.lock()) {
            runtime::yield_now().await;
            if let Some(connection) = &mut self.inner.lock().connection {
                connection.is_gathering = false;
            }
        }
    }

    /// Sends the queued requests, together with those of callers that are about to queue theirs. If too many batches
    /// are under way, the queued requests are sent after the next reply.
    pub(crate) fn flush(&self) {
        self.send_queued(true);
    }

    /// Like [`flush`](Self::flush), but without waiting for other callers: the runtime may end before the link's task
    /// runs.
    pub(crate) fn flush_now(&self) {
        self.send_queued(false);
    }

    fn send_queued(&self, may_gather: bool) {
        let mut inner = self.inner.lock();
        let Inner { connection, delivery, state, .. } = &mut *inner;
        let Some(connection) = connection.as_mut().filter(|connection| connection.is_serving) else { return };
        let life = if let LinkState::Up(life) = state { Some(*life) } else { None };
        while delivery.queued() > 0 && connection.has_room(delivery.queued()) {
            if may_gather && must_gather(connection.batches().count(), connection.last, delivery.queued()) {
                if !std::mem::replace(&mut connection.is_gathering, true) {
                    self.wake.notify_one();
                }
                return;
            }
            let mut messages = Vec::with_capacity(delivery.queued().min(BATCH_MAX));
            delivery.drain(BATCH_MAX, |request, sender| {
                messages.push(Message { key: Arc::clone(&sender.key), request });
            });
            if !messages.is_empty() {
                self.config.counters.sent(messages.len());
                connection.last = messages.len();
                connection.ask(Question::Votes(life, messages), connection.last, None);
            }
        }
    }

    /// Handles a message from a connection. Fails if the connection is unusable.
    pub(super) fn take(&self, connection: u64, answer: Answer) -> Result<(), Trouble> {
        let is_current = self.connection() == connection;
        match answer {
            Answer::End(trouble) => return Err(trouble),
            Answer::Hint(ticket, handoff) => {
                self.config.counters.heard_hint();
                // A vote from an earlier connection, or from a replaced memory, does not count.
                let handoff = handoff.filter(|_| is_current && !self.is_doubted());
                self.config.claims.hint(self.node, ticket, handoff);
            }
            Answer::Broken(key) => {
                self.config.counters.heard_hint();
                self.config.claims.notify_broken(&key);
            }
            Answer::MemoryChanged if is_current => {
                self.doubts.fetch_add(1, Ordering::AcqRel);
                self.wake.notify_one();
            }
            Answer::MemoryChanged => {}
            answer => return self.answered(connection, answer),
        }
        Ok(())
    }

    /// Handles the reply to the oldest open question. Ignores replies on an earlier connection, because their questions
    /// have already failed.
    fn answered(&self, connection: u64, answer: Answer) -> Result<(), Trouble> {
        let (under_way, notices) = {
            let mut inner = self.inner.lock();
            let current = inner.connection.as_mut().filter(|current| current.number == connection);
            let Some(current) = current else { return Ok(()) };
            let oldest = current.under_way.iter().position(|under_way| under_way.held.is_none());
            let Some(oldest) = oldest else { return Err(Trouble::Broken("a reply without a request".into())) };
            if current.under_way[oldest].requests > 0 {
                current.is_holding |= self.is_doubted();
                if current.is_holding {
                    current.under_way[oldest].held = Some(answer);
                    return Ok(());
                }
            }
            (current.under_way.remove(oldest), inner.replied(&answer))
        };
        under_way.map_or(Ok(()), |under_way| self.deliver(under_way, answer, notices))
    }

    /// Delivers the votes that were held back, in order.
    pub(super) fn release_held(&self) -> Result<(), Trouble> {
        loop {
            let (under_way, answer, notices) = {
                let mut inner = self.inner.lock();
                let Some(current) = inner.connection.as_mut().filter(|_| !self.is_doubted()) else { return Ok(()) };
                let Some(answer) = current.under_way.front_mut().and_then(|oldest| oldest.held.take()) else {
                    current.is_holding = false;
                    return Ok(());
                };
                let under_way = current.under_way.pop_front();
                let notices = inner.replied(&answer);
                (under_way, answer, notices)
            };
            under_way.map_or(Ok(()), |under_way| self.deliver(under_way, answer, notices))?;
        }
    }

    fn deliver(&self, under_way: UnderWay, answer: Answer, notices: Notices) -> Result<(), Trouble> {
        let now = clock::now();
        if matches!(answer, Answer::Votes(_) | Answer::Standing(..) | Answer::Roster(..)) {
            self.latency.record_trip(now.since(under_way.at));
        }
        match (answer, under_way.asker) {
            (Answer::Votes(replies), _) => {
                let trouble = self.notify(notices, under_way.at, replies, now);
                trouble.map_or(Ok(()), Err)?;
                self.flush();
            }
            // The asker may have stopped waiting.
            (answer, Some(asker)) => drop(asker.send(answer)),
            (answer, None) => {
                if let Answer::Failed(why) = answer {
                    tracing::debug!(node = %self.title, %why, "not written into the history");
                }
                self.nudge();
            }
        }
        Ok(())
    }

    /// Passes the replies to the senders of a batch that was sent at `at`. Returns why the connection is unusable: the
    /// node lost its memory, or a name has moved. Returns `None` if the connection is usable.
    ///
    /// All replies get the same time: validity is counted from the time of sending, and checked again later.
    fn notify(&self, (senders, is_news): Notices, at: Moment, replies: Vec<Reply>, now: Moment) -> Option<Trouble> {
        self.config.counters.received(replies.len());
        let mut trouble = None;
        for (sender, reply) in senders.into_iter().zip(replies) {
            let outcome = match reply {
                Reply::Voted { vote, at_micros } => {
                    if let Some(at_micros) = at_micros {
                        self.note_clock(at_micros, now);
                    }
                    if vote == Vote::Refusal(Refusal::WrongEpoch) {
                        trouble = Some(lost_memory());
                    }
                    Outcome::Voted { vote, elector: Elector::at(self.node), sent: at }
                }
                Reply::Failed(why) => Outcome::Silent(Silence::Failed(why)),
                Reply::Moved(why) => {
                    trouble = Some(Trouble::Broken(why.clone()));
                    Outcome::Silent(Silence::Broken(why))
                }
            };
            if let Some((attempt, round, Sender { voter: Some(voter), .. })) = sender {
                voter.vote(self.node, attempt, round, outcome, now);
            }
        }
        if is_news {
            self.news.notify_waiters();
        }
        if self.inner.lock().closing {
            self.wake.notify_one();
        }
        trouble
    }

    /// Sends a question other than a request for votes.
    pub(super) fn ask_node(&self, question: Question) -> Result<oneshot::Receiver<Answer>, Trouble> {
        let (asker, answer) = oneshot::channel();
        let mut inner = self.inner.lock();
        let connection = inner.connection.as_mut().ok_or_else(|| Trouble::Unreachable("not connected".into()))?;
        connection.ask(question, 0, Some(asker));
        Ok(answer)
    }

    /// Asks a node that can vote, and waits for the reply.
    pub(crate) async fn query(&self, question: Question, deadline: Duration) -> Result<Answer, Silence> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let answer = self.ask_node(question).map_err(|trouble| trouble.as_silence())?;
        match runtime::timeout(deadline, answer).await {
            Err(_) => Err(Silence::Late),
            Ok(Err(_)) => Err(ended().as_silence()),
            Ok(Ok(Answer::Failed(why))) => Err(Silence::Failed(why)),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    /// Fails if the oldest question has waited for its reply for too long.
    fn check_silence(&self) -> Result<(), Trouble> {
        let limit = self.config.silence_limit;
        let inner = self.inner.lock();
        let under_way = inner.connection.iter().flat_map(|connection| &connection.under_way);
        let oldest = under_way.into_iter().find(|under_way| under_way.held.is_none());
        if oldest.is_some_and(|oldest| clock::now().since(oldest.at) >= limit) {
            return Err(Trouble::Broken(format!("silent for {limit:?}")));
        }
        Ok(())
    }

    fn is_done_closing(&self) -> bool {
        let inner = self.inner.lock();
        inner.is_quiet() && inner.is_drained() && inner.delivery.queued() == 0 && self.config.claims.is_settled()
    }
}

/// Returns the error for a session that ended without a reason.
pub(super) fn ended() -> Trouble {
    Trouble::Broken("the connection ended".into())
}

#[cfg(test)]
mod tests;
