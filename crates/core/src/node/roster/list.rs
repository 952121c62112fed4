//! The roster: who may vote, generation by generation, and how one generation follows another.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::quorum::{Electors, MemberId, Quorum, QuorumError};

/// Identifies a cluster: random, given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

/// A member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The memory that votes.
    pub id: MemberId,
    /// The server's `host:port/db`: lower case, with defaults filled in, without user and password.
    pub address: Arc<str>,
    /// The generation in which the member joined, or in which all members were quarantined. It must not vote before it
    /// has installed that generation and was quarantined.
    pub since: u64,
}

/// The settings that all clients of a cluster must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The longest ttl.
    pub max_ttl_millis: u64,
    /// The maximum clock skew between nodes.
    pub max_skew_micros: u64,
    /// How a name becomes a key.
    pub key_template: Arc<str>,
    /// Whether a member keeps its id when its server restarts.
    pub trusts_restarts: bool,
}

/// The members of a cluster in one generation. Each generation decides its successor once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roster {
    /// The cluster.
    pub cluster: ClusterId,
    /// The number of this generation, from 1.
    pub generation: u64,
    /// Who may vote.
    pub members: Vec<Member>,
    /// The members of the generation before. Empty if every seat agreed on this roster, because it is the first one or
    /// because no majority with a memory was left.
    pub before: Vec<MemberId>,
    /// The settings.
    pub settings: Settings,
    /// The longest `max_ttl` of these settings and of those before.
    pub longest_ttl_millis: u64,
}

/// What the next generation changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Change {
    /// The servers that join: their ids and addresses.
    pub add: Vec<(MemberId, Arc<str>)>,
    /// The members that leave.
    pub remove: Vec<MemberId>,
    /// The new settings; `None` to keep them.
    pub settings: Option<Settings>,
}

impl Change {
    /// Returns the change that puts one server in the place of a member.
    pub fn replace(old: MemberId, new: MemberId, address: Arc<str>) -> Self {
        Self { add: alloc::vec![(new, address)], remove: alloc::vec![old], settings: None }
    }

    /// Returns whether a majority may become another number, or leases another longest ttl. Such a change must wait
    /// until the leases of earlier generations are over.
    pub fn must_wait(&self) -> bool {
        self.add.len() != self.remove.len() || self.settings.is_some()
    }
}

/// An impossible change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The number of members is invalid.
    #[error(transparent)]
    Number(#[from] QuorumError),
    /// The change removes a server that is not a member.
    #[error("no member has the id {:032x}", .0.0)]
    NoMember(MemberId),
    /// Two members would have one id or one address.
    #[error("{0} is a member already")]
    Twice(String),
    /// An address or the key template contains a control character. Nodes store rosters as lines of text.
    #[error("{0:?} contains a control character")]
    ControlCharacter(Arc<str>),
    /// `max_ttl` is too short for the clock skew: a replaced server has another clock.
    #[error("a max_ttl of {max_ttl_millis} ms is too short: it must be at least 3 x max clock skew")]
    ShortTtl {
        /// The refused `max_ttl`.
        max_ttl_millis: u64,
    },
    /// The change must wait until leases of earlier generations are over.
    #[error("the members changed a short while ago: wait until the leases from before are over")]
    TooEarly,
    /// The current generation is not settled.
    #[error("the last change of the members is not complete")]
    Unsettled,
}

impl Roster {
    /// Creates a roster on which every seat has agreed. All its members are quarantined. `former` is the newest roster
    /// that a seat has installed.
    ///
    /// # Errors
    /// [`ChangeError`] if the number of seats, an id, an address or the settings are invalid.
    pub fn of_every_seat(
        cluster: ClusterId,
        generation: u64,
        seats: Vec<(MemberId, Arc<str>)>,
        settings: Settings,
        former: Option<&Self>,
    ) -> Result<Self, ChangeError> {
        let longest_ttl_millis = settings.max_ttl_millis.max(former.map_or(0, |roster| roster.longest_ttl_millis));
        let members = seats.into_iter().map(|(id, address)| Member { id, address, since: generation }).collect();
        let roster = Self { cluster, generation, members, before: Vec::new(), settings, longest_ttl_millis };
        roster.checked()
    }

