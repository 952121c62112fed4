//! Invariants that must hold for any bytes from a server, for property tests and fuzzers.

use std::sync::Arc;

use quorlock_core::name::{Channel, LeaseId, Name};
use quorlock_core::request::{BreakMode, Parting, Target, Ticket, Waiter};
use quorlock_core::time::Ttl;

use super::super::resp::Parser;
use super::super::{hints, history};
use super::{
    Bundles, Duration, Epoch, FREE_LISTED_MAX, Fence, Life, Message, Mode, OwnerId, Reply, Request, Value, epoch_text,
    hex, page, reads_epoch, replies, roster_command, standing,
};
use crate::node::key::KeyTemplate;

pub(super) const LIFE: Life = Life { epoch: Epoch(0xe), floor: Fence::new(7) };
pub(super) const PERMITS: u32 = 3;

pub(super) const BREAK: Request = Request::Break { target: Target::Fence(Fence::new(7)), mode: BreakMode::Drain };

fn message(name: &str, request: Request) -> Message {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).expect("the default template is valid");
    let key = template.key(&Name::new(name).expect("the name is valid")).expect("the key is not reserved");
    Message { key: Arc::new(key), request: Arc::new(request) }
}

/// Returns pairs of messages that are bundled, one pair for each kind of bundle.
fn bundles() -> [[Message; 2]; 5] {
    let attempt = LeaseId::from_bits(1);
    let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).expect("the ttl is within bounds");
    let (proposal, holder, mode) = (Fence::new(1), "".into(), Mode::EXCLUSIVE);
    let holder: Arc<str> = holder;
    let renew = Request::Renew { attempt, fence: proposal, ttl, repair: true, holder: Arc::clone(&holder), mode };
    let acquire = Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: None };
    let release = Request::Release { attempt, tombstone: None, parting: None };
    [acquire, renew, release, Request::PlainRelease { attempt }, Request::PlainExtend { attempt, ttl }]
        .map(|request| ["one", "two"].map(|name| message(name, request.clone())))
}

/// Returns a message for each kind of request and mode.
pub(super) fn messages() -> Vec<Message> {
    let (attempt, fence) = (LeaseId::from_bits(1), Fence::new(1));
    let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).expect("the ttl is within bounds");
    let owner = OwnerId::from_bits(2);
    let ticket = Ticket { at: 3, id: 4 };
    let waiter = Some(Waiter { ticket, channel: Channel(5), shared: false });
    let mut requests = Vec::new();
    for mode in [
        Mode::EXCLUSIVE,
        Mode::Exclusive { writer: Some(owner) },
        Mode::Reentrant { owner },
        Mode::Shared { owner, reenters: false },
        Mode::Slot { permits: PERMITS, slot: 1 },
    ] {
        let holder: Arc<str> = "".into();
        requests.push(Request::Acquire { attempt, proposal: fence, ttl, holder: holder.clone(), mode, waiter });
        requests.push(Request::Renew { attempt, fence, ttl, repair: true, holder, mode });
    }
    requests.extend([
        Request::Release { attempt, tombstone: Some(1), parting: waiter.map(Parting::Yield) },
        Request::Inspect,
        Request::Check { attempt, slot: Some(1) },
        BREAK,
        Request::PlainAcquire { attempt, ttl },
        Request::PlainExtend { attempt, ttl },
        Request::PlainRelease { attempt },
    ]);
    requests.into_iter().map(|request| message("name", request)).collect()
}

/// Returns whether a value is a grant for a request, in exactly the form that the scripts and plain commands reply.
pub(super) fn is_grant_of(request: &Request, value: &Value, same_life: bool) -> bool {
    let is_number = |value: &Value| matches!(value, Value::Int(0..));
    match request {
        Request::PlainAcquire { .. } => same_life && *value == Value::Okay,
        Request::PlainExtend { .. } => same_life && *value == Value::Int(1),
        Request::PlainRelease { .. } | Request::Release { .. } | Request::Retire { .. } => *value == Value::Int(1),
        Request::Acquire { mode: Mode::Slot { .. }, .. } | Request::Renew { mode: Mode::Slot { .. }, .. } => {
            let is_slot = |value: &Value| matches!(value, Value::Int(0..3));
            matches!(value, Value::Array(parts)
                if matches!(&parts[..], [Value::Int(1), at, fence, slot, Value::Array(free)]
                    if is_number(at) && is_number(fence) && is_slot(slot)
                        && free.len() <= FREE_LISTED_MAX && free.iter().all(is_slot)))
        }
        Request::Acquire { .. } | Request::Renew { .. } => matches!(value, Value::Array(parts)
            if matches!(&parts[..], [Value::Int(1), at, fence] if is_number(at) && is_number(fence))),
        Request::Inspect | Request::Check { .. } | Request::Break { .. } => false,
    }
}

