//! Restart of a node, with or without memory loss: the new epoch, the quarantine, and when the node may vote again.

use alloc::string::String;
use core::time::Duration;

use crate::fence::Fence;
use crate::node::time::NodeTime;

/// Identifies one incarnation of a node (one life of its memory, from one memory loss to the next) by 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub u128);

/// What a server reports about its memory, as a client reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Identifies the server's process. A restart changes it.
    pub run: String,
    /// The last promotion of the server from replica to master, which replaces the server's data by another
    /// server's. Empty if the server reports none. For a node with several servers, the values of all
    /// servers, joined with `+`.
    pub promotion: String,
}

impl Identity {
    /// Returns the identity of a server that never takes over another server's data.
    pub fn of_run(run: impl Into<String>) -> Self {
        Self { run: run.into(), promotion: String::new() }
    }

    /// Returns whether a server that reports `now` may have another memory than when it reported `self`.
    ///
    /// A server stops reporting its promotion when it gets its first replica, so only a new promotion counts as a
    /// change.
    pub fn is_replaced_by(&self, now: &Self) -> bool {
        let is_known = |promotion| self.promotion.split('+').any(|known| known == promotion);
        self.run != now.run || now.promotion.split('+').any(|promotion| !promotion.is_empty() && !is_known(promotion))
    }
}

/// The settings that all users of a cluster must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constants {
    /// The cluster's random name.
    pub cluster: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The longest ttl.
    pub max_ttl_millis: u64,
    /// The maximum clock skew between nodes.
    pub max_skew_micros: u64,
}

/// Returns the length of the quarantine after memory loss: 1.1 times the longest ttl, because the clock of a
/// client that measures the quarantine may run fast.
pub fn quarantine_micros(constants: &Constants) -> u64 {
    constants.max_ttl_millis.saturating_mul(1_100)
}

/// A node's record of its current incarnation: the life of its memory since the last memory loss.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The identity that the server reported for this memory.
    pub identity: Identity,
    /// The current epoch; `None` if it was erased.
    pub epoch: Option<Epoch>,
    /// The number at or below which this node grants no fence; `None` while the node is quarantined.
    pub floor: Option<Fence>,
    /// The length of the quarantine.
    pub quarantine_micros: u64,
    /// Whether an operator is changing the cluster's constants. The quarantine then lasts until the change is complete.
    pub suspended: bool,
    /// The part of the quarantine that has certainly passed: the highest number of a [`NodeCommand::Claim`].
    pub elapsed_micros: u64,
    /// The cluster's constants.
    pub constants: Constants,
    /// The `run` of every node when the cluster was founded, sorted and joined by commas.
    pub founders: String,
    /// The number of restarts since the cluster was created, as the node has recorded.
    pub restarts: u64,
}

/// Whether a restarted node may vote at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The node must wait in quarantine.
    Quarantine,
    /// The node may vote at once, but grants no fence at or below its floor. The floor is relative to the node's clock.
    Vote {
        /// The floor minus the node's clock, in microseconds; may be negative.
        floor_offset: i64,
    },
}

/// A command that concerns the node itself and not a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    /// Returns the node's state.
    Look,
    /// The first command on every connection: detects a new incarnation and starts its epoch.
    Hello {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install for a new incarnation.
        fresh: Epoch,
        /// The client's constants; installed on a blank node.
        constants: Constants,
        /// The founders to install on a blank node.
        founders: String,
        /// Whether a new incarnation may vote at once.
        trust: Trust,
    },
    /// Claims that this much of the quarantine has passed. The quarantine ends when a claim covers its whole length.
    ///
    /// A client that read `elapsed_micros` in a reply may claim that number plus the time from receiving the reply to
    /// sending the claim. Such a claim is true on its own, so the order and the number of claims do not matter.
    Claim {
        /// The quarantined epoch.
        epoch: Epoch,
        /// The least time that has passed since the epoch began.
        elapsed_micros: u64,
    },
    /// Installs a new epoch that may vote at once. The operator asserts that no lock is held.
    Init {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install.
        fresh: Epoch,
        /// The constants to install.
        constants: Constants,
    },
    /// Installs new constants and a new epoch, with a quarantine for the longer of the old and the new `max_ttl`.
    Reconfigure {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install.
        fresh: Epoch,
        /// The constants to install.
        constants: Constants,
        /// Whether the node may vote at once in the new epoch. The node keeps its votes.
        trust: Trust,
        /// Whether the quarantine lasts until this command is repeated with `false`, because some nodes may still
        /// have the old constants.
        suspend: bool,
    },
}

/// A node's state after a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the node accepted the command.
    pub accepted: bool,
    /// The node's incarnation; `None` if the node is blank.
    pub life: Option<Incarnation>,
    /// The node's wall clock.
    pub at_micros: u64,
}

