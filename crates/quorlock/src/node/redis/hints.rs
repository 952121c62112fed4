//! Hearing hints: what the server pushes on the client's own channel, on the one for locks that were broken, and when its
//! memory changes.

use ::redis::{Cmd, PushKind, Value, cmd};
use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::ticket::{Channel, Handoff, Ticket};

use super::describe;
use super::scripts::{Home, broken_channel, hint_channel};
use crate::node::{Answer, Inbox};

/// What a connection listens to.
pub(super) struct Wanted {
    pub(super) channels: Vec<String>,
    /// Whether it hears of changes of the server's memory.
    pub(super) tracking: bool,
}

/// What to listen to, if somebody does: channel 0 is nobody's.
pub(super) fn wanted(inbox: &Inbox) -> Wanted {
    let tracking = inbox.channel != Channel(0);
    let channels = if tracking { vec![hint_channel(inbox.channel), broken_channel()] } else { Vec::new() };
    Wanted { channels, tracking }
}

/// Asks the server to push an invalidation when the node's epoch is written or all keys are replaced.
pub(super) fn track(home: Home) -> Cmd {
    let mut command = cmd("CLIENT");
    command.arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(home.epoch_key());
    command
}

/// Notes whether the server lets us listen. If not, that is no reason to do without its vote.
pub(super) fn note(title: &str, answer: Value) {
    let reason = match answer {
        Value::Push { kind: PushKind::Subscribe, .. } => return,
        Value::ServerError(error) => describe(&error.into()),
        _ => "a malformed reply to SUBSCRIBE".into(),
    };
    tracing::info!(node = %title, %reason, "no hints: waiters and holders ask again at their own pace");
}

/// Notes whether the server tells of changes of its memory. If not, the periodic look notices them.
pub(super) fn note_tracking(title: &str, answer: Value) {
    if let Value::ServerError(error) = answer {
        let reason = describe(&error.into());
        tracing::info!(node = %title, %reason, "no tracking: replaced data are noticed by the periodic look");
    }
}

/// What was said on a channel that we listen to. Anything else that a server pushes means nothing here.
pub(super) fn heard(channel: Channel, kind: &PushKind, data: &[Value]) -> Option<Answer> {
    if *kind == PushKind::Invalidate {
        return Some(Answer::MemoryChanged);
    }
    let (PushKind::Message, [Value::BulkString(on), Value::BulkString(said)]) = (kind, data) else { return None };
    let said = std::str::from_utf8(said).ok()?;
    if *on == hint_channel(channel).into_bytes() {
        hint(said)
    } else if *on == broken_channel().into_bytes() {
        Some(Answer::Broken(said.into()))
    } else {
        None
    }
}

/// A ticket, and the vote that it was given if it was given one: whose it is, and its fence.
fn hint(said: &str) -> Option<Answer> {
    let mut words = said.split(' ');
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
