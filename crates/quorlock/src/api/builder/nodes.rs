//! Opens the nodes that a builder lists, most of them by URL.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::node::Constants;

use super::{ClientBuilder, SILENCE_MIN};
use crate::error::ConfigError;
use crate::node::Node;
use crate::node::key::KeyTemplate;
use crate::node::memory::MemoryNodes;
use crate::node::redis::RedisNode;
use crate::node::url::{NodeUrl, Origin, mask_url};

/// The deadline for opening a connection to a server.
const CONNECT_DEADLINE: Duration = SILENCE_MIN;

/// Why a node that promotes replicas must be the only node.
const PROMOTION_RISK: &str = "a replica that becomes master may have missed votes, and the old master may still vote";

/// A configured node.
#[derive(Clone)]
pub(super) enum NodeSource {
    Url(String),
    /// A node in memory, or a simulated node.
    Node(Arc<dyn Node>),
}

impl ClientBuilder {
    /// Returns whether a node's URL starts with this scheme.
    pub(super) fn has_url(&self, scheme: &str) -> bool {
        self.nodes.iter().any(|node| matches!(node, NodeSource::Url(url) if url.starts_with(scheme)))
    }

    pub(super) fn open_nodes(&self, constants: &Constants) -> Result<Vec<Arc<dyn Node>>, ConfigError> {
        self.nodes.iter().enumerate().map(|(index, node)| self.open_node(index, node, constants)).collect()
    }

    /// Returns the template for the keys of locks on these nodes.
    pub(super) fn node_key_template(&self) -> Result<KeyTemplate, ConfigError> {
        let template = self.template.as_deref().map_or(Ok(KeyTemplate::default()), KeyTemplate::new)?;
        Ok(if self.has_url("redis+cluster:") { template.in_cluster() } else { template })
    }

    pub(super) fn open_node(
        &self,
        index: usize,
        node: &NodeSource,
        constants: &Constants,
    ) -> Result<Arc<dyn Node>, ConfigError> {
        let url = match node {
            NodeSource::Url(url) => url,
            NodeSource::Node(node) => return Ok(Arc::clone(node)),
        };
        let invalid = |why| ConfigError::Url { position: index + 1, url: mask_url(url), why };
        let require_alone = |title: String, why| {
            if self.nodes.len() > 1 { Err(ConfigError::Alone { title, why }) } else { Ok(()) }
        };
        match NodeUrl::parse(url, self.login.as_ref()).map_err(invalid)? {
            NodeUrl::Redis(origin) => {
                if !matches!(origin, Origin::Server(_)) {
                    require_alone(origin.to_string(), PROMOTION_RISK)?;
                }
                Ok(Arc::new(RedisNode::new(origin, constants.clone(), CONNECT_DEADLINE)))
            }
            NodeUrl::Memory => {
                require_alone(url.into(), "only this process can use it")?;
                MemoryNodes::new(1).iter().next().ok_or_else(|| invalid("no node".into()))
            }
            #[cfg(target_os = "linux")]
            NodeUrl::Sqlite(path) => {
                require_alone(url.into(), "one file on one machine fails as a whole")?;
                Ok(Arc::new(crate::node::sqlite::SqliteNode::new(path, self.processes()?)))
            }
            #[cfg(not(target_os = "linux"))]
            NodeUrl::Sqlite(_) => Err(invalid("SQLite nodes need Linux".into())),
        }
    }

    #[cfg(target_os = "linux")]
    fn processes(&self) -> Result<crate::node::sqlite::Processes, ConfigError> {
        crate::node::sqlite::Processes::read(!self.leases_outlive_process, &self.companions).map_err(no_such_process)
    }
}

pub(crate) fn no_such_process(pid: u32) -> ConfigError {
    ConfigError::setting("add_holder_process", pid, "be the id of a running process")
}