/// Applies a node command atomically.
pub fn attend(life: &mut Option<Incarnation>, node_command: &NodeCommand, now: NodeTime) -> Standing {
    let accepted = match (node_command, life.as_mut()) {
        (NodeCommand::Look, _) => true,
        (NodeCommand::Hello { identity, fresh, constants, founders, trust }, known) => {
            let known = known.as_deref();
            let has_same_constants = known.is_none_or(|life| life.constants == *constants);
            if has_same_constants && known.is_none_or(|life| life.is_replaced_by(identity)) {
                let suspended = known.is_some_and(|life| life.suspended);
                let mut next = successor(known, incarnation(identity, *fresh, constants), *trust, suspended, now);
                match known {
                    Some(_) => next.restarts = next.restarts.saturating_add(1),
                    None => next.founders.clone_from(founders),
                }
                *life = Some(next);
            }
            has_same_constants
        }
        (NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend }, known) => {
            let is_same_cluster = known.as_ref().is_none_or(|life| life.constants.cluster == constants.cluster);
            if is_same_cluster {
                let next = successor(known.as_deref(), incarnation(identity, *fresh, constants), *trust, *suspend, now);
                *life = Some(next);
            }
            is_same_cluster
        }
        (NodeCommand::Init { identity, fresh, constants }, known) => {
            let old_floor = known.and_then(|life| life.floor);
            let floor = old_floor.max(Some(Fence::new(now.wall_micros.saturating_sub(constants.max_skew_micros))));
            *life = Some(Incarnation { floor, ..incarnation(identity, *fresh, constants) });
            true
        }
        (NodeCommand::Claim { epoch, elapsed_micros }, Some(life)) if life.is_quarantined(*epoch) => {
            // Take the highest claim, not the sum: two clients may have measured the same minute.
            life.elapsed_micros = life.elapsed_micros.max(*elapsed_micros);
            if !life.suspended && life.elapsed_micros >= life.quarantine_micros {
                life.floor = Some(Fence::new(now.wall_micros.saturating_sub(life.constants.max_skew_micros)));
            }
            true
        }
        (NodeCommand::Claim { .. }, _) => false,
    };
    Standing { accepted, life: life.clone(), at_micros: now.wall_micros }
}

impl Incarnation {
    /// Returns whether a server that now reports `now` no longer has the memory of this incarnation.
    pub fn is_replaced_by(&self, now: &Identity) -> bool {
        self.epoch.is_none() || self.identity.is_replaced_by(now)
    }

    /// Returns how much of the quarantine is left, as the node has recorded.
    pub fn quarantine_left(&self) -> Duration {
        Duration::from_micros(self.quarantine_micros.saturating_sub(self.elapsed_micros))
    }

    /// Returns whether this is the node's first incarnation in a cluster that its first client founded. No lease can be
    /// older than this incarnation.
    pub fn is_founding(&self) -> bool {
        self.restarts == 0 && !self.founders.is_empty()
    }

    fn is_quarantined(&self, epoch: Epoch) -> bool {
        self.epoch == Some(epoch) && self.floor.is_none()
    }
}

/// Completes `next` as the incarnation that follows `known`, the current one. The quarantine is long enough for every
/// lease with the old or the new constants. The node may vote at once if `trust` permits it.
fn successor(
    known: Option<&Incarnation>,
    next: Incarnation,
    trust: Trust,
    suspended: bool,
    now: NodeTime,
) -> Incarnation {
    let old_quarantine = known.map_or(0, |life| match life.floor {
        Some(_) => quarantine_micros(&life.constants),
        None => life.quarantine_micros,
    });
    let floor = match trust {
        Trust::Vote { floor_offset } if !suspended => {
            let floor = Fence::new(now.wall_micros.saturating_add_signed(floor_offset));
            known.and_then(|life| life.floor).max(Some(floor))
        }
        Trust::Vote { .. } | Trust::Quarantine => None,
    };
    Incarnation {
        floor,
        quarantine_micros: next.quarantine_micros.max(old_quarantine),
        suspended,
        founders: known.map_or_else(String::new, |life| life.founders.clone()),
        restarts: known.map_or(0, |life| life.restarts),
        ..next
    }
}

/// Returns an incarnation in quarantine, without founders or restarts.
fn incarnation(identity: &Identity, epoch: Epoch, constants: &Constants) -> Incarnation {
    Incarnation {
        identity: identity.clone(),
        epoch: Some(epoch),
        floor: None,
        quarantine_micros: quarantine_micros(constants),
        suspended: false,
        elapsed_micros: 0,
        constants: constants.clone(),
        founders: String::new(),
        restarts: 0,
    }
}
