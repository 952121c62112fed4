//! Watches a node's memory: checks a voting node at intervals. To a quarantined node it sends claims of how much of the
//! quarantine has passed, which end the quarantine.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::node::{Epoch, Incarnation, NodeCommand};
use quorlock_core::rng::Rng;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::Link;
use super::LinkState;
use crate::link::quarantine_records::{self, Sighting};
use crate::node::{Answer, Life, Question, Trouble};
use crate::platform::entropy::SystemRng;
use crate::platform::runtime::{self, Instant};

/// The shortest and longest interval between claims.
const PACE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The state of the watch over a node's memory, for one connection.
pub(super) struct Watch {
    epoch: Epoch,
    /// The quarantine; `None` if the node may vote.
    quarantine: Option<Quarantine>,
    /// The reply to the node command under way.
    under_way: Option<oneshot::Receiver<Answer>>,
    /// The time of the next node command.
    due: Instant,
    /// The number of doubts (signs that the memory may have been replaced) when the node command under way was sent.
    doubts: u64,
}

/// The state of a quarantine, as this connection knows it.
struct Quarantine {
    best: Sighting,
    micros: u64,
    pace: Duration,
}

impl Watch {
    /// Returns when the node must be checked next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Waits for the reply to the node command under way. Waits forever if no command is under way.
    pub(super) async fn answer(&mut self) -> Result<Answer, RecvError> {
        match &mut self.under_way {
            Some(answer) => answer.await,
            None => std::future::pending().await,
        }
    }
}

impl Link {
    /// Starts to watch the node. The node can vote now, or after its quarantine.
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

    /// Returns when to check the node next, even if it is busy. The jitter spreads out clients that started together.
    fn next_look(&self, quarantine: Option<&Quarantine>) -> Instant {
        let (least, most) = self.config.look;
        let wait = quarantine.map(|quarantine| quarantine.pace);
        runtime::now() + wait.unwrap_or_else(|| SystemRng::default().between(least, most))
    }

    /// Sends the next look or claim, unless one is under way.
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

    /// Takes the reply. An error means that the node's memory was replaced.
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
        // If another doubt has come up since the command was sent, the votes wait for the reply to the next command.
        self.release_held()
    }

    /// Returns whether the node's memory may have been replaced since the last look.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Acquire) != self.settled_doubts.load(Ordering::Acquire)
    }

    /// Logs the end of a quarantine, and removes its record.
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
