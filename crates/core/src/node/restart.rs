//! What a node does after it restarted, empty or not: a new epoch, the quarantine, and when it may vote again.

use alloc::string::String;
use core::time::Duration;

use crate::fence::Fence;
use crate::node::time::NodeTime;

/// Names one life of a node's memory: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub u128);

/// A server's own signs of which memory it has, as a client reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The server's process. A restart changes it.
    pub run: String,
    /// The last promotion of the server from replica to master, because a replica takes over another server's data. Empty
    /// if the server reports none. A node of several servers joins theirs by `+`.
    pub promotion: String,
}

impl Identity {
    /// The identity of a server that takes over nobody's data.
    pub fn of_run(run: impl Into<String>) -> Self {
        Self { run: run.into(), promotion: String::new() }
    }

    /// Whether a server that reports `now` may have another memory than when it reported `self`.
    ///
    /// A server stops reporting its promotion when it gets its first replica, so only a new promotion is news.
    pub fn is_replaced_by(&self, now: &Self) -> bool {
        let is_known = |promotion| self.promotion.split('+').any(|known| known == promotion);
        self.run != now.run || now.promotion.split('+').any(|promotion| !promotion.is_empty() && !is_known(promotion))
    }
}

/// What everyone who uses a cluster has to agree on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constants {
    /// The cluster's random name.
    pub cluster: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// The longest ttl.
    pub max_ttl_millis: u64,
    /// How far the nodes' wall clocks may be apart.
    pub max_skew_micros: u64,
}

/// The length of the quarantine of a node that lost its memory: the longest ttl and a tenth, for clocks that run fast.
pub fn quarantine_micros(constants: &Constants) -> u64 {
    constants.max_ttl_millis.saturating_mul(1_100)
}

/// What a node knows about itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The server's signs of this memory.
    pub identity: Identity,
    /// This life; `None` when something wiped it.
    pub epoch: Option<Epoch>,
    /// The number at or below which this node grants no fence; `None` while the node is quarantined.
    pub floor: Option<Fence>,
    /// The length of the quarantine.
    pub quarantine_micros: u64,
    /// An operator has begun to change the cluster's constants: the quarantine does not end before that is done.
    pub suspended: bool,
    /// How much of the quarantine has surely passed: the highest claim so far.
    pub elapsed_micros: u64,
    /// The cluster's constants.
    pub constants: Constants,
    /// The runs of all nodes at the cluster's founding, sorted and joined by commas.
    pub founders: String,
    /// How often it was found to have begun another life since the cluster was declared, as far as its memory goes.
    pub restarts: u64,
}

/// What a node that comes back may do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: it is quarantined.
    Quarantine,
    /// Vote, with fences from this far behind (negative) or ahead of its clock, in microseconds.
    Vote {
        /// Added to the node's clock to give the floor.
        floor_offset: i64,
    },
}

/// What a client asks about the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    /// How do you stand?
    Look,
    /// Every connection's first word: notices a new life and starts its epoch.
    Hello {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install if the life is new.
        fresh: Epoch,
        /// What the client believes; installed on a blank node.
        constants: Constants,
        /// Installed on a blank node.
        founders: String,
        /// What a new life may do.
        trust: Trust,
    },
    /// Claims that this much of the quarantine has passed, and ends the quarantine when that is all of it.
    ///
    /// A client that read `elapsed_micros` in a reply may claim that number plus the time from the receipt of the reply
    /// to the sending of the claim. Such a claim is true by itself, so it does not matter who else claims, in which order
    /// claims arrive, or how often.
    Claim {
        /// The epoch.
        epoch: Epoch,
        /// The time that has passed since the epoch began, at least.
        elapsed_micros: u64,
    },
    /// An operator's word that no lock can be outstanding: a new epoch that may vote at once.
    Init {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install.
        fresh: Epoch,
        /// The constants to install.
        constants: Constants,
    },
    /// An operator changes the constants of the same cluster: a new epoch, in quarantine for the longer `max_ttl`.
    Reconfigure {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// The epoch to install.
        fresh: Epoch,
        /// The constants to install.
        constants: Constants,
        /// What the new epoch may do. Whatever votes stand are kept.
        trust: Trust,
        /// Do not end the quarantine before this is said again without: some nodes may still know the old constants.
        suspend: bool,
    },
}

