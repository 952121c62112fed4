//! The next event of a search, and its description.

use super::world::{Action, World};
use crate::world::Line;

/// An event.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// A client's next request reaches a node, and the reply comes back at once.
    Answered(usize, usize),
    /// A client's next request to a node is lost.
    Lost(usize, usize),
    /// A client dies with everything that it has not sent.
    Died(usize),
    /// A node forgets a queue position.
    Forgotten(usize, usize),
    /// A node's hint reaches a client.
    Hinted(usize, usize),
    /// A client learns that a node has handed its vote to it.
    Handed(usize, usize),
    /// A timer of a client fires.
    Called(usize),
    /// Time passes until the next timer.
    Pass,
}

impl Turn {
    /// All possible next events, without losses.
    pub(super) fn all(world: &World) -> Vec<Self> {
        let turn = |action| match action {
            Action::Request(client, node) => Some(Self::Answered(client, node)),
            Action::Hint(client, node) => Some(Self::Hinted(client, node)),
            Action::Tick(client) => Some(Self::Called(client)),
            // Replies come back at once, so this one is unsolicited.
            Action::Reply(client, node) => Some(Self::Handed(client, node)),
            Action::Free(_) => None,
        };
        world.enabled().into_iter().filter_map(turn).collect()
    }

    /// Whether a request is lost.
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

    /// Carries out the event. Returns whether it was possible: releases are not lost, but repeated until they are
    /// acknowledged.
    pub(super) fn take(self, world: &mut World) -> bool {
        match self {
            Self::Answered(client, node) => world.exchange(client, node),
            Self::Lost(client, node) => return world.lose(Action::Request(client, node)),
            Self::Died(client) => world.kill(client),
            Self::Forgotten(node, place) => world.forget_place(node, place),
            Self::Hinted(client, node) => world.act(Action::Hint(client, node)),
            Self::Handed(client, node) => world.act(Action::Reply(client, node)),
            Self::Called(client) => world.act(Action::Tick(client)),
            Self::Pass => return world.pass_time(),
        }
        true
    }

    /// Describes the event and the state after it.
    pub(super) fn tell(self, after: &World) -> Line {
        match self {
            Self::Answered(client, node) => line(after, Some(client), &format!("is answered by n{}", node + 1)),
            Self::Lost(client, node) => line(after, Some(client), &format!("does not reach n{}", node + 1)),
            Self::Died(client) => line(after, Some(client), "dies"),
            Self::Forgotten(node, place) => line(after, None, &format!("n{} forgets place {}", node + 1, place + 1)),
            Self::Hinted(client, node) => line(after, Some(client), &format!("gets a hint from n{}", node + 1)),
            Self::Handed(client, node) => {
                line(after, Some(client), &format!("hears that n{} has given it its vote", node + 1))
            }
            Self::Called(client) => line(after, Some(client), "looks at the clock"),
            Self::Pass => line(after, None, "time passes"),
        }
    }
}

/// A line of the story, about this client or all of them: the event, then votes and queues.
pub(super) fn line(world: &World, client: Option<usize>, what: &str) -> Line {
    let who = client.map(|client| name(client).to_string()).unwrap_or_default();
    Line { at: world.seconds() * 1_000.0, who, what: format!("{what}: {}", standing(world)) }
}

/// The first line of a story.
pub(super) fn beginning(world: &World) -> Line {
    let names: Vec<String> = world.unserved().into_iter().map(|client| name(client).to_string()).collect();
    line(world, None, &format!("{} have asked all nodes, with tickets in this order", names.join(", ")))
}

fn name(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// `votes n1 A, n2 none, n3 C; in the queue n1 B C`
fn standing(world: &World) -> String {
    let vote = |(node, whose): (usize, Option<usize>)| match whose {
        Some(client) => format!("n{} {}", node + 1, name(client)),
        None => format!("n{} none", node + 1),
    };
    let votes: Vec<String> = world.votes().into_iter().enumerate().map(vote).collect();
    let lines = world.queues().into_iter().enumerate().filter(|(_, line)| !line.is_empty());
    let lines: Vec<String> = lines
        .map(|(node, line)| {
            line.into_iter().fold(format!("n{}", node + 1), |all, client| format!("{all} {}", name(client)))
        })
        .collect();
    let lines = if lines.is_empty() { "nobody".into() } else { lines.join(", ") };
    format!("votes {}; in the queue {lines}", votes.join(", "))
}
