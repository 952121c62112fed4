//! A connection's life after the handshake: batches out, votes in, and the watch over its memory and its silence.
//!
//! Batches are sent by whoever asks, and by whoever brings answers; where several ask, by the link's own task, which looks
//! after the rest.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::Duration;

use quorlock_core::node::Incarnation;
use quorlock_core::ticket::{Handoff, Ticket};
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Refusal, Silence, Vote};
use tokio::sync::{mpsc, oneshot};

use super::heartbeat::{Watch, lost_memory};
use super::history::Recalling;
use super::outbox::{BATCH_MAX, Sent, State};
use super::{Contact, Link};
use crate::node::{Answer, Page, Reply, Search, Session, Trouble};
use crate::platform::clock;
use crate::platform::runtime::{self, Instant};

/// How many batches may be under way to a node that is near: one that it works on, and the next. What comes meanwhile
/// waits for an answer, and becomes a batch.
const WINDOW_NEAR: usize = 2;
/// A batch of one does not hold up the next: its caller's release may come before all nodes have answered the acquire. Where
/// batches are larger, those who come meanwhile are the next one: in two, they would be written, read and answered twice.
const ALONE: usize = 1;
/// How many to one that is far: enough to hide the way there and back.
const WINDOW_FAR: usize = 8;
/// A node is far, or busy, when an answer takes longer than this.
const NEAR: Duration = Duration::from_millis(1);
/// How many times the task looks before it gives up on a connection that is silent.
const LOOKS: u32 = 4;

/// A batch on its way.
struct Batch {
    sent: Vec<Sent>,
    at: Moment,
    since: Instant,
}

/// A connection that is being served.
pub(super) struct Port {
    /// Which of the link's connections it is.
    connection: u64,
    session: Box<dyn Session>,
    /// On their way, oldest first: they are answered in this order.
    batches: VecDeque<Batch>,
    /// How many requests the last one had.
    last: usize,
    /// The link's task was told to send what is queued, when those who are awake have had their turn.
    is_gathering: bool,
    /// Replies that wait for a look to say that the node's memory is still the one that was asked. `None` while nothing has
    /// to wait.
    held: Option<VecDeque<Vec<Reply>>>,
    /// Who waits for a page, in the order of asking.
    searches: VecDeque<oneshot::Sender<Result<Page, Silence>>>,
    /// What was asked about the history, in the order of asking.
    pub(super) recalls: VecDeque<Recalling>,
}

impl Port {
    pub(super) fn session(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    /// Whether there is room for another batch on the way, when so many requests wait.
    fn has_room(&self, waiting: usize) -> bool {
        let Some(oldest) = self.batches.front() else { return true };
        may_leave(self.batches.len(), oldest.sent.len(), waiting, || runtime::since(oldest.since) > NEAR)
    }

    /// Whether to wait for those who are awake, with so many requests.
    fn gathers(&self, waiting: usize) -> bool {
        gathers(self.batches.len(), self.last, waiting)
    }

    pub(super) fn is(&self, connection: u64) -> bool {
        self.connection == connection
    }
}

/// Whether another batch may leave while so many are under way, the oldest of so many requests, and so many requests wait.
fn may_leave(under_way: usize, oldest: usize, waiting: usize, is_far: impl FnOnce() -> bool) -> bool {
    under_way < WINDOW_NEAR && (oldest <= ALONE || waiting >= BATCH_MAX) || under_way < WINDOW_FAR && is_far()
}

/// Whether a batch that may leave waits for those who are awake: where the last one had several callers, others have heard
/// the same answers and are about to ask, too. The first would leave alone, and the rest behind it.
fn gathers(under_way: usize, last: usize, waiting: usize) -> bool {
    under_way == 0 && last > ALONE && waiting < BATCH_MAX
}

impl Link {
    /// Serves the connection until it ends, and says why it did.
    pub(super) async fn serve(
        &self,
        session: Box<dyn Session>,
        life: Incarnation,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
    ) -> Trouble {
        let connection = self.connection();
        *self.port() = Some(Port {
            connection,
            session,
            batches: VecDeque::new(),
            last: 0,
            is_gathering: false,
            held: None,
            searches: VecDeque::new(),
            recalls: VecDeque::new(),
        });
        let trouble = match self.serve_until_trouble(&life, answers).await {
            Ok(()) => Trouble::Unreachable("the client was closed".into()),
            Err(trouble) => trouble,
        };
        let closed = self.port().take();
        // What was on its way may still arrive there, but its answers will not reach us.
        for sent in closed.into_iter().flat_map(|port| port.batches).flat_map(|batch| batch.sent) {
            if let Sent::Ask(ask) = sent {
                ask.mark.set_stray(self.node);
                let outcome = Outcome::Silent(trouble.as_silence());
                ask.voter.vote(self.node, ask.mark.attempt, ask.round, outcome, clock::now());
            }
        }
        trouble
    }

