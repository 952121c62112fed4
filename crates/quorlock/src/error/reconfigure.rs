//! The error of creating a cluster, or of changing its constants.

use super::{ConfigError, list};

/// The new cluster was not created, or the constants of the cluster were not changed on every node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No new cluster was created, because at least one node has leases or cannot list its names. No node was changed.
    #[error("leases are outstanding, or may be: {}", list(nodes))]
    Leases {
        /// Each of these nodes, with its leases or with the reason why the node cannot list its names.
        nodes: Vec<(String, String)>,
    },
    /// The constants cannot be changed, because the nodes do not belong to a cluster yet. No node was changed.
    #[error("these nodes do not belong to a cluster yet: there are no constants to change")]
    Blank,
    /// The nodes belong to different clusters. No node was changed.
    #[error("these nodes belong to different clusters: if no lock can be outstanding, use `quorlock nodes init`")]
    Mixed,
    /// The given nodes are only a minority of the cluster. The cluster's other nodes could form a majority with the old
    /// constants. No node was changed.
    #[error(
        "these nodes include only {present} of the cluster's {cluster_nodes} nodes, and the other nodes of the cluster \
         could form a majority without them: list a majority of the cluster's nodes, or use `quorlock nodes init` if \
         no lock can be outstanding"
    )]
    Minority {
        /// The number of given nodes that belong to the cluster.
        present: usize,
        /// The number of nodes of the cluster before the change.
        cluster_nodes: usize,
    },
    /// At least one node rejects the password or denies permissions. No node was changed.
    #[error("{}", list(nodes))]
    Denied {
        /// Each node that cannot be used, with the server's error message.
        nodes: Vec<(String, String)>,
    },
    /// Some nodes cannot be used. Usually no node was changed. If a node failed after all nodes had answered, some
    /// nodes may have been changed. Changed nodes do not vote until the call is repeated.
    #[error("not all nodes can be used: {}", list(nodes))]
    Failed {
        /// Each node that cannot be used, with the reason.
        nodes: Vec<(String, String)>,
    },
}
