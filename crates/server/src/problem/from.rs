//! Converts the errors of the library to problems.

use quorlock::{
    AcquireError, BreakError, ConfigError, HeldError, LeaseError, LostError, Operation, ReadError, Tally, Target,
};

use super::{Code, Problem};
use crate::view::millis;

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        let code = match error {
            ConfigError::Name(_) | ConfigError::ReservedKey { .. } => Code::InvalidName,
            ConfigError::Ttl(_) => Code::TtlOutOfRange,
            _ => Code::InvalidRequest,
        };
        Self::new(code, error.to_string())
    }
}

fn held_problem(code: Code, detail: String, error: &HeldError) -> Problem {
    let mut problem = Problem::new(code, detail).with_holder(error.holder.as_ref()).with_nodes(&error.tally);
    problem.0.remaining_ms = error.remaining.map(millis);
    problem.0.fence = error.fence.map(quorlock::Fence::get);
    problem
}

fn no_verdict_problem(code: Code, detail: String, tally: &Tally) -> Problem {
    Problem::new(code, detail).with_nodes(tally).retry_not_before(tally.quarantine_left())
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Self {
        let detail = error.to_string();
        match error {
            AcquireError::Held(error) => held_problem(Code::LockHeld, detail, &error),
            AcquireError::WaitTimeout(error) => held_problem(Code::WaitTimeout, detail, &error),
            AcquireError::SlotsMismatch { name, requested, in_use } => {
                let detail = format!(
                    "{name:?} is in use with {in_use} slots, not {requested}: all users must pass the same number"
                );
                Self::new(Code::SlotsMismatch, detail)
            }
            // The service derives an owner from each idempotency key, and retires no other owners.
            AcquireError::Retired { name } => {
                Self::new(Code::KeySpent, format!("the key for {name:?} was released: use a new key for each lease"))
            }
            AcquireError::UpgradeUnsupported { .. } => Self::new(Code::Upgrade, detail),
            AcquireError::NoQuorum { tally, .. } => no_verdict_problem(Code::NoQuorum, detail, &tally),
            AcquireError::TooSlow { tally, .. } => no_verdict_problem(Code::TooSlow, detail, &tally),
            AcquireError::Config(error) => error.into(),
            AcquireError::Closed => Self::draining(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<LostError> for Problem {
    fn from(error: LostError) -> Self {
        let hint = if error == LostError::Ended { "; the history says who ended it, and why" } else { "" };
        Self::new(Code::LeaseLost, format!("{error}{hint}"))
    }
}

impl From<LeaseError> for Problem {
    fn from(error: LeaseError) -> Self {
        let detail = error.to_string();
        match error {
            LeaseError::Lost(error) => error.into(),
            LeaseError::NoQuorum { tally, .. } => no_verdict_problem(Code::NoQuorum, detail, &tally),
            LeaseError::Config(error) => error.into(),
            LeaseError::Closed => Self::draining(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let detail = error.to_string();
        match error {
            ReadError::Config(error) => error.into(),
            // The answer of one node is sufficient to read the history. So no node has answered, and the end of a
            // quarantine would not help.
            ReadError::NoQuorum { operation: Operation::History, tally } => {
                Self::new(Code::NoQuorum, detail).with_nodes(&tally)
            }
            ReadError::NoQuorum { tally, .. } => no_verdict_problem(Code::NoQuorum, detail, &tally),
            ReadError::InvalidCursor => Self::invalid(detail),
            ReadError::Closed => Self::draining(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<BreakError> for Problem {
    fn from(error: BreakError) -> Self {
        let detail = error.to_string();
        match error {
            BreakError::Config(error) => error.into(),
            BreakError::NotHeld { .. } => Self::new(Code::NotHeld, detail),
            BreakError::AnotherLease { current, holder, .. } => {
                let mut problem = Self::new(Code::OtherLease, detail).with_holder(holder.as_ref());
                if let Target::Fence(fence) = current {
                    problem.0.fence = Some(fence.get());
                }
                problem
            }
            BreakError::NoQuorum { tally, .. } => no_verdict_problem(Code::NoQuorum, detail, &tally),
            BreakError::Closed => Self::draining(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}
