//! From a vote that is free to the first in line, without another question.

use crate::digest::Digest;
use crate::mode::Mode;
use crate::node::Incarnation;
use crate::node::apply::apply;
use crate::node::record::{KeptRequest, NodeTime, Record};
use crate::ticket::Handoff;
use crate::vote::{Request, Vote};

/// Carries out what the first in line has asked for before, as if it arrived now: the vote goes to it without another
/// question. `None` if there is a reason against it; then a hint has to do. The record's tombstone is to be that of the
/// attempt that asked.
///
/// Whoever does not hear of it would have a vote without knowing: this is for those who can be told.
pub fn hand_on(life: &Incarnation, record: &mut Record, next: &KeptRequest, now: NodeTime) -> Option<Handoff> {
    let KeptRequest { waiter, epoch, attempt, proposal, ttl, holder } = next.clone();
    let (mode, waiter) = (Mode::EXCLUSIVE, Some(waiter));
    // That was about the one who made room.
    record.retired = None;
    let request = Request::Acquire { attempt, proposal, ttl, holder: holder.into(), mode, waiter };
    match apply(life, record, &request, epoch, now).vote {
        Vote::Grant { fence, .. } => Some(Handoff { attempt: Digest::of(attempt), fence }),
        _ => None,
    }
}
