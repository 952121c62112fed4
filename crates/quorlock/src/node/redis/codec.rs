//! Converts requests to commands, and values to replies. A hostile reply is at worst malformed: it causes no panic and
//! yields no vote.

#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod node_command;
mod report;
mod request;
mod roster_command;
mod search;

use std::time::Duration;

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, OwnerId};
use quorlock_core::node::Epoch;
use quorlock_core::request::Request;
use quorlock_core::terms::{HeldMode, Mode, PERMITS_MAX};
use quorlock_core::vote::{FREE_LISTED_MAX, GrantedSlot, QueuePosition, Refusal, Vote};

use super::resp::{DIGITS_MAX, Value, decimal};
use super::trouble::{describe, malformed};
use crate::node::{Life, Message, Reply, Trouble};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzz::take_anything;
pub(super) use node_command::{node_command, script_call, standing, standing_after, time_micros};
use report::report;
pub(super) use request::{Bundles, write_batch, write_request};
pub(super) use roster_command::{roster_answer_after, roster_command};
pub(super) use search::{page, search};

/// Returns the content that the epoch key has while the node's memory is in this life and may vote. For `None` the text
/// is empty, which no node stores.
pub(super) fn epoch_text(life: Option<Life>) -> String {
    life.map(|life| format!("{} {}", hex(life.epoch), life.floor.get())).unwrap_or_default()
}

/// Returns whether the text is the content of the epoch key in this life of the memory. Every reply to a plain batch is
/// checked, so it allocates nothing.
fn is_epoch_text(text: &[u8], life: Life) -> bool {
    let Some((epoch, floor)) = text.split_at_checked(32) else { return false };
    let digits = &mut [0; DIGITS_MAX];
    epoch == quorlock_core::name::hex(life.epoch.0)
        && floor.strip_prefix(b" ") == Some(decimal(life.floor.get(), digits))
}

/// Returns whether the text is the content of the epoch key after a new roster, in this life of the memory.
fn is_new_roster(text: &[u8], life: Life) -> bool {
    let known = quorlock_core::name::hex(life.epoch.0);
    let (same_life, generation) = known.split_at(16);
    text.get(..16) == Some(same_life) && text.get(16..32).is_some_and(|digits| digits != generation)
}

fn hex(epoch: Epoch) -> String {
    format!("{:032x}", epoch.0)
}

/// Parses the replies, one for each message.
pub(super) fn replies(
    life: Option<Life>,
    messages: &[Message],
    bundles: &Bundles,
    values: Vec<Value>,
) -> Result<Vec<Reply>, Trouble> {
    let ends_with_read = reads_epoch(messages);
    if values.len() != bundles.values(messages.len()) + usize::from(ends_with_read) {
        return Err(malformed("a batch"));
    }
    let refusal = match life {
        None => Some(Refusal::WrongEpoch),
        Some(_) if !ends_with_read => None,
        Some(life) => match values.last().and_then(Value::as_bytes) {
            Some(text) if is_epoch_text(text, life) => None,
            Some(text) if is_new_roster(text, life) => Some(Refusal::NewRoster),
            _ => Some(Refusal::WrongEpoch),
        },
    };
    let refusal = refusal.as_ref();
    if *bundles == Bundles::default() {
        return messages.iter().zip(values).map(|(message, value)| reply(message, value, refusal)).collect();
    }
    let mut values = values.into_iter();
    let mut shares = bundles.shares(messages.iter().any(|message| message.request.is_plain()), &mut values)?;
    let mut replies = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let (at, value) = match bundles.kind(index) {
            Some(kind) => {
                let (at, share) = &mut shares[kind as usize];
                (at.as_ref(), share.next())
            }
            None => (None, values.next()),
        };
        replies.push(match (at, value.ok_or_else(|| malformed("a batch"))?) {
            (Some(at), Value::Int(fence)) => bundled_grant(at, fence)?,
            (_, value) => reply(message, value, refusal)?,
        });
    }
    Ok(replies)
}

/// Parses a grant of a bundle, which consists of the fence only.
fn bundled_grant(at: &Value, fence: i64) -> Result<Reply, Trouble> {
    let granted = || {
        let vote = Vote::grant(Fence::new(u64::try_from(fence).ok()?));
        Some(Reply::Voted { vote, at_micros: Some(unsigned(at)?) })
    };
    granted().ok_or_else(|| malformed("a script"))
}

