//! A connection's life after the handshake: batches out, votes in, and the watch over its memory and its silence.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use quorlock_core::node::Incarnation;
use quorlock_core::ticket::Ticket;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Refusal, Silence, Vote};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::outbox::{Sent, State};
use super::vigil::{Watch, lost_memory};
use super::{Contact, Link};
use crate::clock;
use crate::node::{BoxFuture, Reply, Session, Trouble};

/// How many batches may be under way at once: enough to hide a round trip, few enough for batches to fill.
const IN_FLIGHT_MAX: usize = 8;

/// Where hints come out.
type Heard = mpsc::Receiver<Ticket>;

type Arrival = (u64, Result<Vec<Reply>, Trouble>);

/// A batch on its way.
struct Batch {
    number: u64,
    sent: Vec<Sent>,
    at: Moment,
    since: Instant,
}

/// The batches on their way, oldest first.
#[derive(Default)]
struct Flight {
    batches: VecDeque<Batch>,
    arrivals: FuturesOrdered<BoxFuture<Arrival>>,
    numbers: u64,
}

impl Link {
    /// Serves the connection until it ends, and says why it did.
    pub(super) async fn serve(&self, session: &mut dyn Session, life: Incarnation, heard: Heard) -> Trouble {
        let mut flight = Flight::default();
        let trouble = match self.serve_until_trouble(session, &life, heard, &mut flight).await {
            Ok(()) => Trouble::Unreachable("the client was closed".into()),
            Err(trouble) => trouble,
        };
        // What was on its way may still arrive there, but its answers will not reach us.
        for batch in flight.batches {
            for sent in batch.sent {
                if let Sent::Ask(ask) = sent {
                    ask.mark.set_stray(self.node);
                    ask.voter.vote(self.node, ask.mark.attempt, ask.round, Outcome::Silent(trouble.as_silence()));
                }
            }
        }
        trouble
    }

    async fn serve_until_trouble(
        &self,
        session: &mut dyn Session,
        life: &Incarnation,
        mut heard_hints: Heard,
        flight: &mut Flight,
    ) -> Result<(), Trouble> {
        let epoch = life.epoch.ok_or_else(lost_memory)?;
        let mut watch = self.take_up(epoch, life);
        self.settle_contact(Contact::Settled);
        self.outbox().owe_again(self.node, clock::now());
        let mut heard = Instant::now();
        let mut duty = heard + self.pace(&watch);
        loop {
            if self.is_stale() {
                return Err(Trouble::Broken("it is being replaced".into()));
            }
            if flight.batches.len() < IN_FLIGHT_MAX && self.send_batch(session, flight) {
                continue;
            }
            if flight.batches.is_empty() && self.is_done_closing() {
                return Ok(());
            }
            let patience = flight.batches.front().map(|batch| batch.since + self.config.silence_limit);
            tokio::select! {
                biased;
                Some((number, replies)) = flight.arrivals.next(), if !flight.arrivals.is_empty() => {
                    heard = Instant::now();
                    self.arrived(flight, number, replies)?;
                }
                standing = watch.answer() => {
                    heard = Instant::now();
                    self.watched(session, &mut watch, standing?)?;
                }
                Some(ticket) = heard_hints.recv() => {
                    self.config.traffic.heard_hint();
                    self.config.waiters.hint(self.node, ticket);
                }
                () = self.wake.notified(), if flight.batches.len() < IN_FLIGHT_MAX => {}
                () = tokio::time::sleep_until(patience.unwrap_or(duty).min(duty)) => {
                    if patience.is_some_and(|end| Instant::now() >= end) {
                        return Err(Trouble::Broken(format!("silent for {:?}", self.config.silence_limit)));
                    }
                    if Instant::now() >= duty {
                        let wanted = watch.is_vigil() || heard.elapsed() >= self.config.heartbeat;
                        if wanted {
                            self.look_after(session, &mut watch);
                        }
                        // Releases that were answered with an error are tried again at this pace.
                        if flight.batches.is_empty() {
                            self.outbox().owe_again(self.node, clock::now());
                        } else {
                            self.outbox().owe_failed();
                        }
                        duty = if wanted { Instant::now() + self.pace(&watch) } else { heard + self.config.heartbeat };
                    }
                }
            }
        }
    }

    fn send_batch(&self, session: &mut dyn Session, flight: &mut Flight) -> bool {
        let now = clock::now();
        let (letters, sent, life) = {
            let mut outbox = self.outbox();
            let life = if let State::Up(life) = outbox.state { Some(life) } else { None };
            let (letters, sent) = outbox.drain(self.node);
            (letters, sent, life)
        };
        if letters.is_empty() {
            return false;
        }
        self.config.traffic.sent(letters.len());
        flight.numbers += 1;
        let number = flight.numbers;
        flight.batches.push_back(Batch { number, sent, at: now, since: Instant::now() });
        let replies = session.send(life, letters);
        flight.arrivals.push_back(Box::pin(async move { (number, replies.await) }));
        true
    }

    fn arrived(&self, flight: &mut Flight, number: u64, replies: Result<Vec<Reply>, Trouble>) -> Result<(), Trouble> {
        let replies = replies?;
        let Some(position) = flight.batches.iter().position(|batch| batch.number == number) else { return Ok(()) };
        let Some(batch) = flight.batches.remove(position) else { return Ok(()) };
        self.config.traffic.received(replies.len());
        let mut new_life = false;
        for (sent, reply) in batch.sent.into_iter().zip(replies) {
            let outcome = match reply {
                Reply::Voted { vote, at_micros } => {
                    if let Some(at_micros) = at_micros {
                        self.note_clock(at_micros, clock::now());
                    }
                    new_life |= vote == Vote::Refusal(Refusal::WrongEpoch);
                    Outcome::Voted { vote, sent: batch.at }
                }
                Reply::Failed(why) => Outcome::Silent(Silence::Failed(why)),
            };
            self.hand_over(sent, outcome);
        }
        if new_life { Err(lost_memory()) } else { Ok(()) }
    }

    fn hand_over(&self, sent: Sent, outcome: Outcome) {
        match (sent, outcome) {
            (Sent::Ask(ask), outcome) => ask.voter.vote(self.node, ask.mark.attempt, ask.round, outcome),
            // Owed until it is acknowledged.
            (Sent::Release(attempt), Outcome::Silent(_)) => self.outbox().fail(attempt),
            (Sent::Release(attempt), outcome) => {
                let settled = self.outbox().settle(attempt);
                if let Some(voter) = settled.and_then(|owed| owed.voter) {
                    voter.vote(self.node, attempt, 0, outcome);
                }
                self.news.notify_waiters();
            }
        }
    }

    fn is_done_closing(&self) -> bool {
        let outbox = self.outbox();
        outbox.closing && outbox.is_empty() && outbox.owed() == 0 && self.config.pending.is_none()
    }

    fn pace(&self, watch: &Watch) -> Duration {
        watch.pace().unwrap_or(self.config.heartbeat)
    }
}