    async fn serve_until_trouble(
        &self,
        life: &Incarnation,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
    ) -> Result<(), Trouble> {
        let epoch = life.epoch.ok_or_else(lost_memory)?;
        // Before anybody asks anew.
        self.outbox().owe_again(self.node, clock::now());
        let mut watch = self.take_up(epoch, life);
        self.settle_contact(Contact::Settled);
        let mut retry = runtime::now() + self.config.heartbeat;
        loop {
            if self.is_stale() {
                return Err(Trouble::Broken("it is being replaced".into()));
            }
            self.gather().await;
            self.flush_now();
            // Read once: a link that is closed after the notes were sent may have others to send.
            let closing = self.outbox().closing;
            if closing || self.notes_due().is_some_and(|due| due <= runtime::now()) {
                self.send_notes();
            }
            if closing && self.is_quiet() && self.is_done_closing() {
                return Ok(());
            }
            let look = (runtime::now() + self.config.silence_limit / LOOKS).min(retry).min(watch.due());
            let look = self.notes_due().map_or(look, |due| look.min(due));
            tokio::select! {
                biased;
                answer = answers.recv() => match answer {
                    Some(Answer::Standing(standing, identity)) => self.watched(&mut watch, *standing, &identity)?,
                    Some(Answer::End(trouble)) => return Err(trouble),
                    Some(Answer::Replies(replies)) => self.arrived(self.connection(), replies)?,
                    Some(Answer::Hint(ticket, handoff)) => self.hinted(ticket, handoff),
                    Some(Answer::Page(page)) => self.found(self.connection(), page),
                    Some(Answer::History(told)) => self.recalled(self.connection(), told),
                    Some(Answer::Broken(key)) => self.heard_of_break(&key),
                    Some(Answer::MemoryChanged) => self.look_after(&mut watch),
                    None => return Err(Trouble::Broken("the session has ended".into())),
                },
                () = self.wake.notified() => {}
                () = runtime::sleep_until(look) => {
                    self.check_silence(&watch)?;
                    if runtime::now() >= watch.due() {
                        self.look_after(&mut watch);
                    }
                    if runtime::now() >= retry {
                        retry = runtime::now() + self.config.heartbeat;
                        // Releases that were answered with an error are tried again at this pace.
                        if self.is_quiet() {
                            self.outbox().owe_again(self.node, clock::now());
                        } else {
                            self.outbox().owe_failed(self.node, clock::now());
                        }
                    }
                }
            }
        }
    }

    /// Lets those who are awake ask first, if somebody has left it to the link's task to send.
    async fn gather(&self) {
        let is_gathering = self.port().as_ref().is_some_and(|port| port.is_gathering);
        if is_gathering {
            runtime::yield_now().await;
            if let Some(port) = self.port().as_mut() {
                port.is_gathering = false;
            }
        }
    }

    /// Sends what is queued together with the requests of other callers who are about to ask. If so much is under way that it
    /// is better to wait for more, the next replies send it.
    pub(crate) fn flush(&self) {
        self.send_queued(true);
    }

    /// Like [`flush`](Self::flush), but without waiting for other callers: the runtime may end before the link's task runs.
    pub(crate) fn flush_now(&self) {
        self.send_queued(false);
    }