    /// Returns the next generation.
    ///
    /// If the number of members changes by more than one, or the key template changes, a majority of the old and one of
    /// the new generation need not share a vote, so all members are quarantined.
    ///
    /// # Errors
    /// [`ChangeError`] if the change is impossible.
    pub fn successor(&self, change: &Change) -> Result<Self, ChangeError> {
        let generation = self.generation + 1;
        if let Some(stranger) = change.remove.iter().find(|id| self.member(**id).is_none()) {
            return Err(ChangeError::NoMember(*stranger));
        }
        let settings = change.settings.clone().unwrap_or_else(|| self.settings.clone());
        let newcomers = change.add.iter().map(|(id, address)| (*id, address.clone()));
        // A replaced member's place goes to its successor, so that positions stay.
        let mut newcomers = newcomers.map(|(id, address)| Member { id, address, since: generation });
        let mut members = Vec::new();
        for member in &self.members {
            if change.remove.contains(&member.id) {
                members.extend(newcomers.next());
            } else {
                members.push(member.clone());
            }
        }
        members.extend(newcomers);
        let is_apart = members.len().abs_diff(self.members.len()) > 1;
        if is_apart || settings.key_template != self.settings.key_template {
            for member in &mut members {
                member.since = generation;
            }
        }
        let longest_ttl_millis = match &change.settings {
            Some(settings) => settings.max_ttl_millis.max(self.settings.max_ttl_millis),
            None => self.longest_ttl_millis,
        };
        let before = self.members.iter().map(|member| member.id).collect();
        Self { cluster: self.cluster, generation, members, before, settings, longest_ttl_millis }.checked()
    }

    fn checked(self) -> Result<Self, ChangeError> {
        Quorum::new(self.members.len())?;
        for (at, member) in self.members.iter().enumerate() {
            if self.members[..at].iter().any(|other| other.id == member.id || other.address == member.address) {
                return Err(ChangeError::Twice(String::from(&*member.address)));
            }
        }
        let addresses = self.members.iter().map(|member| &member.address);
        for text in addresses.chain([&self.settings.key_template]) {
            if text.contains(char::is_control) {
                return Err(ChangeError::ControlCharacter(text.clone()));
            }
        }
        let Settings { max_ttl_millis, max_skew_micros, .. } = self.settings;
        let is_short = max_ttl_millis.saturating_mul(1_000) < max_skew_micros.saturating_mul(3);
        if is_short { Err(ChangeError::ShortTtl { max_ttl_millis }) } else { Ok(self) }
    }

    /// Returns the member with this id.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Returns the member at this address.
    pub fn member_at(&self, address: &str) -> Option<&Member> {
        self.members.iter().find(|member| &*member.address == address)
    }

    /// Returns how many members must agree.
    pub fn majority(&self) -> usize {
        Quorum::majority_of(self.members.len())
    }

    /// Returns who may vote, for a client with a list of this many nodes.
    pub fn electors(&self, nodes: usize) -> Electors {
        let members = self.members.iter().map(|member| (member.id, member.since)).collect();
        Electors::new(nodes, self.majority(), self.generation, members)
    }

    /// Returns whether these are exactly the addresses of the members.
    pub fn has_addresses(&self, addresses: &[Arc<str>]) -> bool {
        addresses.len() == self.members.len()
            && self.members.iter().all(|member| addresses.iter().any(|address| **address == *member.address))
    }

    /// Returns how long a newcomer must not vote: 1.1 times the longest ttl, because a clock may run fast.
    pub fn quarantine_micros(&self) -> u64 {
        self.longest_ttl_millis.saturating_mul(1_100)
    }
}
