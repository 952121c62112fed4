//! The handshake of a connection: identifies the node, and checks whether the node lost its memory and may vote.

use std::sync::atomic::Ordering;

use quorlock_core::node::{Epoch, Identity, Incarnation, NodeCommand, Standing};

use super::Link;
use super::LinkState;
use super::connection::ended;
use super::heartbeat::lost_memory;
use crate::link::membership::{Admission, Membership};
use crate::link::quarantine_records::ElapsedReport;
use crate::node::{Answer, Question, Trouble};
use crate::platform::clock;
use crate::platform::entropy;
use crate::platform::runtime;
use quorlock_core::vote::Silence;
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::RecvError;

const SUSPENDED: &str = "a change of the cluster's constants was not completed: run `quorlock nodes \
                         reconfigure` again";

impl Link {
    /// Reads the node's state, waits until the node may join the cluster, and sends [`NodeCommand::Hello`]. Returns the
    /// node's current incarnation (life of its memory), which may be in quarantine.
    pub(super) async fn shake_hands(
        &self,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
        membership: &Membership,
    ) -> Result<Incarnation, Trouble> {
        loop {
            let (look, identity) = self.node_command(answers, NodeCommand::Look).await?;
            let changed = membership.changed();
            membership.note(self.node, &identity.run, look.life.as_ref()).map_err(Trouble::Unfit)?;
            match membership.admit(self.node) {
                Admission::Refused(why) => return Err(Trouble::Unfit(why)),
                Admission::Wait(why) => {
                    self.set_state(LinkState::Down(Silence::Waiting(why.clone())));
                    if self.inner.lock().closing {
                        return Err(Trouble::Broken("the client was closed".into()));
                    }
                    // Read the state again after any wakeup: the node may have changed since.
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = self.wake.notified() => {}
                        () = runtime::sleep(self.config.heartbeat) => self.note_outage(Silence::Waiting(why)),
                    }
                }
                Admission::Hello { constants, founders } => {
                    let fresh = Epoch(entropy::bits());
                    let trust = self.config.trust;
                    let hello = NodeCommand::Hello { identity, fresh, constants, founders, trust };
                    let doubts = self.doubts.load(Ordering::Acquire);
                    let (Standing { accepted, life, .. }, identity) = self.node_command(answers, hello).await?;
                    membership.note(self.node, &identity.run, life.as_ref()).map_err(Trouble::Unfit)?;
                    if accepted && life.as_ref().is_some_and(|life| life.is_replaced_by(&identity)) {
                        return Err(lost_memory());
                    }
                    self.settled_doubts.store(doubts, Ordering::Release);
                    match life {
                        Some(life) if accepted && life.suspended => return Err(Trouble::Unfit(SUSPENDED.into())),
                        Some(life) if accepted => return self.resume_quarantine(answers, life).await,
                        // The node has accepted the hello of another client. Read the state again.
                        _ => runtime::sleep(super::BACKOFF_MIN).await,
                    }
                }
            }
        }
    }

    /// Tells a quarantined node how much of its quarantine has passed by this host's record. If the host has no better
    /// record than the node, writes one.
    async fn resume_quarantine(
        &self,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
        life: Incarnation,
    ) -> Result<Incarnation, Trouble> {
        let Some(epoch) = life.epoch.filter(|_| life.floor.is_none()) else { return Ok(life) };
        let (reported, records) = (ElapsedReport::new(life.elapsed_micros), self.config.records.clone());
        let resumed = runtime::blocking(move || records.resume(epoch, reported));
        // Clients must be able to use the node even if the disk with the records hangs.
        let limit = self.config.handshake_deadline;
        let in_time = runtime::timeout(limit, resumed).await;
        if in_time.is_err() {
            self.config.records.note_trouble(format_args!("no answer in {limit:?}"));
        }
        let Some(recorded) = in_time.ok().flatten().flatten() else { return Ok(life) };
        let elapsed_micros = recorded.claim().min(life.quarantine_micros);
        let (standing, identity) = self.node_command(answers, NodeCommand::Claim { epoch, elapsed_micros }).await?;
        let is_same = |life: &Incarnation| life.epoch == Some(epoch) && !life.is_replaced_by(&identity);
        let life = standing.life.filter(is_same).ok_or_else(lost_memory)?;
        if life.floor.is_some() {
            self.note_quarantine_end(epoch);
        }
        Ok(life)
    }

    /// Sends a node command, and waits for the reply. Handles other messages of the connection meanwhile.
    async fn node_command(
        &self,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
        command: NodeCommand,
    ) -> Result<(Standing, Identity), Trouble> {
        let limit = self.config.handshake_deadline;
        let mut answer = self.ask_node(Question::NodeCommand(command))?;
        let answered = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => return self.standing(answer),
                    other = answers.recv() => self.take(self.connection(), other.ok_or_else(ended)?)?,
                }
            }
        };
        let in_time = runtime::timeout(limit, answered).await;
        in_time.unwrap_or_else(|_| Err(Trouble::Broken(format!("silent for {limit:?}"))))
    }

    /// Reads the reply to a node command, and the node's clock in it.
    pub(super) fn standing(&self, answer: Result<Answer, RecvError>) -> Result<(Standing, Identity), Trouble> {
        match answer {
            Ok(Answer::Standing(standing, identity)) => {
                self.note_clock(standing.at_micros, clock::now());
                Ok((*standing, identity))
            }
            Ok(_) => Err(Trouble::Broken("an answer out of turn".into())),
            Err(_) => Err(ended()),
        }
    }
}