/// Returns whether a value grants each of two bundled requests. For acquires and renewals the node's clock comes first.
fn shares(request: &Request, value: &Value) -> Option<[bool; 2]> {
    let Value::Array(parts) = value else { return None };
    let is_number = |value: &Value| matches!(value, Value::Int(0..));
    match (request, parts.as_slice()) {
        // A grant in a bundle consists of the fence only.
        (Request::Acquire { .. } | Request::Renew { .. }, [at, shares @ ..]) => {
            let share = |value| is_number(at) && is_number(value) || is_grant_of(request, value, true);
            <&[Value; 2]>::try_from(shares).ok().map(|shares| shares.each_ref().map(share))
        }
        (_, shares) => <&[Value; 2]>::try_from(shares)
            .ok()
            .map(|shares| shares.each_ref().map(|share| is_grant_of(request, share, true))),
    }
}

fn take_bundle(messages: &[Message; 2], value: &Value) {
    let bundles = Bundles::of(messages);
    assert_ne!(bundles, Bundles::default(), "the two messages are bundled");
    let expected = shares(&messages[0].request, value).unwrap_or_default();
    let mut values = vec![value.clone()];
    values.extend(reads_epoch(messages).then(|| Value::Text(epoch_text(Some(LIFE)).into())));
    let taken = replies(Some(LIFE), messages, &bundles, values);
    match &taken {
        Ok(replies) => {
            assert_eq!(
                replies.iter().map(Reply::is_grant).collect::<Vec<_>>(),
                expected,
                "{value:?} to {:?}",
                messages[0].request
            );
        }
        // If one of the two replies is malformed, the whole reply is rejected.
        Err(_) => assert_ne!(expected, [true; 2], "{value:?} to {:?}", messages[0].request),
    }
}

/// Parses the bytes as the answer to every kind of question.
///
/// # Panics
/// Panics if a value depends on the pieces in which it arrives, or if anything but a grant is parsed as a grant.
pub(crate) fn take_anything(bytes: &[u8]) {
    let mut parser = Parser::default();
    parser.buffer().extend_from_slice(bytes);
    let value = parser.next();
    let mut pieces = Parser::default();
    let in_pieces = bytes.iter().map(|byte| {
        pieces.buffer().push(*byte);
        pieces.next()
    });
    assert_eq!(in_pieces.into_iter().find(|value| *value != Ok(None)).unwrap_or(Ok(None)), value, "in pieces");
    let Ok(Some(value)) = value else { return };
    if let Value::Push(parts) = &value {
        drop(hints::parse_push(Channel(5), parts));
        return;
    }
    drop(standing(&value));
    drop(roster_command::roster_answer(&value));
    drop(page(&value));
    drop(history::recall_answer(std::slice::from_ref(&value)));
    for messages in bundles() {
        take_bundle(&messages, &value);
    }
    for message in messages() {
        for epoch in [epoch_text(Some(LIFE)), hex(LIFE.epoch), String::new()] {
            let same_life = epoch == epoch_text(Some(LIFE));
            let mut values = vec![value.clone()];
            let ends_with_read = reads_epoch(std::slice::from_ref(&message));
            values.extend(ends_with_read.then(|| Value::Text(epoch.into())));
            let is_yes = is_grant_of(&message.request, &value, same_life);
            let taken = replies(Some(LIFE), std::slice::from_ref(&message), &Bundles::default(), values);
            let is_grant = matches!(taken.as_deref(), Ok([reply]) if reply.is_grant());
            assert_eq!(is_grant, is_yes, "{value:?} to {:?}", message.request);
        }
    }
}
