//! A cluster for each kind of node, and clients that stay connected to it.

use std::path::Path;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Filter, HISTORY_MAX, MemoryNodes};
use quorlock_testkit::RedisServer;
use tempfile::TempDir;

use crate::worker::FENCED_NAMES;

/// The ttl of leases. The ttl and the maximum ttl are short, so that leases expire and quarantines end soon.
const TTL: Duration = Duration::from_millis(500);
const MAX_TTL: Duration = Duration::from_secs(1);
const MAX_CLOCK_SKEW: Duration = Duration::from_millis(300);
/// The number of clients that stay connected.
const CLIENTS: usize = 3;
/// How many events a history may have beyond its limit before the server trims it.
const HISTORY_SLACK: i64 = 1_000;
/// The number of nodes of a cluster.
pub(crate) const NODES: usize = 3;

/// A cluster, and clients that stay connected to it.
pub(crate) struct ClusterWithClients {
    nodes: Nodes,
    pub(crate) clients: Vec<Client>,
}

enum Nodes {
    Memory(MemoryNodes),
    Sqlite(TempDir),
    Redis(Vec<RedisServer>),
}

impl ClusterWithClients {
    /// Starts a world of each kind of node.
    pub(crate) async fn of_every_kind() -> Vec<Self> {
        let folder = TempDir::with_prefix("quorlock-soak-").expect("a temporary folder");
        let kinds = [
            Nodes::Memory(MemoryNodes::new(NODES)),
            Nodes::Sqlite(folder),
            Nodes::Redis(RedisServer::start_many(NODES)),
        ];
        let mut clusters = Vec::new();
        for nodes in kinds {
            let mut cluster = Self { nodes, clients: Vec::new() };
            let first = cluster.builder().init_cluster().await.expect("new nodes form a cluster");
            cluster.clients.push(first);
            while cluster.clients.len() < CLIENTS {
                cluster.clients.push(cluster.builder().connect().await.expect("the nodes can vote"));
            }
            clusters.push(cluster);
        }
        clusters
    }

    /// The builder of the world's clients.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let builder = Client::builder()
            .ttl(TTL)
            .max_ttl(MAX_TTL)
            .max_clock_skew(MAX_CLOCK_SKEW)
            .max_clock_step_back(MAX_CLOCK_SKEW)
            .history(true);
        match &self.nodes {
            Nodes::Memory(nodes) => builder.memory(nodes),
            Nodes::Sqlite(folder) => builder.nodes([format!("sqlite:{}", folder.path().join("locks").display())]),
            Nodes::Redis(servers) => builder.nodes(servers.iter().map(RedisServer::url)),
        }
    }

    /// Makes a node lose its memory or its connections. Returns false for SQLite, which loses neither. Call this only
    /// for one node at a time, because a majority must be able to vote.
    pub(crate) fn inject_fault(&self, node: usize, forgets: bool) -> bool {
        match &self.nodes {
            Nodes::Memory(nodes) if forgets => nodes.restart_empty(node),
            Nodes::Memory(nodes) => {
                nodes.down(node);
                nodes.up(node);
            }
            Nodes::Sqlite(_) => return false,
            Nodes::Redis(servers) if forgets => servers[node].restart_empty(),
            Nodes::Redis(servers) => {
                for kind in ["normal", "pubsub"] {
                    servers[node].command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
                }
            }
        }
        true
    }

    /// Describes the activity that has not ended yet.
    pub(crate) async fn activity(&self) -> Vec<String> {
        let mut messages = Vec::new();
        for client in &self.clients {
            let faults = client.nodes().into_iter().filter_map(|(node, why)| Some(format!("{node} {}", why?)));
            messages.extend(faults);
        }
        match self.clients[0].list(&Filter::default()).await {
            Ok(listing) if listing.names.is_empty() => {}
            Ok(listing) => messages.push(format!("{} names in use", listing.names.len())),
            Err(error) => messages.push(error.to_string()),
        }
        for server in self.servers() {
            messages.extend(leftovers(server));
            let events = server.command(&["XLEN", "quorlock~history"]).as_int().unwrap_or(0);
            if events > HISTORY_MAX as i64 + HISTORY_SLACK {
                messages.push(format!("{events} events in the history"));
            }
        }
        messages
    }

    /// Pending timer calls of the clients that stay connected.
    pub(crate) fn timer_calls(&self) -> u64 {
        self.clients.iter().map(|client| client.scheduled_calls() as u64).sum()
    }

    pub(crate) fn keys(&self) -> u64 {
        self.servers().iter().map(|server| server.keys("*").len() as u64).sum()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.servers().iter().map(|server| info(server, "clients", "connected_clients")).sum()
    }

    pub(crate) fn server_memory_kib(&self) -> u64 {
        self.servers().iter().map(|server| info(server, "memory", "used_memory") >> 10).sum()
    }

    /// Whether an open file belongs to a database.
    pub(crate) fn is_database(&self, path: &Path) -> bool {
        matches!(&self.nodes, Nodes::Sqlite(folder) if path.starts_with(folder.path()))
    }

    fn servers(&self) -> &[RedisServer] {
        if let Nodes::Redis(servers) = &self.nodes { servers } else { &[] }
    }
}

/// Describes leftover keys: keys of ended leases, more keys of one kind than there are names, and keys without an
/// expiry.
fn leftovers(server: &RedisServer) -> Vec<String> {
    let count_keys = |kind: &str| server.keys(&format!("{kind}*")).len();
    let of_ended_leases = ["quorlock:", "quorlock~done:"].map(|kind| (kind, 0));
    let kept = ["fence", "holds", "queue", "kept"].map(|kind| (kind, FENCED_NAMES));
    let kept = kept.map(|(kind, max_keys)| (format!("quorlock~{kind}:"), max_keys));
    let messages = of_ended_leases.into_iter().map(|(kind, max_keys)| (kind.to_owned(), max_keys)).chain(kept);
    let mut leftovers: Vec<String> = messages
        .map(|(kind, max_keys)| (count_keys(&kind), max_keys, kind))
        .filter(|(keys, max_keys, _)| keys > max_keys)
        .map(|(keys, max_keys, kind)| format!("{keys} keys {kind}*, at max_keys {max_keys}"))
        .collect();
    let own = ["quorlock~epoch", "quorlock~meta", "quorlock~history"];
    let without_expiry = server.keys("*").into_iter().filter(|key| !own.contains(&key.as_str()));
    let without_expiry = without_expiry.filter(|key| server.command(&["PTTL", key]).as_int() == Some(-1)).count();
    if without_expiry > 0 {
        leftovers.push(format!("{without_expiry} keys without an expiry"));
    }
    leftovers
}

fn info(server: &RedisServer, section: &str, field: &str) -> u64 {
    let text = server.command(&["INFO", section]);
    let text = text.as_str().expect("INFO replies with text");
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).expect("INFO has the field")
}
