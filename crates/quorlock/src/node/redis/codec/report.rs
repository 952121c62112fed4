//! Parses a node's report about a name.

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::vote::{HeldBy, QUEUE_LISTED_MAX, Report, Waiting};

use super::super::resp::Value;
use super::{flag, holder, parse_held_mode, remaining, small, unsigned, words};

pub(super) fn report(parts: &[Value]) -> Option<Report> {
    let [fence, since, waiting, Value::Array(queue), held @ ..] = parts else { return None };
    let held = match held {
        [] => None,
        [Value::Int(left), held_mode, holds, holder_text, digest, broken] => Some(HeldBy {
            holder: holder(&words(holder_text)?),
            remaining: remaining(*left),
            held_mode: parse_held_mode(held_mode.as_str()?)?,
            holds: small(holds)?,
            digest: match digest.as_str()? {
                "" => None,
                digits => Some(Digest::parse(digits)?),
            },
            broken: flag(broken)?,
        }),
        _ => return None,
    };
    let (fence, since_micros) = (Fence::new(unsigned(fence)?), unsigned(since)?);
    Some(Report { held, fence, since_micros, waiting: small(waiting)?, queue: parse_queue(queue)? })
}

/// Parses a list that alternates between a queue position and the time of its ticket.
fn parse_queue(parts: &[Value]) -> Option<Vec<Waiting>> {
    let (pairs, rest) = parts.as_chunks::<2>();
    if pairs.len() > QUEUE_LISTED_MAX || !rest.is_empty() {
        return None;
    }
    let waiting = |[position, at]: &[Value; 2]| {
        let shared = match position.as_str()?.split(' ').nth(1)? {
            "s" => true,
            "x" => false,
            _ => return None,
        };
        Some(Waiting { since_micros: at.as_str()?.parse().ok()?, shared })
    };
    pairs.iter().map(waiting).collect()
}
