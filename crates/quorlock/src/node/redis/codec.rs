//! Requests into commands, values into replies. A hostile reply is malformed at worst: never a panic, never a vote.

use std::time::Duration;

use ::redis::{Cmd, Pipeline, ServerError, Value, cmd};
use quorlock_core::fence::Fence;
use quorlock_core::name::Holder;
use quorlock_core::node::{Constants, Epoch, Errand, Incarnation, Standing, Trust, retention_millis};
use quorlock_core::ticket::Line;
use quorlock_core::vote::{Refusal, Request, Vote};

use super::scripts::{SCRIPTS, epoch_key, fence_key, meta_key, tombstone_key};
use super::{malformed, trouble};
use crate::node::{Letter, Life, Reply, Trouble};

/// A batch as one write. Plain requests know nothing of epochs, so a batch with any of them ends with a look at it.
pub(super) fn batch(life: Option<Life>, letters: &[Letter], constants: &Constants) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(letters.len() + 1);
    for letter in letters {
        pipe.add_command(request(life, letter, constants));
    }
    if letters.iter().any(|letter| letter.request.is_plain()) {
        pipe.cmd("GET").arg(epoch_key());
    }
    pipe
}

fn request(life: Option<Life>, letter: &Letter, constants: &Constants) -> Cmd {
    let place = &letter.place;
    match &*letter.request {
        Request::Acquire { attempt, proposal, ttl, holder, .. } => {
            vote_command(life, letter, constants, attempt.reveal(), (*proposal, ttl.as_millis(), holder, "acquire"))
        }
        Request::Renew { attempt, fence, ttl, repair, holder, .. } => {
            let mode = if *repair { "repair" } else { "renew" };
            vote_command(life, letter, constants, attempt.reveal(), (*fence, ttl.as_millis(), holder, mode))
        }
        Request::Inspect => cmd("PING"),
        Request::Release { attempt, tombstone, .. } => {
            let mut command = cmd("EVALSHA");
            command.arg(&SCRIPTS.release.sha).arg(2).arg(&place.key).arg(tombstone_key(*attempt));
            command.arg(attempt.reveal()).arg(tombstone.map(|millis| millis.to_string()).unwrap_or_default());
            command
        }
        Request::PlainAcquire { attempt, ttl } => {
            let mut command = cmd("SET");
            command.arg(&place.key).arg(attempt.reveal()).arg("NX").arg("PX").arg(ttl.as_millis());
            command
        }
        Request::PlainExtend { attempt, ttl } => {
            let mut command = cmd("EVALSHA");
            command.arg(&SCRIPTS.plain_extend.sha).arg(1).arg(&place.key).arg(attempt.reveal()).arg(ttl.as_millis());
            command
        }
        Request::PlainRelease { attempt } => {
            let mut command = cmd("EVALSHA");
            command.arg(&SCRIPTS.plain_release.sha).arg(1).arg(&place.key).arg(attempt.reveal());
            command
        }
    }
}

fn vote_command(
    life: Option<Life>,
    letter: &Letter,
    constants: &Constants,
    attempt: String,
    (fence, ttl, holder, mode): (Fence, u64, &str, &str),
) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(&SCRIPTS.acquire.sha).arg(4);
    command.arg(epoch_key()).arg(&letter.place.key).arg(fence_key(&letter.place));
    command.arg(tombstone_key(letter.request.attempt()));
    command.arg(mark(life)).arg(attempt).arg(fence.get()).arg(ttl);
    command.arg(constants.sigma_micros).arg(retention_millis(constants)).arg(holder).arg(mode);
    command
}

/// What the epoch key holds while this life is ripe. No life, no mark: nothing that was ever stored is equal to it.
fn mark(life: Option<Life>) -> String {
    life.map_or_else(String::new, |life| format!("{} {}", hex(life.epoch), life.floor))
}

fn hex(epoch: Epoch) -> String {
    format!("{:032x}", epoch.0)
}

/// One reply for each letter.
pub(super) fn replies(life: Option<Life>, letters: &[Letter], values: Vec<Value>) -> Result<Vec<Reply>, Trouble> {
    let plain = letters.iter().any(|letter| letter.request.is_plain());
    if values.len() != letters.len() + usize::from(plain) {
        return Err(malformed("a batch"));
    }
    let same_life = !plain || life.is_some() && values.last().and_then(text) == Some(mark(life));
    letters.iter().zip(values).map(|(letter, value)| reply(letter, value, same_life)).collect()
}

