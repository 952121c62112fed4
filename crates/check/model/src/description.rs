//! Describes requests and votes as text.

use quorlock_core::request::{BreakMode, Request};
use quorlock_core::vote::Vote;

/// Describes a request. `is_repeated`: the request repeats an earlier request of its attempt.
pub fn describe_request(request: &Request, is_repeated: bool) -> String {
    match (request, is_repeated) {
        (Request::Acquire { proposal, .. }, true) => format!("acquire again, proposing {proposal}"),
        (Request::Acquire { proposal, .. }, false) => format!("acquire, proposing {proposal}"),
        (Request::Renew { repair: true, .. }, _) => "renewal".into(),
        (Request::Renew { .. }, _) => "extension".into(),
        (Request::Release { tombstone: Some(_), .. }, _) => "release with a tombstone".into(),
        (Request::Release { .. } | Request::PlainRelease { .. }, _) => "release".into(),
        (Request::PlainAcquire { .. }, _) => "SET NX PX".into(),
        (Request::PlainExtend { .. }, _) => "plain extension".into(),
        (Request::Break { target, mode: BreakMode::Drain }, _) => format!("break of {target}"),
        (Request::Break { target, mode: BreakMode::Now }, _) => format!("break of {target}, at once"),
        (Request::Retire { .. }, _) => "retirement".into(),
        (Request::Inspect | Request::Check { .. }, _) => "inspection".into(),
    }
}

/// Describes the vote of a node on a request.
pub fn describe_vote(request: &Request, vote: &Vote) -> String {
    match vote {
        Vote::Grant { fence, .. } if request.may_grant() => format!("grants, fence {fence}"),
        Vote::Grant { .. } => "the vote is released".into(),
        Vote::Refusal(why) => format!("refuses: {why}"),
        Vote::Broken { remaining, .. } if remaining.is_zero() => "broken, and free".into(),
        Vote::Broken { remaining, .. } => format!("broken, and drains for {remaining:?}"),
        Vote::Report(_) | Vote::Standing { .. } => "reports".into(),
    }
}
