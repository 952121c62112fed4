//! Messages that a server pushes: hints on the client's channel, broken locks, and changes of the server's memory.

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::Channel;
use quorlock_core::request::Ticket;
use quorlock_core::vote::Handoff;

use super::resp::{Commands, Value};
use super::scripts::{BROKEN_CHANNEL, ServerKind, hint_channel};
use super::trouble::describe;
use crate::node::Answer;

/// Writes the command that asks the server to push a message when the node's epoch is written or all keys are replaced.
pub(super) fn write_tracking(server_kind: ServerKind, commands: &mut Commands) {
    commands.command("CLIENT").words(&["TRACKING", "ON", "BCAST", "PREFIX", server_kind.epoch_key()]);
}

/// Logs a refusal of a subscription. The server can still vote.
pub(super) fn log_refused_subscription(title: &str, answer: &Value) {
    let reason = match answer {
        Value::Push(parts) if parts.first().and_then(Value::as_str) == Some("subscribe") => return,
        Value::Error(error) => describe(error),
        _ => "a malformed reply to SUBSCRIBE".into(),
    };
    tracing::info!(node = %title, %reason, "no hints: waiters and holders ask again at their own pace");
}

/// Logs a refusal of the tracking command. The periodic check of the node then detects changes of the server's memory.
pub(super) fn log_refused_tracking(title: &str, answer: &Value) {
    if let Value::Error(error) = answer {
        let reason = describe(error);
        tracing::info!(node = %title, %reason, "no tracking: replaced data are noticed by the periodic check");
    }
}

/// Converts a push: a message on one of our channels, or a change of the tracked epoch. Ignores every other push.
pub(super) fn parse_push(channel: Channel, push: &[Value]) -> Option<Answer> {
    match (push.first()?.as_str()?, push) {
        ("invalidate", _) => Some(Answer::MemoryChanged),
        ("message", [_, name, text]) if name.as_str()? == hint_channel(channel) => parse_hint(text.as_str()?),
        ("message", [_, name, text]) if name.as_str()? == BROKEN_CHANNEL => Some(Answer::Broken(text.as_str()?.into())),
        _ => None,
    }
}

/// Parses a hint: a waiter's ticket and, if the node gave its vote to the waiter, the digest of the attempt and the
/// fence.
fn parse_hint(text: &str) -> Option<Answer> {
    let mut words = text.split(' ');
    let ticket = Ticket::parse(words.next()?)?;
    let handoff = match (words.next(), words.next(), words.next()) {
        (None, ..) => None,
        (Some(attempt), Some(fence), None) => {
            let fence = fence.bytes().all(|digit| digit.is_ascii_digit()).then(|| fence.parse().ok()).flatten()?;
            Some(Handoff { attempt: Digest::parse(attempt)?, fence: Fence::new(fence) })
        }
        _ => return None,
    };
    Some(Answer::Hint(ticket, handoff))
}

#[cfg(test)]
mod tests;
