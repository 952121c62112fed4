//! The library's errors as problems.

use quorlock::{
    AcquireError, BreakError, ConfigError, ExtendError, HeldError, HistoryError, InspectError, ListError, LostError,
    ReleaseError, Tally, Target,
};

use super::{Code, Problem, quarantine};
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

fn held(code: Code, detail: String, error: &HeldError) -> Problem {
    let mut problem = Problem::new(code, detail).with_holder(error.holder.as_ref()).with_nodes(&error.tally);
    problem.0.remaining_ms = error.remaining.map(millis);
    problem.0.fence = error.fence.map(quorlock::Fence::get);
    problem
}

fn undecided(code: Code, detail: String, tally: &Tally) -> Problem {
    Problem::new(code, detail).with_nodes(tally).not_before(quarantine::ends_for(tally))
}

fn closed() -> Problem {
    Problem::draining()
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Self {
        let detail = error.to_string();
        match error {
            AcquireError::Held(error) => held(Code::LockHeld, detail, &error),
            AcquireError::WaitTimeout(error) => held(Code::WaitTimeout, detail, &error),
            AcquireError::Permits { name, asked, stored } => {
                let why = format!("{name:?} is in use with {stored} slots, not {asked}: all who use it must agree");
                Self::new(Code::SlotsMismatch, why)
            }
            // Nobody else is retired here than the owner that a key stands for.
            AcquireError::Retired { name } => {
                Self::new(Code::KeySpent, format!("this key of {name:?} was released: use a new one for the next hold"))
            }
            AcquireError::Upgrade { .. } => Self::new(Code::Upgrade, detail),
            AcquireError::NoQuorum { tally, .. } => undecided(Code::NoQuorum, detail, &tally),
            AcquireError::TooSlow { tally, .. } => undecided(Code::TooSlow, detail, &tally),
            AcquireError::Config(error) => error.into(),
            AcquireError::Closed => closed(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<LostError> for Problem {
    fn from(error: LostError) -> Self {
        // A service writes down who ended what.
        let more = if error == LostError::Ended { ": the history has by whom, and why" } else { "" };
        Self::new(Code::LeaseLost, format!("{error}{more}"))
    }
}

impl From<ExtendError> for Problem {
    fn from(error: ExtendError) -> Self {
        let detail = error.to_string();
        match error {
            ExtendError::Lost(error) => error.into(),
            ExtendError::NoQuorum { tally } => undecided(Code::NoQuorum, detail, &tally),
            ExtendError::Config(error) => error.into(),
            ExtendError::Closed => closed(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<ReleaseError> for Problem {
    fn from(error: ReleaseError) -> Self {
        let detail = error.to_string();
        match error {
            ReleaseError::Lost(error) => error.into(),
            ReleaseError::NoQuorum { tally } => undecided(Code::NoQuorum, detail, &tally),
            ReleaseError::Config(error) => error.into(),
            ReleaseError::Closed => closed(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        let detail = error.to_string();
        match error {
            InspectError::Config(error) => error.into(),
            InspectError::NoQuorum { tally, .. } => undecided(Code::NoQuorum, detail, &tally),
            InspectError::Closed => closed(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        let detail = error.to_string();
        match error {
            ListError::NoQuorum { tally } => undecided(Code::NoQuorum, detail, &tally),
            ListError::Closed => closed(),
            ListError::Position => Self::invalid(detail),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        let detail = error.to_string();
        match error {
            // One node that answers will do.
            HistoryError::NoAnswer { tally } => Self::new(Code::NoQuorum, detail).with_nodes(&tally),
            HistoryError::Closed => closed(),
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
            BreakError::Other(other) => {
                let mut problem = Self::new(Code::OtherLease, detail).with_holder(other.holder.as_ref());
                if let Target::Fence(fence) = other.target {
                    problem.0.fence = Some(fence.get());
                }
                problem
            }
            BreakError::NoQuorum { tally, .. } => undecided(Code::NoQuorum, detail, &tally),
            BreakError::Closed => closed(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}
