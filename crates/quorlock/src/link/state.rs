//! The state of a link, which its mutex guards.

use std::sync::Arc;

use quorlock_core::delivery::{Completion, Delivery};
use quorlock_core::rules::Rules;
use quorlock_core::time::Moment;
use quorlock_core::vote::Silence;

use super::Voter;
use super::connection::Connection;
use super::history::Notes;
use crate::node::key::LockKey;
use crate::node::{Answer, Life, Reply, Trouble};

/// The sender of a request, which the link keeps until the reply arrives.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) key: Arc<LockKey>,
    pub(crate) voter: Option<Arc<dyn Voter>>,
}

/// The sender of each request of a batch, and whether a release was acknowledged.
pub(super) type ToldAll = (Vec<Option<Completion<Sender>>>, bool);

pub(super) struct Inner {
    pub(super) state: LinkState,
    /// The time since which the node cannot be used.
    pub(super) down_since: Option<Moment>,
    pub(super) closing: bool,
    pub(super) delivery: Delivery<Sender>,
    pub(super) connection: Option<Connection>,
    pub(super) notes: Notes,
}

/// Whether the node can be asked.
pub(super) enum LinkState {
    /// The first attempt to connect has not ended yet.
    Connecting,
    /// The handshake is done, and the node may vote.
    Up(Life),
    Down(Silence),
    /// An operator has to change something before the node can be used.
    Refused(Trouble),
    /// The link's task has ended.
    Ended,
}

impl LinkState {
    /// Returns why the node cannot be asked, or `None` if it can.
    pub(super) fn trouble(&self) -> Option<Silence> {
        match self {
            Self::Up(_) => None,
            Self::Down(why) => Some(why.clone()),
            Self::Refused(trouble) => Some(trouble.as_silence()),
            Self::Connecting => Some(Silence::Unreachable("not connected yet".into())),
            Self::Ended => Some(Silence::Unreachable("the client was closed".into())),
        }
    }
}

impl Inner {
    pub(super) fn new(rules: Rules, now: Moment) -> Self {
        Self {
            state: LinkState::Connecting,
            down_since: Some(now),
            closing: false,
            delivery: Delivery::new(rules),
            connection: None,
            notes: Notes::default(),
        }
    }

    /// Sets the state. A new reason for the same outage does not restart its time.
    pub(super) fn set_state(&mut self, state: LinkState, now: Moment) {
        self.down_since = if let LinkState::Up(_) = state { None } else { self.down_since.or(Some(now)) };
        self.state = state;
    }

    /// Takes the replies to the oldest batch. The mutex must not be unlocked between this and finding their question:
    /// the connection may be replaced, and then the oldest batch is another one.
    pub(super) fn replied(&mut self, answer: &Answer) -> ToldAll {
        let Answer::Votes(replies) = answer else { return ToldAll::default() };
        let owed = self.delivery.owed();
        let told = self.delivery.replied(replies.iter().map(Reply::fate));
        (told, self.delivery.owed() < owed)
    }

    /// Returns whether neither votes nor notes are under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.connection.as_ref().is_none_or(Connection::is_quiet)
    }

    /// Returns whether a closing link has delivered everything.
    pub(super) fn is_drained(&self) -> bool {
        self.closing && self.delivery.owed() == 0
    }
}