    fn send_queued(&self, may_gather: bool) {
        let mut port = self.port();
        let Some(port) = port.as_mut() else { return };
        loop {
            let (messages, sent, life) = {
                let mut outbox = self.outbox();
                let waiting = outbox.len();
                if waiting == 0 || !port.has_room(waiting) {
                    return;
                }
                if may_gather && port.gathers(waiting) {
                    if !std::mem::replace(&mut port.is_gathering, true) {
                        self.wake.notify_one();
                    }
                    return;
                }
                let (messages, sent) = outbox.drain(self.node);
                let life = if let State::Up(life) = outbox.state { Some(life) } else { None };
                (messages, sent, life)
            };
            if messages.is_empty() {
                return;
            }
            self.config.traffic.sent(messages.len());
            // Before anything of it has left: a grant may be as old as that.
            let at = clock::now();
            port.session.send(life, messages);
            port.last = sent.len();
            port.batches.push_back(Batch { sent, at, since: runtime::now() });
        }
    }

    /// The oldest batch was answered. An error means that the connection is of no use any more.
    ///
    /// What an earlier connection still has to say is of no interest: its batches are lost already.
    pub(super) fn arrived(&self, connection: u64, replies: Vec<Reply>) -> Result<(), Trouble> {
        let batch = {
            let mut port = self.port();
            let Some(port) = port.as_mut().filter(|port| port.connection == connection) else { return Ok(()) };
            if self.is_doubted() {
                port.held.get_or_insert_default();
            }
            if let Some(held) = &mut port.held {
                held.push_back(replies);
                return Ok(());
            }
            port.batches.pop_front()
        };
        self.answered(batch, replies)
    }

    /// Delivers the replies that waited for a look, in their order.
    pub(super) fn release_held(&self) -> Result<(), Trouble> {
        loop {
            let (batch, replies) = {
                let mut port = self.port();
                let Some(port) = port.as_mut() else { return Ok(()) };
                let Some(held) = port.held.as_mut().filter(|_| !self.is_doubted()) else { return Ok(()) };
                let Some(replies) = held.pop_front() else {
                    port.held = None;
                    return Ok(());
                };
                (port.batches.pop_front(), replies)
            };
            self.answered(batch, replies)?;
        }
    }

    fn answered(&self, batch: Option<Batch>, replies: Vec<Reply>) -> Result<(), Trouble> {
        let Some(batch) = batch else { return Ok(()) };
        if let Some(trouble) = self.tell_all(batch, replies) {
            return Err(trouble);
        }
        self.flush();
        Ok(())
    }

    /// Tells everyone what has come of a batch. Returns why the connection is of no use any more, if it
    /// is: the node has forgotten us, or a name has moved.
    ///
    /// One look at the clock for all of them: validity is counted from when they were sent, and looked at again.
    fn tell_all(&self, batch: Batch, replies: Vec<Reply>) -> Option<Trouble> {
        let (Batch { mut sent, at, .. }, now) = (batch, clock::now());
        self.config.traffic.received(replies.len());
        let mut trouble = None;
        self.latency.took(now.since(at));
        let is_news = self.outbox().settle(&mut sent, &replies);
        for (sent, reply) in sent.into_iter().zip(replies) {
            let sent = match (sent, &reply) {
                (Sent::Ask(ask), Reply::Moved(_)) => self.outbox().keep_moved(ask).map(Sent::Ask),
                (sent, _) => Some(sent),
            };
            let outcome = match reply {
                Reply::Voted { vote, at_micros } => {
                    if let Some(at_micros) = at_micros {
                        self.note_clock(at_micros, now);
                    }
                    if vote == Vote::Refusal(Refusal::WrongEpoch) {
                        trouble = Some(lost_memory());
                    }
                    Outcome::Voted { vote, sent: at }
                }
                Reply::Failed(why) => Outcome::Silent(Silence::Failed(why)),
                Reply::Moved(why) => {
                    trouble = Some(Trouble::Broken(why.clone()));
                    Outcome::Silent(Silence::Broken(why))
                }
            };
            match (sent, outcome) {
                // It waits for the next connection.
                (None, _) => {}
                (Some(Sent::Ask(ask)), outcome) => {
                    if let Outcome::Voted { vote, .. } = &outcome
                        && ask.queues()
                    {
                        ask.mark.set_answered(self.node, matches!(vote, Vote::Grant { .. }));
                    }
                    ask.voter.vote(self.node, ask.mark.attempt, ask.round, outcome, now);
                }
                (Some(Sent::Release { attempt, voter }), outcome) => {
                    if let Some(voter) = voter {
                        voter.vote(self.node, attempt, 0, outcome, now);
                    }
                }
            }
        }
        if is_news {
            self.news.notify_waiters();
        }
        if self.outbox().closing {
            self.wake.notify_one();
        }
        trouble
    }

