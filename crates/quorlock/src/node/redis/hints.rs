//! Hearing hints: what the server pushes on the client's own channel, and on the one for locks that were broken.

use ::redis::{PushKind, Value};
use quorlock_core::ticket::{Channel, Ticket};

use super::describe;
use super::scripts::{broken_channel, hint_channel};
use crate::node::{Answer, Inbox};

/// Where to listen, if somebody does: channel 0 is nobody's.
pub(super) fn wanted(inbox: &Inbox) -> Vec<String> {
    if inbox.channel == Channel(0) { Vec::new() } else { vec![hint_channel(inbox.channel), broken_channel()] }
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

/// What was said on a channel that we listen to. Anything else that a server pushes means nothing here.
pub(super) fn heard(channel: Channel, kind: &PushKind, data: &[Value]) -> Option<Answer> {
    let (PushKind::Message, [Value::BulkString(on), Value::BulkString(said)]) = (kind, data) else { return None };
    let said = std::str::from_utf8(said).ok()?;
    if *on == hint_channel(channel).into_bytes() {
        Ticket::parse(said).map(Answer::Hint)
    } else if *on == broken_channel().into_bytes() {
        Some(Answer::Broken(said.into()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
