//! Watching over a node's memory: the heartbeat of a ripe node, and the witness of one that is not.

use std::time::Duration;

use quorlock_core::node::{Epoch, Errand, Incarnation, quarantine_micros};
use quorlock_core::vote::Silence;

use super::Link;
use super::outbox::State;
use crate::clock::Stopwatch;
use crate::entropy;
use crate::node::{Life, Session, Trouble};

/// How often a witness adds up, at most and at least.
const PACE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// One connection's part in witnessing an unripe node.
pub(super) struct Vigil {
    /// Fresh for each connection: what an old one still had under way must not count.
    witness: u128,
    /// Runs since the last accepted word, while this connection is the witness.
    since: Option<Stopwatch>,
    pub(super) pace: Duration,
}

impl Link {
    /// Ready at once, or on watch until the node is ripe.
    pub(super) fn take_up(&self, epoch: Epoch, life: &Incarnation) -> Option<Vigil> {
        if let Some(floor) = life.floor {
            self.set_state(State::Up(Life { epoch, floor }));
            return None;
        }
        self.set_state(State::Down(Silence::Quarantined(quarantine_left(life))));
        let pace = Duration::from_micros(quarantine_micros(&life.constants) / 20).clamp(PACE.0, PACE.1);
        Some(Vigil { witness: entropy::bits(), since: None, pace })
    }

    /// Looks after the node. An error means that its memory is another one, or that it does not answer.
    pub(super) async fn watch(
        &self,
        session: &mut dyn Session,
        epoch: Epoch,
        vigil: Option<Vigil>,
    ) -> Result<Option<Vigil>, Trouble> {
        let Some(mut vigil) = vigil else {
            let life = self.same_life(session, epoch, Errand::Look).await?.1;
            return if life.floor.is_some() { Ok(None) } else { Err(lost_memory()) };
        };
        let witness = vigil.witness;
        let errand = match vigil.since {
            // From the receipt of the last word to the sending of this one: no more than that is known to have stood.
            Some(since) => Errand::Add { epoch, witness, micros: since.at_least().as_micros() as u64 },
            None => Errand::Witness { epoch, witness },
        };
        let (accepted, mut life) = self.same_life(session, epoch, errand).await?;
        vigil.since = accepted.then(Stopwatch::start);
        if life.floor.is_none() && quarantine_left(&life).is_zero() {
            life = self.same_life(session, epoch, Errand::Ripen { epoch }).await?.1;
        }
        if let Some(floor) = life.floor {
            tracing::info!(node = %self.title, "out of quarantine");
            self.set_state(State::Up(Life { epoch, floor }));
            return Ok(None);
        }
        self.set_state(State::Down(Silence::Quarantined(quarantine_left(&life))));
        Ok(Some(vigil))
    }

    async fn same_life(
        &self,
        session: &mut dyn Session,
        epoch: Epoch,
        errand: Errand,
    ) -> Result<(bool, Incarnation), Trouble> {
        let standing = self.errand(session, errand).await?;
        match standing.life {
            Some(life) if life.epoch == Some(epoch) => Ok((standing.accepted, life)),
            _ => Err(lost_memory()),
        }
    }
}

pub(super) fn lost_memory() -> Trouble {
    Trouble::Broken("the node lost its memory".into())
}

fn quarantine_left(life: &Incarnation) -> Duration {
    Duration::from_micros(quarantine_micros(&life.constants).saturating_sub(life.witnessed_micros))
}
