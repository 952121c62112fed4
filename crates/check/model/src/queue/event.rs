//! The events of a search of the waiting queue, and their descriptions.

use super::world::{Action, World};
use crate::world::TraceLine;

/// An event. Its fields are indexes. Two fields are a client and a node, except for [`Event::ForgottenPosition`], where
/// they are a node and a queue position. One field is a client.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// A client's next request reaches a node, and the reply reaches the client at once.
    Answer(usize, usize),
    /// A client's next request to a node is lost.
    Loss(usize, usize),
    /// A client dies, and its messages in flight are lost.
    Death(usize),
    /// A node forgets a queue position.
    ForgottenPosition(usize, usize),
    /// A node's hint reaches a client.
    Hint(usize, usize),
    /// A client learns that a node has handed its vote to this client.
    Handoff(usize, usize),
    /// A timer of a client fires.
    Timer(usize),
    /// Time passes until the next timer.
    PassTime,
}

impl Event {
    /// All possible next events, without losses.
    pub(super) fn next_events(world: &World) -> Vec<Self> {
        let event = |action| match action {
            Action::Request(client, node) => Some(Self::Answer(client, node)),
            Action::Hint(client, node) => Some(Self::Hint(client, node)),
            Action::Tick(client) => Some(Self::Timer(client)),
            // A reply to a request arrives together with the request, so this message is a handoff.
            Action::Reply(client, node) => Some(Self::Handoff(client, node)),
            Action::Release(_) => None,
        };
        world.next_actions().into_iter().filter_map(event).collect()
    }

    /// Whether a request is lost.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Loss(..))
    }

    /// If this event answers a request: the loss of this request.
    pub(super) fn loss(self) -> Option<Self> {
        match self {
            Self::Answer(client, node) => Some(Self::Loss(client, node)),
            _ => None,
        }
    }

    /// Carries out the event. Returns whether the event was possible. The loss of a release is not possible, because the
    /// client repeats a release until the node acknowledges it.
    pub(super) fn apply_to(self, world: &mut World) -> bool {
        match self {
            Self::Answer(client, node) => world.exchange(client, node),
            Self::Loss(client, node) => return world.lose(Action::Request(client, node)),
            Self::Death(client) => world.kill(client),
            Self::ForgottenPosition(node, position) => world.forget_position(node, position),
            Self::Hint(client, node) => world.act(Action::Hint(client, node)),
            Self::Handoff(client, node) => world.act(Action::Reply(client, node)),
            Self::Timer(client) => world.act(Action::Tick(client)),
            Self::PassTime => return world.pass_time(),
        }
        true
    }

    /// Describes the event and the state after it.
    pub(super) fn describe(self, after: &World) -> TraceLine {
        match self {
            Self::Answer(client, node) => trace_line(after, Some(client), &format!("is answered by n{}", node + 1)),
            Self::Loss(client, node) => trace_line(after, Some(client), &format!("does not reach n{}", node + 1)),
            Self::Death(client) => trace_line(after, Some(client), "dies"),
            Self::ForgottenPosition(node, position) => {
                trace_line(after, None, &format!("n{} forgets queue position {}", node + 1, position + 1))
            }
            Self::Hint(client, node) => trace_line(after, Some(client), &format!("gets a hint from n{}", node + 1)),
            Self::Handoff(client, node) => {
                trace_line(after, Some(client), &format!("learns that n{} has handed over its vote", node + 1))
            }
            Self::Timer(client) => trace_line(after, Some(client), "has a timer that fires"),
            Self::PassTime => trace_line(after, None, "time passes"),
        }
    }
}

/// A line of the trace, about one client or all clients: the event, and then the votes and queues after the event.
pub(super) fn trace_line(world: &World, client: Option<usize>, event: &str) -> TraceLine {
    let who = client.map(|client| client_name(client).to_string()).unwrap_or_default();
    TraceLine { at: world.elapsed_secs() * 1_000.0, who, what: format!("{event}: {}", votes_and_queues(world)) }
}

/// The first line of a trace: the order of the tickets.
pub(super) fn first_trace_line(world: &World) -> TraceLine {
    let names: Vec<String> = world.unserved().into_iter().map(|client| client_name(client).to_string()).collect();
    trace_line(world, None, &format!("{} have asked all nodes, with tickets in this order", names.join(", ")))
}

fn client_name(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// Describes the votes and queues of all nodes, for example `votes n1 A, n2 none, n3 C; in the queue n1 B C`.
fn votes_and_queues(world: &World) -> String {
    let vote = |(node, client): (usize, Option<usize>)| match client {
        Some(client) => format!("n{} {}", node + 1, client_name(client)),
        None => format!("n{} none", node + 1),
    };
    let votes: Vec<String> = world.votes().into_iter().enumerate().map(vote).collect();
    let queues = world.queues().into_iter().enumerate().filter(|(_, queue)| !queue.is_empty());
    let queues: Vec<String> = queues
        .map(|(node, queue)| {
            queue.into_iter().fold(format!("n{}", node + 1), |all, client| format!("{all} {}", client_name(client)))
        })
        .collect();
    let queues = if queues.is_empty() { "nobody".into() } else { queues.join(", ") };
    format!("votes {}; in the queue {queues}", votes.join(", "))
}
