//! From a vote that is free to the first waiter, without another question.

use crate::digest::Digest;
use crate::mode::Mode;
use crate::node::Incarnation;
use crate::node::apply::answer;
use crate::node::record::{KeptRequest, NodeTime, Record};
use crate::ticket::{Handoff, Hint};
use crate::vote::{Request, Vote};

/// Carries out the last request of the first waiter, as if it arrived now. `None` if the node does not grant it: then the
/// waiter is only given the hint.
///
/// A waiter that does not hear of it would have a vote without knowing: this is for those who can be told.
pub(super) fn hand_on(life: &Incarnation, record: &mut Record, hint: Hint, now: NodeTime) -> Option<Handoff> {
    let KeptRequest { waiter, epoch, attempt, proposal, ttl, holder } = record.next(hint)?.clone();
    let (mode, waiter) = (Mode::EXCLUSIVE, Some(waiter));
    let request = Request::Acquire { attempt, proposal, ttl, holder: holder.into(), mode, waiter };
    match answer(life, record, &request, epoch, now).vote {
        Vote::Grant { fence, .. } => Some(Handoff { attempt: Digest::of(attempt), fence }),
        _ => None,
    }
}
