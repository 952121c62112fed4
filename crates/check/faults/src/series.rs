//! The kinds of episodes, and the pass criteria of each.

use std::fmt;

use serde::Serialize;

use crate::judge::Findings;
use crate::plan::Assumptions;

/// Exit code of `quorlock run` if no majority of the nodes voted.
pub const NO_QUORUM: i32 = 69;
/// Exit code of `quorlock run` if another holder has the lock.
pub const HELD: i32 = 75;
/// Exit code of `quorlock run` if the lock was lost while the command ran.
pub const LOST: i32 = 79;

/// A kind of episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "harness", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Clients of the library, and faults that keep the assumptions.
    Within,
    /// Clients of the library, and faults that break A1 or A2.
    Beyond,
    /// `quorlock run`, while nodes are backed up and replicas attach and detach. No lock may be lost.
    Operations,
    /// `quorlock run`, while wrappers and guards are stopped and killed.
    Processes,
    /// `quorlock run`, while wrapper and guard are stopped together. Breaks A2.
    Stopped,
    /// Only short runs of `quorlock run --no-wait`, while a majority of the nodes restarts.
    Restarts,
    /// Clients of the library that find the master through a sentinel. The sentinel restarts or falls silent, and then
    /// replaces the master (a failover).
    Sentinel,
}

impl Series {
    /// All series, in the order in which they are run.
    pub const ALL: [Self; 7] =
        [Self::Within, Self::Beyond, Self::Operations, Self::Processes, Self::Stopped, Self::Restarts, Self::Sentinel];

    /// The series that can also be run with other lock libraries.
    pub const SHARED: [Self; 2] = [Self::Within, Self::Beyond];

    /// Whether the clients of the series are `quorlock run` processes, and not clients of the library.
    pub fn uses_quorlock_run(self) -> bool {
        matches!(self, Self::Operations | Self::Processes | Self::Stopped | Self::Restarts)
    }

    /// Whether all assumptions of the guarantees hold. A failover breaks them, because it may lose locks.
    pub fn assumptions(self) -> Assumptions {
        match self {
            Self::Within | Self::Operations | Self::Processes | Self::Restarts => Assumptions::Kept,
            Self::Beyond | Self::Stopped | Self::Sentinel => Assumptions::Broken,
        }
    }

    /// The number of findings that this series forbids.
    pub fn violations(self, findings: &Findings) -> usize {
        let common_violations = findings.violations(self.assumptions());
        match self {
            Self::Within | Self::Beyond | Self::Processes | Self::Stopped => common_violations,
            Self::Operations => common_violations + findings.runs_with(LOST) + findings.runs_with(NO_QUORUM),
            Self::Restarts => common_violations + findings.stuck_histories,
            Self::Sentinel => common_violations + findings.unexcused_overlaps + findings.starved_waiters,
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
