//! Why an operator's word to all nodes did not count.

use super::{ConfigError, list};

/// The cluster was not declared anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The configuration is at odds with itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node refuses our password or permissions. Nothing was changed.
    #[error("{}", list(nodes))]
    Denied {
        /// Each node that cannot be used, and why, in the server's words.
        nodes: Vec<(String, String)>,
    },
    /// Leases are outstanding, or may be: some nodes show leases, or cannot list their names. Nothing was changed.
    #[error("leases are outstanding, or may be: {}", list(found))]
    Leases {
        /// Each such node, and what it shows.
        found: Vec<(String, String)>,
    },
    /// Some nodes cannot be used. Nothing was changed, unless they failed after all of them had answered.
    #[error("not all nodes can be used: {}", list(failed))]
    Failed {
        /// Each node that failed, and why.
        failed: Vec<(String, String)>,
    },
}

/// The cluster's constants were not changed, or not on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// The configuration is at odds with itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The nodes belong to no cluster yet.
    #[error("these nodes belong to no cluster yet: there is nothing to change")]
    Blank,
    /// The nodes belong to different clusters.
    #[error("these nodes belong to different clusters: if no lock can be outstanding, use `quorlock nodes init`")]
    Mixed,
    /// So many of the cluster's nodes are missing here that they could go on without these.
    #[error(
        "only {present} of the cluster's {before} nodes are among these, and the others could go on without them: \
         keep a majority, or use `quorlock nodes init` if no lock can be outstanding"
    )]
    Minority {
        /// How many of these nodes belong to the cluster.
        present: usize,
        /// How many it has.
        before: usize,
    },
    /// A node refuses our password or permissions. Nothing was changed.
    #[error("{}", list(nodes))]
    Denied {
        /// Each node that cannot be used, and why, in the server's words.
        nodes: Vec<(String, String)>,
    },
    /// Some nodes cannot be used. If they failed after all of them had answered, those that were told already do not vote
    /// until it is said again.
    #[error("not all nodes can be used: {}", list(failed))]
    Failed {
        /// Each node that failed, and why.
        failed: Vec<(String, String)>,
    },
}
