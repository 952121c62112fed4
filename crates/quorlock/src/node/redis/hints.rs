//! Hearing hints: what the server pushes on the client's own channel.

use ::redis::{PushInfo, PushKind, Value};
use quorlock_core::ticket::{Channel, Ticket};

use super::describe;
use super::scripts::hint_channel;
use crate::node::Hints;

/// Where to listen, if somebody does: channel 0 is nobody's.
pub(super) fn wanted(hints: &Hints) -> Option<String> {
    (hints.channel != Channel(0)).then(|| hint_channel(hints.channel))
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

/// Passes on what is heard on this channel. Anything else that a server pushes, the end of the connection included,
/// means nothing here.
pub(super) fn ear(channel: String, hints: Hints) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        if let Some(ticket) = heard(&channel, &push) {
            hints.tell(ticket);
        }
        Ok(())
    }
}

fn heard(channel: &str, push: &PushInfo) -> Option<Ticket> {
    let (PushKind::Message, [Value::BulkString(on), Value::BulkString(said)]) = (&push.kind, &push.data[..]) else {
        return None;
    };
    let said = std::str::from_utf8(said).ok()?;
    if on == channel.as_bytes() { Ticket::parse(said) } else { None }
}

#[cfg(test)]
mod tests;