/// Returns whether a batch ends with a read of the epoch: a plain vote counts only if the server has not lost its
/// memory. In a Cluster the epoch may be on another server; there, the connections to all masters detect a loss.
fn reads_epoch(messages: &[Message]) -> bool {
    let needs_read =
        |Message { key, request }: &Message| request.is_plain() && request.may_grant() && key.slot.is_none();
    messages.iter().any(needs_read)
}

/// Parses a reply. `refusal` is the reason why plain votes do not count: the node's epoch is not the one in which they
/// were asked for.
fn reply(message: &Message, value: Value, refusal: Option<&Refusal>) -> Result<Reply, Trouble> {
    if let Value::Error(error) = value {
        // A key of another type belongs to another program, so there is no vote of ours to extend or release.
        if has_code(&error, "WRONGTYPE") && (message.request.is_release() || message.request.is_plain()) {
            return Ok(plain(Some(Refusal::Absent)));
        }
        if has_code(&error, "MOVED") {
            return Ok(Reply::Moved(describe(&error)));
        }
        return failed(&error).map(Reply::Failed);
    }
    if let Some(refusal) = refusal
        && message.request.is_plain()
        && message.request.may_grant()
    {
        return Ok(plain(Some(refusal.clone())));
    }
    match &*message.request {
        Request::PlainAcquire { .. } => match value {
            Value::Okay => Ok(plain(None)),
            Value::Nil => {
                let (holder, remaining, fence, queue) = (None, None, Fence::default(), QueuePosition::default());
                Ok(plain(Some(Refusal::Held { holder, remaining, fence, queue })))
            }
            _ => Err(malformed("SET")),
        },
        Request::PlainExtend { .. } | Request::PlainRelease { .. } => match value {
            Value::Int(1) => Ok(plain(None)),
            Value::Int(0) => Ok(plain(Some(Refusal::Absent))),
            _ => Err(malformed("a plain script")),
        },
        request => scripted(request, &value).ok_or_else(|| malformed("a script")),
    }
}

/// Error codes after which the connection is unusable.
///
/// ASK and TRYAGAIN, which occur while a slot migrates, are not among them: a new connection would get them too. When
/// the migration is complete, the server replies MOVED.
const FATAL: [&str; 6] = ["NOSCRIPT", "READONLY", "NOAUTH", "CLUSTERDOWN", "MASTERDOWN", "LOADING"];

/// Describes an error. Fails if the error ends the connection.
fn failed(error: &str) -> Result<String, Trouble> {
    let text = describe(error);
    if FATAL.iter().any(|code| has_code(error, code)) { Err(Trouble::Broken(text)) } else { Ok(text) }
}

/// Returns whether the error has this code. Redis before 7 wraps a script's error in another error.
fn has_code(error: &str, code: &str) -> bool {
    let is_wrapped =
        || error.contains("user_script") && error.split(|c: char| !c.is_ascii_uppercase()).any(|word| word == code);
    super::trouble::code(error) == code || is_wrapped()
}

fn plain(refusal: Option<Refusal>) -> Reply {
    let vote = refusal.map_or(Vote::grant(Fence::default()), Vote::Refusal);
    Reply::Voted { vote, at_micros: None }
}

fn scripted(request: &Request, value: &Value) -> Option<Reply> {
    if let Request::Release { .. } | Request::Retire { .. } = request {
        return match value {
            Value::Int(1) => Some(plain(None)),
            Value::Int(-4) => Some(plain(Some(Refusal::Absent))),
            _ => None,
        };
    }
    let [Value::Int(code), at, rest @ ..] = value.as_array()? else { return None };
    let vote = match (request, *code, rest) {
        (Request::Acquire { mode, .. } | Request::Renew { mode, .. }, 1, _) => granted(*mode, rest)?,
        (Request::Acquire { .. } | Request::Renew { .. }, code, _)
        | (Request::Check { .. }, code @ (-1 | -2 | -4 | -11), _)
        | (Request::Break { .. }, code @ -4, _) => Vote::Refusal(refusal(code, rest)?),
        (Request::Break { .. }, -9, [fence, digest, holder_text]) => {
            let fence = Some(Fence::new(unsigned(fence)?)).filter(|fence| *fence > Fence::default());
            let (digest, holder) = (Digest::parse(digest.as_str()?)?, holder(&words(holder_text)?));
            Vote::Refusal(Refusal::Other { fence, digest, holder })
        }
        (Request::Break { .. }, 3, [digest, stood, left]) => {
            let (digest, stood) = (Digest::parse(digest.as_str()?)?, flag(stood)?);
            Vote::Broken { digest, stood, remaining: Duration::from_millis(unsigned(left)?) }
        }
        (Request::Inspect, 2, _) => Vote::Report(Box::new(report(rest)?)),
        (Request::Check { .. }, 3, [Value::Int(left)]) => Vote::Standing { remaining: remaining(*left) },
        _ => return None,
    };
    Some(Reply::Voted { vote, at_micros: Some(unsigned(at)?) })
}

