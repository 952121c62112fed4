//! Watches a node's memory with node commands. A voting node is checked at intervals: a [`NodeCommand::Look`] reads its
//! state. A quarantined node gets a [`NodeCommand::Claim`]: how much of its quarantine has passed. The claim that all
//! of it has passed ends the quarantine.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::node::{Epoch, Incarnation, NodeCommand};
use quorlock_core::rng::Rng;
use tokio::sync::oneshot::{self, error::RecvError};

use super::Link;
use super::LinkState;
use crate::link::quarantine_records::{self, ElapsedReport};
use crate::node::{Answer, Life, Question, Trouble};
use crate::platform::entropy::SystemRng;
use crate::platform::runtime::{self, Instant};

/// The shortest and longest interval between claims of how much of a quarantine has passed.
const CLAIM_INTERVAL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The state of the watch over a node's memory, for one connection.
pub(super) struct Watch {
    epoch: Epoch,
    /// The quarantine of the node; `None` if the node may vote.
    quarantine: Option<Quarantine>,
    /// The reply to the node command under way.
    under_way: Option<oneshot::Receiver<Answer>>,
    /// The time of the next node command.
    due: Instant,
    /// The link's `doubts` (how often the node reported that its memory may have been replaced) when the node command
    /// under way was sent.
    doubts: u64,
}

/// The state of a quarantine, as this connection knows it.
struct Quarantine {
    /// The report of the node that allows the highest claim.
    best: ElapsedReport,
    /// The length of the quarantine.
    length_micros: u64,
    claim_interval: Duration,
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
    /// Starts to watch a node that can vote, or is in quarantine. Sets the link's state.
    pub(super) fn start_watch(&self, epoch: Epoch, life: &Incarnation) -> Watch {
        self.latency.record_epoch(epoch);
        let watch = |quarantine: Option<Quarantine>| Watch {
            epoch,
            due: self.next_check(quarantine.as_ref()),
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
        let length_micros = life.quarantine_micros;
        let claim_interval = Duration::from_micros(length_micros / 20).clamp(CLAIM_INTERVAL.0, CLAIM_INTERVAL.1);
        watch(Some(Quarantine { best: ElapsedReport::new(life.elapsed_micros), length_micros, claim_interval }))
    }

    /// Returns when to send the next node command. For checks of a voting node the time is random, so that clients that
    /// started together do not check it together.
    fn next_check(&self, quarantine: Option<&Quarantine>) -> Instant {
        let (shortest, longest) = self.config.check_interval;
        let wait = quarantine.map(|quarantine| quarantine.claim_interval);
        runtime::now() + wait.unwrap_or_else(|| SystemRng::default().between(shortest, longest))
    }

    /// Sends the next node command, unless one is under way.
    pub(super) fn check_node(&self, watch: &mut Watch) {
        watch.due = self.next_check(watch.quarantine.as_ref());
        if watch.under_way.is_some() {
            return;
        }
        let node_command =
            watch.quarantine.as_ref().map_or(NodeCommand::Look, |Quarantine { best, length_micros, .. }| {
                NodeCommand::Claim { epoch: watch.epoch, elapsed_micros: best.claim().min(*length_micros) }
            });
        watch.doubts = self.doubts.load(Ordering::Acquire);
        watch.under_way = self.ask_node(Question::NodeCommand(node_command)).ok();
    }

    /// Takes the reply to the node command. Fails if the memory of the node was replaced, or the connection is
    /// unusable.
    pub(super) fn take_check(&self, watch: &mut Watch, answer: Result<Answer, RecvError>) -> Result<(), Trouble> {
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
                self.note_quarantine_end(epoch);
                self.set_state(LinkState::Up(Life { epoch, floor }));
                watch.quarantine = None;
            }
            (Some(quarantine), None) => {
                quarantine.best = quarantine.best.better(ElapsedReport::new(life.elapsed_micros));
                self.set_state(LinkState::Down(quarantine_records::silence(&life)));
            }
        }
        // If the node has reported another change of its memory since the command was sent, the votes stay held back
        // until the reply to the next command.
        self.release_held()
    }

    /// Returns whether the node's memory may have been replaced since the last successful check was sent.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Acquire) != self.settled_doubts.load(Ordering::Acquire)
    }

    /// Logs the end of a quarantine, and removes its record.
    pub(super) fn note_quarantine_end(&self, epoch: Epoch) {
        tracing::info!(node = %self.title, "out of quarantine");
        let records = self.config.records.clone();
        runtime::spawn(async move {
            runtime::blocking(move || records.remove(epoch)).await;
        });
    }
}

/// Returns the error for a node whose memory was replaced.
pub(super) fn lost_memory() -> Trouble {
    Trouble::Broken("the node lost its memory".into())
}