fn reply(letter: &Letter, value: Value, same_life: bool) -> Result<Reply, Trouble> {
    if let Value::ServerError(error) = value {
        // A key that holds other data has no vote of ours that could be taken back.
        if says(&error, "WRONGTYPE") && !letter.request.may_grant() {
            return Ok(plain(Some(Refusal::Absent)));
        }
        // Scripts flushed, or demoted to a replica: the connection is of no use until it has shaken hands again.
        let fatal = FATAL.iter().any(|code| says(&error, code));
        let error = error.into();
        return if fatal {
            Err(Trouble::Broken(super::describe(&error)))
        } else {
            Ok(Reply::Failed(super::describe(&error)))
        };
    }
    match &*letter.request {
        request if request.is_plain() && request.may_grant() && !same_life => {
            Ok(Reply::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), at_micros: None })
        }
        Request::PlainAcquire { .. } => match value {
            Value::Okay => Ok(plain(None)),
            Value::Nil => Ok(plain(Some(Refusal::Held { holder: None, remaining: None, fence: Fence::default(), line: Line::default() }))),
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

/// What a server says when it has no use for this connection as it is.
const FATAL: [&str; 6] = ["NOSCRIPT", "READONLY", "NOAUTH", "MOVED", "MASTERDOWN", "LOADING"];

/// Whether this is the error's code. Redis before 7 wraps what a script met into an error of its own.
fn says(error: &ServerError, code: &str) -> bool {
    let wrapped = |text: &str| {
        text.contains("user_script") && text.split(|c: char| !c.is_ascii_uppercase()).any(|word| word == code)
    };
    error.code() == code || error.details().is_some_and(wrapped)
}

fn plain(refusal: Option<Refusal>) -> Reply {
    let vote = refusal.map_or(Vote::grant(Fence::default()), Vote::Refusal);
    Reply::Voted { vote, at_micros: None }
}

fn scripted(request: &Request, value: &Value) -> Option<Reply> {
    let Value::Array(parts) = value else { return None };
    let number = |index: usize| parts.get(index).and_then(unsigned);
    let code = parts.first().and_then(|part| if let Value::Int(code) = part { Some(*code) } else { None })?;
    let at_micros = Some(number(1)?);
    let vote = match code {
        1 if request.may_grant() => Vote::grant(Fence::new(number(2)?)),
        1 => Vote::grant(Fence::default()),
        0 => Vote::Refusal(Refusal::Held {
            // A key without an expiry, which nobody but a stranger would set, has no end that could be told.
            remaining: parts.get(2).and_then(unsigned).map(Duration::from_millis),
            fence: Fence::new(number(3)?),
            holder: parts.get(4).and_then(text).and_then(|text| Holder::decode(&text)),
            line: Line::default(),
        }),
        -1 => Vote::Refusal(Refusal::WrongEpoch),
        -2 => Vote::Refusal(Refusal::Tombstoned),
        -3 => Vote::Refusal(Refusal::TooFarAhead),
        -4 => Vote::Refusal(Refusal::Absent),
        _ => return None,
    };
    Some(Reply::Voted { vote, at_micros })
}

/// An errand as a command.
pub(super) fn errand(errand: &Errand) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(&SCRIPTS.errand.sha).arg(2).arg(epoch_key()).arg(meta_key());
    match errand {
        Errand::Look => command.arg("look"),
        Errand::Hello { run, fresh, constants, founders, trust } => {
            command.arg("hello").arg(run).arg(hex(*fresh));
            add_constants(&mut command, constants);
            let offset = match trust {
                Trust::Quarantine => String::new(),
                Trust::Vote { floor_offset } => floor_offset.to_string(),
            };
            command.arg(founders).arg(offset)
        }
        Errand::Witness { epoch, witness } => command.arg("witness").arg(hex(*epoch)).arg(format!("{witness:032x}")),
        Errand::Add { epoch, witness, micros } => {
            command.arg("add").arg(hex(*epoch)).arg(format!("{witness:032x}")).arg(*micros)
        }
        Errand::Ripen { epoch } => command.arg("ripen").arg(hex(*epoch)),
        Errand::Init { run, fresh, constants } => {
            command.arg("init").arg(run).arg(hex(*fresh));
            add_constants(&mut command, constants);
            &mut command
        }
    };
    command
}

fn add_constants(command: &mut Cmd, constants: &Constants) {
    command.arg(&constants.cluster).arg(constants.nodes).arg(constants.max_ttl_millis).arg(constants.sigma_micros);
}

/// How a node stands, from its own words.
pub(super) fn standing(value: Value) -> Result<Standing, Trouble> {
    match value {
        Value::ServerError(error) => Err(trouble(&error.into())),
        value => parse_standing(&value).ok_or_else(|| malformed("an errand")),
    }
}

fn parse_standing(value: &Value) -> Option<Standing> {
    let Value::Array(parts) = value else { return None };
    let [accepted, at, words @ ..] = parts.as_slice() else { return None };
    let words: Vec<String> = words.iter().map(text).collect::<Option<_>>()?;
    let [mark, run, cluster, nodes, max_ttl, sigma, witnessed, witness, seen, founders] = words.as_slice() else {
        return None;
    };
    let life = if cluster.is_empty() {
        None
    } else {
        let (epoch, floor) = parse_mark(mark)?;
        let witness = u128::from_str_radix(witness, 16).ok();
        Some(Incarnation {
            run: run.clone(),
            epoch,
            floor,
            witnessed_micros: witnessed.parse().ok()?,
            witness: witness.map(|who| (who, seen.parse().unwrap_or(0))),
            constants: Constants {
                cluster: cluster.clone(),
                nodes: nodes.parse().ok()?,
                max_ttl_millis: max_ttl.parse().ok()?,
                sigma_micros: sigma.parse().ok()?,
            },
            founders: founders.clone(),
        })
    };
    Some(Standing { accepted: unsigned(accepted)? == 1, life, at_micros: unsigned(at)? })
}

fn parse_mark(mark: &str) -> Option<(Option<Epoch>, Option<Fence>)> {
    if mark.is_empty() {
        return Some((None, None));
    }
    let (epoch, floor) = match mark.split_once(' ') {
        Some((epoch, floor)) => (epoch, Some(Fence::new(floor.parse().ok()?))),
        None => (mark, None),
    };
    Some((Some(Epoch(u128::from_str_radix(epoch, 16).ok()?)), floor))
}

fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