fn granted(mode: Mode, parts: &[Value]) -> Option<Vote> {
    let (fence, slot) = match (mode, parts) {
        (Mode::Slot { permits, .. }, [fence, index, Value::Array(free)]) if free.len() <= FREE_LISTED_MAX => {
            // Reject slots that do not exist: the client may ask for any slot in the reply.
            let slot = |value: &Value| small(value).filter(|slot| *slot < permits);
            let free = free.iter().map(slot).collect::<Option<_>>()?;
            (fence, Some(GrantedSlot { index: slot(index)?, free }))
        }
        (Mode::Exclusive { .. } | Mode::Reentrant { .. } | Mode::Shared { .. }, [fence]) => (fence, None),
        _ => return None,
    };
    Some(Vote::Grant { fence: Fence::new(unsigned(fence)?), slot })
}

fn refusal(code: i64, parts: &[Value]) -> Option<Refusal> {
    Some(match (code, parts) {
        (0, [Value::Int(left), fence, holder_text, position, waiting, lower]) => Refusal::Held {
            remaining: remaining(*left),
            fence: Fence::new(unsigned(fence)?),
            holder: holder(&words(holder_text)?),
            queue: queue(position, waiting, lower)?,
        },
        (-1, []) => Refusal::WrongEpoch,
        (-2, []) => Refusal::Tombstoned,
        (-3, []) => Refusal::TooFarAhead,
        (-4, []) => Refusal::Absent,
        (-5, [fence, position, waiting, lower]) => {
            Refusal::Behind { fence: Fence::new(unsigned(fence)?), queue: queue(position, waiting, lower)? }
        }
        (-6, []) => Refusal::QueueFull,
        (-7, [stored]) => Refusal::Permits { stored: small(stored)? },
        (-8, []) => Refusal::Upgrade,
        (-10, []) => Refusal::Retired,
        (-11, []) => Refusal::NewRoster,
        _ => return None,
    })
}

fn queue(position: &Value, waiting: &Value, lower: &Value) -> Option<QueuePosition> {
    let lower = flag(lower)?;
    Some(QueuePosition {
        position: Some(small(position)?).filter(|position| *position > 0),
        waiting: small(waiting)?,
        lower,
    })
}

fn parse_held_mode(held_mode: &str) -> Option<HeldMode> {
    match held_mode.split_once(' ') {
        None if held_mode == "x" => Some(HeldMode::Exclusive),
        None if held_mode == "s" => Some(HeldMode::Shared),
        Some(("r", owner)) => OwnerId::parse(owner).map(HeldMode::Reentrant),
        Some(("k", permits)) => permits.parse().ok().filter(|permits| *permits <= PERMITS_MAX).map(HeldMode::Slots),
        _ => None,
    }
}

/// Parses the holder that a client stored, or the type of a key that belongs to another program.
fn holder(holder_text: &str) -> Option<Holder> {
    holder_text.strip_prefix("TYPE ").map(Holder::of_other_program).or_else(|| Holder::decode(holder_text))
}

/// Converts text for people, replacing invalid UTF-8: no vote depends on it.
fn words(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Converts the remaining time. Only other programs set keys without an expiry; these have no remaining time.
fn remaining(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

fn unsigned(value: &Value) -> Option<u64> {
    let Value::Int(number) = value else { return None };
    u64::try_from(*number).ok()
}

fn flag(value: &Value) -> Option<bool> {
    matches!(value, Value::Int(0 | 1)).then_some(*value == Value::Int(1))
}

fn small(value: &Value) -> Option<u32> {
    unsigned(value).and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests;
