//! Watching over a node's memory: the heartbeat of a ripe node, and the witness of one that is not.

use std::time::Duration;

use quorlock_core::node::{Epoch, Errand, Incarnation, Standing};
use quorlock_core::vote::Silence;

use super::Link;
use super::outbox::State;
use crate::clock::{self, Stopwatch};
use crate::entropy;
use crate::node::{Life, Trouble};
use crate::runtime::{self, Instant};

/// How often a witness adds up, at most and at least.
const PACE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The watch over the memory behind one connection.
pub(super) struct Watch {
    epoch: Epoch,
    /// While the node is not ripe.
    vigil: Option<Vigil>,
    /// When the errand that is under way was sent.
    under_way: Option<Instant>,
    /// When the last one was, or the handshake was over.
    looked: Instant,
}

/// One connection's part in witnessing an unripe node.
struct Vigil {
    /// Fresh for each connection: what an old one still had under way must not count.
    witness: u128,
    /// Runs since the last accepted word, while this connection is the witness.
    since: Option<Stopwatch>,
    pace: Duration,
}

impl Watch {
    pub(super) fn is_vigil(&self) -> bool {
        self.vigil.is_some()
    }

    /// How often a vigil wants to be looked after.
    pub(super) fn pace(&self) -> Option<Duration> {
        self.vigil.as_ref().map(|vigil| vigil.pace)
    }

    /// How long nobody has looked at the node.
    pub(super) fn unseen(&self) -> Duration {
        runtime::since(self.looked)
    }

    /// Since when an answer is owed.
    pub(super) fn asked(&self) -> Option<Instant> {
        self.under_way
    }
}

impl Link {
    /// Ready at once, or on watch until the node is ripe.
    pub(super) fn take_up(&self, epoch: Epoch, life: &Incarnation) -> Watch {
        self.pulse.lives(epoch);
        let looked = runtime::now();
        if let Some(floor) = life.floor {
            self.set_state(State::Up(Life { epoch, floor }));
            return Watch { epoch, vigil: None, under_way: None, looked };
        }
        self.set_state(State::Down(Silence::Quarantined(quarantine_left(life))));
        let pace = Duration::from_micros(life.quarantine_micros / 20).clamp(PACE.0, PACE.1);
        let vigil = Vigil { witness: entropy::bits(), since: None, pace };
        Watch { epoch, vigil: Some(vigil), under_way: None, looked }
    }

    /// Sends the next word about the node's memory, unless one is under way.
    pub(super) fn look_after(&self, watch: &mut Watch) {
        if watch.under_way.is_some() {
            return;
        }
        let epoch = watch.epoch;
        let errand = match &watch.vigil {
            None => Errand::Look,
            Some(Vigil { witness, since: None, .. }) => Errand::Witness { epoch, witness: *witness },
            // From the receipt of the last word to the sending of this one: no more than that is known to have stood.
            Some(Vigil { witness, since: Some(since), .. }) => {
                Errand::Add { epoch, witness: *witness, micros: since.at_least().as_micros() as u64 }
            }
        };
        self.send_errand(watch, errand);
    }

    fn send_errand(&self, watch: &mut Watch, errand: Errand) {
        if let Some(port) = &mut *self.port() {
            watch.looked = runtime::now();
            watch.under_way = Some(watch.looked);
            port.session().errand(errand);
        }
    }

    /// Takes the answer. An error means that the node's memory is another one.
    pub(super) fn watched(&self, watch: &mut Watch, standing: Standing) -> Result<(), Trouble> {
        if let Some(since) = watch.under_way.take() {
            self.pulse.took(since.elapsed());
        }
        self.note_clock(standing.at_micros, clock::now());
        let epoch = watch.epoch;
        let life = standing.life.filter(|life| life.epoch == Some(epoch)).ok_or_else(lost_memory)?;
        match (&mut watch.vigil, life.floor) {
            (None, Some(_)) => {}
            (None, None) => return Err(lost_memory()),
            (Some(_), Some(floor)) => {
                tracing::info!(node = %self.title, "out of quarantine");
                self.set_state(State::Up(Life { epoch, floor }));
                watch.vigil = None;
            }
            (Some(vigil), None) => {
                vigil.since = standing.accepted.then(Stopwatch::start);
                let left = quarantine_left(&life);
                self.set_state(State::Down(Silence::Quarantined(left)));
                if left.is_zero() {
                    self.send_errand(watch, Errand::Ripen { epoch });
                }
            }
        }
        Ok(())
    }
}

pub(super) fn lost_memory() -> Trouble {
    Trouble::Broken("the node lost its memory".into())
}

fn quarantine_left(life: &Incarnation) -> Duration {
    Duration::from_micros(life.quarantine_micros.saturating_sub(life.witnessed_micros))
}
