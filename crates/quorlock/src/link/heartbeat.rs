//! The watch over a node's memory: the heartbeat of a node that votes, and the claims that end a quarantine.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::node::{Epoch, Incarnation, NodeCommand};
use quorlock_core::rng::Rng;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::Link;
use super::state::LinkState;
use crate::link::quarantine_records::{self, Sighting};
use crate::node::{Answer, Life, Question, Trouble};
use crate::platform::entropy::SystemRng;
use crate::platform::runtime::{self, Instant};

/// How often claims are sent, at most and at least.
const PACE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The watch over the memory behind one connection.
pub(super) struct Watch {
    epoch: Epoch,
    /// While the node is quarantined.
    quarantine: Option<Quarantine>,
    /// The answer to the node command that is under way.
    under_way: Option<oneshot::Receiver<Answer>>,
    /// When to send the next one.
    due: Instant,
    /// How many doubts there were when the node command that is under way was sent.
    doubts: u64,
}

/// What one connection knows of a quarantine.
struct Quarantine {
    best: Sighting,
    micros: u64,
    pace: Duration,
}

impl Watch {
    /// When the node has to be looked at next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The answer to the node command that is under way, whenever it comes.
    pub(super) async fn answer(&mut self) -> Result<Answer, RecvError> {
        match &mut self.under_way {
            Some(answer) => answer.await,
            None => std::future::pending().await,
        }
    }
}

impl Link {
    /// Ready at once, or when the quarantine is over.
    pub(super) fn take_up(&self, epoch: Epoch, life: &Incarnation) -> Watch {
        self.latency.lives(epoch);
        let watch = |quarantine: Option<Quarantine>| Watch {
            epoch,
            due: self.next_look(quarantine.as_ref()),
            quarantine,
            under_way: None,
            doubts: 0,
        };
        if let Some(floor) = life.floor {
            self.set_state(LinkState::Up(Life { epoch, floor }));
            return watch(None);
        }
        let quarantined = quarantine_records::silence(life);
        self.set_state(LinkState::Down(quarantined.clone()));
        self.note_outage(quarantined);
        let micros = life.quarantine_micros;
        let pace = Duration::from_micros(micros / 20).clamp(PACE.0, PACE.1);
        watch(Some(Quarantine { best: Sighting::new(life.elapsed_micros), micros, pace }))
    }

    /// When to look at the node next, busy or not. Clients that began together do not look together for long.
    fn next_look(&self, quarantine: Option<&Quarantine>) -> Instant {
        let (least, most) = self.config.look;
        let wait = quarantine.map(|quarantine| quarantine.pace);
        runtime::now() + wait.unwrap_or_else(|| SystemRng::default().between(least, most))
    }

    /// Sends the next word about the node's memory, unless one is under way.
    pub(super) fn look_after(&self, watch: &mut Watch) {
        watch.due = self.next_look(watch.quarantine.as_ref());
        if watch.under_way.is_some() {
            return;
        }
        let node_command =
            watch.quarantine.as_ref().map_or(NodeCommand::Look, |Quarantine { best, micros, .. }| NodeCommand::Claim {
                epoch: watch.epoch,
                elapsed_micros: best.claim().min(*micros),
            });
        watch.doubts = self.doubts.load(Ordering::Acquire);
        watch.under_way = self.ask_node(Question::NodeCommand(node_command)).ok();
    }

    /// Takes the answer. An error means that the node's memory is another one.
    pub(super) fn watched(&self, watch: &mut Watch, answer: Result<Answer, RecvError>) -> Result<(), Trouble> {
        watch.under_way = None;
        let (standing, identity) = self.standing(answer)?;
        let epoch = watch.epoch;
        let is_same = |life: &Incarnation| life.epoch == Some(epoch) && !life.is_replaced_by(&identity);
        let life = standing.life.filter(is_same).ok_or_else(lost_memory)?;
        self.settled_doubts.store(watch.doubts, Ordering::Release);
        match (&mut watch.quarantine, life.floor) {
            (None, Some(_)) => {}
            (None, None) => return Err(lost_memory()),
            (Some(_), Some(floor)) => {
                self.out_of_quarantine(epoch);
                self.set_state(LinkState::Up(Life { epoch, floor }));
                watch.quarantine = None;
            }
            (Some(quarantine), None) => {
                quarantine.best = quarantine.best.better(Sighting::new(life.elapsed_micros));
                self.set_state(LinkState::Down(quarantine_records::silence(&life)));
            }
        }
        // If the answer is older than the last doubt, the votes wait for the next look.
        self.release_held()
    }

    /// Whether the node's memory may have been replaced since the last look.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Acquire) != self.settled_doubts.load(Ordering::Acquire)
    }

    /// Tells that a quarantine is over, and removes the record of it.
    pub(super) fn out_of_quarantine(&self, epoch: Epoch) {
        tracing::info!(node = %self.title, "out of quarantine");
        if self.config.records.have_folder() {
            let records = self.config.records.clone();
            runtime::spawn(async move {
                runtime::blocking(move || records.remove(epoch)).await;
            });
        }
    }
}

pub(super) fn lost_memory() -> Trouble {
    Trouble::Broken("the node lost its memory".into())
}