    /// Asks for a page of keys. Whoever asks sees to it that it does not wait for ever.
    pub(crate) fn search(&self, search: Search) -> Result<oneshot::Receiver<Result<Page, Silence>>, Silence> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let (sender, receiver) = oneshot::channel();
        let mut port = self.port();
        let port = port.as_mut().ok_or_else(|| Silence::Unreachable("not connected".into()))?;
        port.searches.push_back(sender);
        port.session.search(search);
        Ok(receiver)
    }

    /// A page has come, of this connection.
    pub(super) fn found(&self, connection: u64, page: Result<Page, String>) {
        let mut port = self.port();
        if let Some(port) = port.as_mut().filter(|port| port.connection == connection)
            && let Some(asker) = port.searches.pop_front()
        {
            // Whoever has lost patience is gone.
            let _ = asker.send(page.map_err(Silence::Failed));
        }
    }

    /// Passes on a hint, or a vote that came as one.
    pub(super) fn hinted(&self, ticket: Ticket, handoff: Option<Handoff>) {
        self.config.traffic.heard_hint();
        self.config.waiters.hint(self.node, ticket, handoff);
    }

    /// Passes on that a lock was broken: whoever holds it asks the nodes at once.
    pub(super) fn heard_of_break(&self, key: &str) {
        self.config.traffic.heard_hint();
        self.config.breaks.broken(key);
    }

    /// A connection that owes an answer for too long is of no use.
    fn check_silence(&self, watch: &Watch) -> Result<(), Trouble> {
        let limit = self.config.silence_limit;
        let oldest = self.port().as_ref().and_then(|port| Some(port.batches.front()?.since));
        let asked = oldest.into_iter().chain(watch.asked());
        if asked.min().is_some_and(|since| runtime::since(since) >= limit) {
            return Err(Trouble::Broken(format!("silent for {limit:?}")));
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.port().as_ref().is_none_or(|port| port.batches.is_empty() && port.recalls.is_empty())
    }

    pub(super) fn port(&self) -> MutexGuard<'_, Option<Port>> {
        self.port.lock()
    }

    fn is_done_closing(&self) -> bool {
        let outbox = self.outbox();
        outbox.closing && outbox.is_empty() && outbox.owed() == 0 && self.config.pending.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_a_larger_batch_is_under_way_to_a_near_node_is_one_batch() {
        let near = |under_way, oldest, waiting| may_leave(under_way, oldest, waiting, || false);
        assert!(near(1, ALONE, 1), "a release does not wait for the answer to its acquire");
        assert!(!near(1, ALONE + 1, BATCH_MAX - 1));
        assert!(near(1, ALONE + 1, BATCH_MAX), "a whole batch is worth sending");
        assert!(!near(WINDOW_NEAR, 1, BATCH_MAX));
    }

    #[test]
    fn where_the_last_batch_had_several_callers_the_next_one_waits_for_them() {
        assert!(!gathers(0, ALONE, 1), "whoever is alone does not wait for others");
        assert!(gathers(0, ALONE + 1, 1));
        assert!(!gathers(0, ALONE + 1, BATCH_MAX), "a whole batch is worth sending");
        assert!(!gathers(1, ALONE + 1, 1), "there are answers to come, and whoever brings them sends");
    }

    #[test]
    fn to_a_node_that_is_far_more_is_under_way() {
        assert!(may_leave(WINDOW_FAR - 1, BATCH_MAX, 1, || true));
        assert!(!may_leave(WINDOW_FAR, 1, BATCH_MAX, || true));
    }
}