/// How a node stands, after a node command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the node command was carried out.
    pub accepted: bool,
    /// What the node knows about itself; `None` when it is blank.
    pub life: Option<Incarnation>,
    /// Its clock.
    pub at_micros: u64,
}

/// Carries out a node command, atomically.
pub fn attend(life: &mut Option<Incarnation>, node_command: &NodeCommand, now: NodeTime) -> Standing {
    let accepted = match (node_command, life.as_mut()) {
        (NodeCommand::Look, _) => true,
        (NodeCommand::Hello { identity, fresh, constants, founders, trust }, known) => {
            let known = known.as_deref();
            let is_kin = known.is_none_or(|life| life.constants == *constants);
            if is_kin && known.is_none_or(|life| life.is_replaced_by(identity)) {
                let suspended = known.is_some_and(|life| life.suspended);
                let mut next = succeed(known, begin(identity, *fresh, constants), *trust, suspended, now);
                match known {
                    Some(_) => next.restarts = next.restarts.saturating_add(1),
                    None => next.founders.clone_from(founders),
                }
                *life = Some(next);
            }
            is_kin
        }
        (NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend }, known) => {
            let is_kin = known.as_ref().is_none_or(|life| life.constants.cluster == constants.cluster);
            if is_kin {
                let next = succeed(known.as_deref(), begin(identity, *fresh, constants), *trust, *suspend, now);
                *life = Some(next);
            }
            is_kin
        }
        (NodeCommand::Init { identity, fresh, constants }, known) => {
            let before = known.and_then(|life| life.floor);
            let floor = before.max(Some(Fence::new(now.wall_micros.saturating_sub(constants.max_skew_micros))));
            *life = Some(Incarnation { floor, ..begin(identity, *fresh, constants) });
            true
        }
        (NodeCommand::Claim { epoch, elapsed_micros }, Some(life)) if life.is_quarantined(*epoch) => {
            // Never the sum: two clients that watched the same minute have seen one minute.
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
    /// Whether a server that reports `now` does not have the memory of this life any more.
    pub fn is_replaced_by(&self, now: &Identity) -> bool {
        self.epoch.is_none() || self.identity.is_replaced_by(now)
    }

    /// How much of the quarantine is left, as far as the node knows.
    pub fn quarantine_left(&self) -> Duration {
        Duration::from_micros(self.quarantine_micros.saturating_sub(self.elapsed_micros))
    }

    /// Whether this is the first life of a cluster that was founded by its first client: no lease can be older than it.
    pub fn is_founding(&self) -> bool {
        self.restarts == 0 && !self.founders.is_empty()
    }

    fn is_quarantined(&self, epoch: Epoch) -> bool {
        self.epoch == Some(epoch) && self.floor.is_none()
    }
}

/// The next life of a node, after the one that it knows. Its quarantine is long enough for every lease by the constants of
/// either life. If it is trusted, it may vote at once.
fn succeed(
    known: Option<&Incarnation>,
    next: Incarnation,
    trust: Trust,
    suspended: bool,
    now: NodeTime,
) -> Incarnation {
    let owed = known.map_or(0, |life| match life.floor {
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
        quarantine_micros: next.quarantine_micros.max(owed),
        suspended,
        founders: known.map_or_else(String::new, |life| life.founders.clone()),
        restarts: known.map_or(0, |life| life.restarts),
        ..next
    }
}

fn begin(identity: &Identity, epoch: Epoch, constants: &Constants) -> Incarnation {
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
