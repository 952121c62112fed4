//! Why an operator's word to all nodes did not count.

use super::{ConfigError, list};

/// The cluster was not declared anew, or its constants were not changed, or not on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// The configuration is at odds with itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Leases are outstanding, or may be: some nodes show leases, or cannot list their names. Only of a declaration: nothing was
    /// changed.
    #[error("leases are outstanding, or may be: {}", list(nodes))]
    Leases {
        /// Each such node, and what it shows.
        nodes: Vec<(String, String)>,
    },
    /// The nodes belong to no cluster yet. Nothing was changed.
    #[error("these nodes belong to no cluster yet: there is nothing to change")]
    Blank,
    /// The nodes belong to different clusters. Nothing was changed.
    #[error("these nodes belong to different clusters: if no lock can be outstanding, use `quorlock nodes init`")]
    Mixed,
    /// So many of the cluster's nodes are missing here that they could go on without these. Nothing was changed.
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
    /// Some nodes cannot be used. Nothing was changed, unless they failed after all of them had answered. Then the nodes that
    /// were changed do not vote with other constants until it is said again.
    #[error("not all nodes can be used: {}", list(nodes))]
    Failed {
        /// Each node that failed, and why.
        nodes: Vec<(String, String)>,
    },
}
