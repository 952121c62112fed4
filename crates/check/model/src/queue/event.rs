//! The events of a search, and their descriptions.

use super::world::{Action, World};
use crate::world::Line;

/// An event of a search. Fields are a client and a node, a node and a queue position, or a client.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// A client's next request reaches a node, and the reply comes back at once.
    Answer(usize, usize),
    /// A client's next request to a node is lost.
    Loss(usize, usize),
    /// A client dies, and its messages in flight are lost.
    Death(usize),
    /// A node forgets a queue position.
    ForgottenPosition(usize, usize),
    /// A node's hint reaches a client.
    Hint(usize, usize),
    /// A client learns that a node has handed its vote to it.
    Handoff(usize, usize),
    /// A timer of a client fires.
    Timer(usize),
    /// Time passes until the next timer.
    Pass,
}

impl Event {
    /// All possible next events, without losses.
    pub(super) fn all(world: &World) -> Vec<Self> {
        let event = |action| match action {
            Action::Request(client, node) => Some(Self::Answer(client, node)),
            Action::Hint(client, node) => Some(Self::Hint(client, node)),
            Action::Tick(client) => Some(Self::Timer(client)),
            // A reply to a request arrives at once, so this reply is a handoff, which the node sent unasked.
            Action::Reply(client, node) => Some(Self::Handoff(client, node)),
            Action::Free(_) => None,
        };
        world.enabled().into_iter().filter_map(event).collect()
    }

    /// Whether a request is lost.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Loss(..))
    }

    /// The loss of the request that this event answers.
    pub(super) fn loss(self) -> Option<Self> {
        match self {
            Self::Answer(client, node) => Some(Self::Loss(client, node)),
            _ => None,
        }
    }

    /// Carries out the event. Returns whether it was possible. A release cannot be lost, because the client repeats it
    /// until the node acknowledges it.
    pub(super) fn apply_to(self, world: &mut World) -> bool {
        match self {
            Self::Answer(client, node) => world.exchange(client, node),
            Self::Loss(client, node) => return world.lose(Action::Request(client, node)),
            Self::Death(client) => world.kill(client),
            Self::ForgottenPosition(node, position) => world.forget_position(node, position),
            Self::Hint(client, node) => world.act(Action::Hint(client, node)),
            Self::Handoff(client, node) => world.act(Action::Reply(client, node)),
            Self::Timer(client) => world.act(Action::Tick(client)),
            Self::Pass => return world.pass_time(),
        }
        true
    }

    /// Describes the event and the state after it.
    pub(super) fn tell(self, after: &World) -> Line {
        match self {
            Self::Answer(client, node) => line(after, Some(client), &format!("is answered by n{}", node + 1)),
            Self::Loss(client, node) => line(after, Some(client), &format!("does not reach n{}", node + 1)),
            Self::Death(client) => line(after, Some(client), "dies"),
            Self::ForgottenPosition(node, position) => {
                line(after, None, &format!("n{} forgets queue position {}", node + 1, position + 1))
            }
            Self::Hint(client, node) => line(after, Some(client), &format!("gets a hint from n{}", node + 1)),
            Self::Handoff(client, node) => {
                line(after, Some(client), &format!("learns that n{} has handed over its vote", node + 1))
            }
            Self::Timer(client) => line(after, Some(client), "has a timer that fires"),
            Self::Pass => line(after, None, "time passes"),
        }
    }
}

/// A line of the story, about one client or all clients: the event, then votes and queues.
pub(super) fn line(world: &World, client: Option<usize>, what: &str) -> Line {
    let who = client.map(|client| name(client).to_string()).unwrap_or_default();
    Line { at: world.seconds() * 1_000.0, who, what: format!("{what}: {}", votes_and_queues(world)) }
}

/// The first line of a story: the order of the tickets.
pub(super) fn first_line(world: &World) -> Line {
    let names: Vec<String> = world.unserved().into_iter().map(|client| name(client).to_string()).collect();
    line(world, None, &format!("{} have asked all nodes, with tickets in this order", names.join(", ")))
}

fn name(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// The votes and queues of all nodes, such as `votes n1 A, n2 none, n3 C; in the queue n1 B C`.
fn votes_and_queues(world: &World) -> String {
    let vote = |(node, client): (usize, Option<usize>)| match client {
        Some(client) => format!("n{} {}", node + 1, name(client)),
        None => format!("n{} none", node + 1),
    };
    let votes: Vec<String> = world.votes().into_iter().enumerate().map(vote).collect();
    let queues = world.queues().into_iter().enumerate().filter(|(_, queue)| !queue.is_empty());
    let queues: Vec<String> = queues
        .map(|(node, queue)| {
            queue.into_iter().fold(format!("n{}", node + 1), |all, client| format!("{all} {}", name(client)))
        })
        .collect();
    let queues = if queues.is_empty() { "nobody".into() } else { queues.join(", ") };
    format!("votes {}; in the queue {queues}", votes.join(", "))
}
