//! Watching over a node's memory: the heartbeat of a ripe node, and the witness of one that is not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::node::{Epoch, Errand, Identity, Incarnation, Standing};
use quorlock_core::retry::Dice;
use quorlock_core::vote::Silence;

use super::Link;
use super::outbox::State;
use crate::clock::{self, Stopwatch};
use crate::entropy::{self, SystemDice};
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
    /// When to send the next one.
    due: Instant,
    /// How many doubts there were when the errand that is under way was sent.
    doubts: u64,
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
    /// When the node has to be looked at next.
    pub(super) fn due(&self) -> Instant {
        self.due
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
        let watch = |vigil: Option<Vigil>| Watch {
            epoch,
            due: self.next_look(vigil.as_ref()),
            vigil,
            under_way: None,
            doubts: 0,
        };
        if let Some(floor) = life.floor {
            self.outbox().send_moved();
            self.set_state(State::Up(Life { epoch, floor }));
            return watch(None);
        }
        let quarantined = Silence::Quarantined(quarantine_left(life));
        self.set_state(State::Down(quarantined.clone()));
        self.note_outage(quarantined);
        let pace = Duration::from_micros(life.quarantine_micros / 20).clamp(PACE.0, PACE.1);
        watch(Some(Vigil { witness: entropy::bits(), since: None, pace }))
    }

    /// When to look at the node next, busy or not. Clients that began together do not look together for long.
    fn next_look(&self, vigil: Option<&Vigil>) -> Instant {
        let (least, most) = self.config.look;
        runtime::now() + vigil.map_or_else(|| SystemDice::default().between(least, most), |vigil| vigil.pace)
    }

    /// Sends the next word about the node's memory, unless one is under way.
    pub(super) fn look_after(&self, watch: &mut Watch) {
        watch.due = self.next_look(watch.vigil.as_ref());
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
            watch.under_way = Some(runtime::now());
            watch.doubts = self.doubts.load(Ordering::Acquire);
            port.session().errand(errand);
        }
    }

    /// Takes the answer. An error means that the node's memory is another one.
    pub(super) fn watched(&self, watch: &mut Watch, standing: Standing, identity: &Identity) -> Result<(), Trouble> {
        if let Some(since) = watch.under_way.take() {
            self.pulse.took(since.elapsed());
        }
        self.note_clock(standing.at_micros, clock::now());
        let epoch = watch.epoch;
        let is_same = |life: &Incarnation| life.epoch == Some(epoch) && !life.is_replaced_by(identity);
        let life = standing.life.filter(is_same).ok_or_else(lost_memory)?;
        self.settled_doubts.store(watch.doubts, Ordering::Release);
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
        if self.is_doubted() {
            // The answer may be older than the doubt.
            self.look_after(watch);
            return Ok(());
        }
        self.release_held()
    }

    /// Whether the node's memory may have been replaced since the last look.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Acquire) != self.settled_doubts.load(Ordering::Acquire)
    }
}

pub(super) fn lost_memory() -> Trouble {
    Trouble::Broken("the node lost its memory".into())
}

fn quarantine_left(life: &Incarnation) -> Duration {
    Duration::from_micros(life.quarantine_micros.saturating_sub(life.witnessed_micros))
}
