//! Hearing hints: what the server pushes on the client's own channel.

use ::redis::{PushKind, Value};
use quorlock_core::ticket::{Channel, Ticket};

use super::describe;
use super::scripts::hint_channel;
use crate::node::Inbox;

/// Where to listen, if somebody does: channel 0 is nobody's.
pub(super) fn wanted(inbox: &Inbox) -> Option<String> {
    (inbox.channel != Channel(0)).then(|| hint_channel(inbox.channel))
}

/// Notes whether the server lets us listen. If not, that is no reason to do without its vote.
pub(super) fn note(title: &str, answer: Option<Value>) {
    let reason = match answer {
        Some(Value::Push { kind: PushKind::Subscribe, .. }) => return,
        Some(Value::ServerError(error)) => describe(&error.into()),
        _ => "a malformed reply to SUBSCRIBE".into(),
    };
    tracing::info!(node = %title, %reason, "no hints: waiters ask again at their own pace");
}

/// The ticket of a hint on this channel. Anything else that a server pushes means nothing here.
pub(super) fn heard(channel: Channel, kind: &PushKind, data: &[Value]) -> Option<Ticket> {
    let (PushKind::Message, [Value::BulkString(on), Value::BulkString(said)]) = (kind, data) else { return None };
    let said = std::str::from_utf8(said).ok()?;
    if *on == hint_channel(channel).into_bytes() { Ticket::parse(said) } else { None }
}

#[cfg(test)]
mod tests;
