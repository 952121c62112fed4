//! A small Redis Cluster.

use crate::authority::Authority;
use crate::redis_server::{RedisServer, RedisServerBuilder};
use crate::reply::Reply;
use crate::wait::eventually;

const SLOTS: usize = 16_384;

/// Masters that share all slots in equal parts. Each master may have a replica.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters at the start.
    pub masters: Vec<RedisServer>,
    /// One replica for each master, or no replicas.
    pub replicas: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts this number of masters, and waits until they serve all slots.
    pub fn start(masters: usize) -> Self {
        Self::launch(&RedisServer::builder(), RedisServer::port, masters, 0)
    }

    /// Starts this number of masters, each with a replica.
    pub fn start_with_replicas(masters: usize) -> Self {
        Self::launch(&RedisServer::builder(), RedisServer::port, masters, masters)
    }

    /// Starts this number of masters that use TLS with each other and with clients. The authority must outlive the
    /// masters.
    pub fn start_with_tls(masters: usize, authority: &Authority) -> Self {
        let setup = RedisServer::builder().tls(authority).config("tls-cluster", "yes");
        Self::launch(&setup, RedisServer::tls_port, masters, 0)
    }

    /// Starts servers. `port` returns the port on which a server meets the other servers.
    fn launch(setup: &RedisServerBuilder, port: fn(&RedisServer) -> u16, masters: usize, replicas: usize) -> Self {
        let setup = setup
            .clone()
            .config("cluster-enabled", "yes")
            .config("cluster-node-timeout", "60000")
            .config("repl-diskless-sync-delay", "0");
        let mut servers = setup.start_many(masters + replicas);
        let cluster = Self { replicas: servers.split_off(masters), masters: servers };
        for (index, master) in cluster.masters.iter().enumerate() {
            let (first, end) = (index * SLOTS / masters, (index + 1) * SLOTS / masters);
            let slots: Vec<String> = (first..end).map(|slot| slot.to_string()).collect();
            let command: Vec<&str> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            assert_eq!(master.command(&command).as_str(), Some("OK"));
            // Each master gets a different config epoch. Masters with the same epoch would first have to resolve their
            // conflict about slots.
            let epoch = (index + 1).to_string();
            assert_eq!(master.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).as_str(), Some("OK"));
        }
        let first = port(&cluster.masters[0]).to_string();
        for server in cluster.servers().skip(1) {
            assert_eq!(server.command(&["CLUSTER", "MEET", "127.0.0.1", &first]).as_str(), Some("OK"));
        }
        let all = masters + replicas;
        eventually("all servers to know each other", || cluster.servers().all(|server| known_servers(server) == all));
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let id = id_of(master);
            eventually("the replica to take its master", || {
                replica.command(&["CLUSTER", "REPLICATE", &id]).as_str() == Some("OK")
            });
            eventually("the replica to have its master's data", || {
                let info = replica.command(&["INFO", "replication"]);
                info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
            });
        }
        eventually("the cluster to serve all slots", || {
            cluster.servers().all(|server| serves_all_slots(server, masters))
        });
        cluster
    }

    /// The URL for clients: all servers that are up.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.servers().filter(|server| server.is_alive()).map(|server| server.addr().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The URL for clients that speak TLS.
    pub fn tls_url(&self) -> String {
        let hosts: Vec<String> = self.servers().map(|server| format!("127.0.0.1:{}", server.tls_port())).collect();
        format!("redis+cluster://{}?tls=true", hosts.join(","))
    }

    /// The master that had the slot of this key at the start.
    pub fn master_of(&self, key: &str) -> &RedisServer {
        let slot = self.masters[0].command(&["CLUSTER", "KEYSLOT", key]).as_int().expect("a slot is a number");
        let slot = usize::try_from(slot).expect("a slot is a number");
        let ends_after_slot = |index: &usize| slot < (index + 1) * SLOTS / self.masters.len();
        &self.masters[(0..self.masters.len()).find(ends_after_slot).expect("every slot has a master")]
    }

    /// Moves the slot of this key to another master, and tells all servers. The slot must be empty.
    pub fn move_slot(&self, key: &str, to: &RedisServer) {
        let slot = self.masters[0].command(&["CLUSTER", "KEYSLOT", key]).as_int().expect("a slot is a number");
        let (slot, id) = (slot.to_string(), id_of(to));
        // The new master must get the command before the other masters.
        let others = self.servers().filter(|server| server.is_alive() && server.port() != to.port());
        for server in std::iter::once(to).chain(others) {
            let command = ["CLUSTER", "SETSLOT", &slot, "NODE", &id];
            assert_eq!(server.command(&command).as_str(), Some("OK"));
        }
    }

    /// Makes a replica the master of its slots, even if the old master is down, and waits until all servers know the new
    /// master.
    pub fn take_over(&self, replica: &RedisServer) {
        assert_eq!(replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]).as_str(), Some("OK"));
        let port = i64::from(replica.port());
        let knows_new_master = |server: &RedisServer| {
            let reply = server.command(&["CLUSTER", "SLOTS"]);
            let Reply::Array(ranges) = reply else { return false };
            ranges.iter().any(|range| matches!(range, Reply::Array(range) if master_port(&range[2]) == Some(port)))
        };
        eventually("all servers to know the new master", || {
            self.servers().filter(|server| server.is_alive()).all(knows_new_master)
        });
    }

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        self.masters.iter().chain(&self.replicas)
    }
}

fn master_port(master: &Reply) -> Option<i64> {
    let Reply::Array(fields) = master else { return None };
    fields.get(1)?.as_int()
}

fn id_of(server: &RedisServer) -> String {
    server.command(&["CLUSTER", "MYID"]).as_str().expect("an id is text").to_owned()
}

fn known_servers(server: &RedisServer) -> usize {
    let nodes = server.command(&["CLUSTER", "NODES"]);
    let text = nodes.as_str().unwrap_or_default();
    text.lines().filter(|line| !line.contains("handshake")).count()
}

fn serves_all_slots(server: &RedisServer, masters: usize) -> bool {
    let info = server.command(&["CLUSTER", "INFO"]);
    let Reply::Array(ranges) = server.command(&["CLUSTER", "SLOTS"]) else { return false };
    info.as_str().is_some_and(|text| text.contains("cluster_state:ok")) && ranges.len() == masters
}
