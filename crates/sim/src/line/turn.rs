//! What a search decides next, and how it is told.

use super::world::{Action, World};
use crate::world::Line;

/// What happens next.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// A client's next request reaches a node, and the answer comes back at once.
    Answered(usize, usize),
    /// A client's next request to a node gets lost.
    Lost(usize, usize),
    /// A node's hint reaches a client.
    Hinted(usize, usize),
    /// A client hears that a node has handed its vote on to it.
    Handed(usize, usize),
    /// A client is called, as it asked to be.
    Called(usize),
    /// Time passes until somebody has to be called.
    Pass,
}

impl Turn {
    /// What can happen next, if no more requests get lost.
    pub(super) fn all(world: &World) -> Vec<Self> {
        let turn = |action| match action {
            Action::Request(client, node) => Some(Self::Answered(client, node)),
            Action::Hint(client, node) => Some(Self::Hinted(client, node)),
            Action::Tick(client) => Some(Self::Called(client)),
            // Answers come back at once: this is what comes without a question.
            Action::Reply(client, node) => Some(Self::Handed(client, node)),
            Action::Free(_) => None,
        };
        world.enabled().into_iter().filter_map(turn).collect()
    }

    /// Whether a request gets lost.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Lost(..))
    }

    /// The same request, lost.
    pub(super) fn lost(self) -> Option<Self> {
        match self {
            Self::Answered(client, node) => Some(Self::Lost(client, node)),
            _ => None,
        }
    }

    /// Lets it happen. Whether it could: releases are not lost, they are kept until they are acknowledged.
    pub(super) fn take(self, world: &mut World) -> bool {
        match self {
            Self::Answered(client, node) => world.exchange(client, node),
            Self::Lost(client, node) => return world.lose(Action::Request(client, node)),
            Self::Hinted(client, node) => world.act(Action::Hint(client, node)),
            Self::Handed(client, node) => world.act(Action::Reply(client, node)),
            Self::Called(client) => world.act(Action::Tick(client)),
            Self::Pass => return world.pass_time(),
        }
        true
    }

    /// What happened, for the story.
    pub(super) fn tell(self) -> Line {
        match self {
            Self::Answered(client, node) => line(client, &format!("is answered by n{}", node + 1)),
            Self::Lost(client, node) => line(client, &format!("does not reach n{}", node + 1)),
            Self::Hinted(client, node) => line(client, &format!("gets a hint from n{}", node + 1)),
            Self::Handed(client, node) => line(client, &format!("hears that n{} has given it its vote", node + 1)),
            Self::Called(client) => line(client, "looks at the clock"),
            Self::Pass => Line { at: 0.0, who: String::new(), what: "time passes".into() },
        }
    }
}

/// A line of the story, about this client.
pub(super) fn line(client: usize, what: &str) -> Line {
    Line { at: 0.0, who: char::from(b'A' + client as u8).to_string(), what: what.into() }
}
