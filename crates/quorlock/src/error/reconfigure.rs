//! The error of changes to a whole cluster.

use super::{ConfigError, list};

/// The nodes were not made a new cluster, or the cluster's constants were not changed on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Some nodes have leases, or cannot list their names. Only for a new cluster; nothing was changed.
    #[error("leases are outstanding, or may be: {}", list(nodes))]
    Leases {
        /// Each such node, and its leases or why it cannot list them.
        nodes: Vec<(String, String)>,
    },
    /// The nodes belong to no cluster yet. Nothing was changed.
    #[error("these nodes belong to no cluster yet: there is nothing to change")]
    Blank,
    /// The nodes belong to different clusters. Nothing was changed.
    #[error("these nodes belong to different clusters: if no lock can be outstanding, use `quorlock nodes init`")]
    Mixed,
    /// The cluster's other nodes have a majority, and could continue without these. Nothing was changed.
    #[error(
        "only {present} of the cluster's {before} nodes are among these, and the others could continue without them: \
         keep a majority, or use `quorlock nodes init` if no lock can be outstanding"
    )]
    Minority {
        /// The number of these nodes that belong to the cluster.
        present: usize,
        /// The number of nodes of the cluster.
        before: usize,
    },
    /// A node rejects the password or denies permissions. Nothing was changed.
    #[error("{}", list(nodes))]
    Denied {
        /// Each unusable node, and the reason in the server's words.
        nodes: Vec<(String, String)>,
    },
    /// Some nodes cannot be used. Nothing was changed, unless a node failed after all of them had answered. In that case
    /// the nodes that were changed do not vote until the call is repeated.
    #[error("not all nodes can be used: {}", list(nodes))]
    Failed {
        /// Each such node, and the reason.
        nodes: Vec<(String, String)>,
    },
}
