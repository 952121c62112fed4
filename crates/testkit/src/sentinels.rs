//! A master, its replicas, and a sentinel that monitors them.

use std::time::Duration;

use crate::authority::Authority;
use crate::redis_server::{RedisServer, RedisServerBuilder};
use crate::reply::Reply;
use crate::wait::eventually;

/// The name of the master in the sentinel's configuration.
const SERVICE: &str = "testkit";

/// A master, its replicas and one sentinel, which can start a failover alone.
#[derive(Debug)]
pub struct Sentinels {
    setup: SentinelsBuilder,
    /// The data servers. At the start, the first one is the master.
    pub servers: Vec<RedisServer>,
    /// The sentinel.
    pub sentinel: RedisServer,
}

/// A builder of [`Sentinels`]. The default is a master without replicas, and a sentinel that does not replace a dead
/// master within an hour.
#[derive(Debug, Clone)]
#[must_use]
pub struct SentinelsBuilder {
    replicas: usize,
    down_after: Duration,
    password: Option<String>,
    sentinel_password: Option<String>,
    /// The settings of servers that accept only TLS, if TLS is used.
    tls: Option<RedisServerBuilder>,
}

impl Default for SentinelsBuilder {
    fn default() -> Self {
        let down_after = Duration::from_secs(3_600);
        Self { replicas: 0, down_after, password: None, sentinel_password: None, tls: None }
    }
}

impl SentinelsBuilder {
    /// Sets the number of replicas.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the time after which the sentinel replaces a master that does not reply.
    pub fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = down_after;
        self
    }

    /// Makes the data servers require this password. [`RedisServerBuilder::password`] lists the permitted characters.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Makes the sentinel require this password. [`RedisServerBuilder::password`] lists the permitted characters.
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// Makes the sentinel and the servers use TLS with each other and with clients. The authority must outlive the
    /// servers.
    pub fn tls(mut self, authority: &Authority) -> Self {
        self.tls = Some(RedisServer::builder().tls(authority));
        self
    }

    fn server_setup(&self) -> RedisServerBuilder {
        self.tls.clone().unwrap_or_default()
    }

    /// The port on which the other servers and clients reach a server.
    fn port_of(&self, server: &RedisServer) -> u16 {
        if self.tls.is_some() { server.tls_port() } else { server.port() }
    }

    /// Starts all servers and the sentinel, and waits until a failover can succeed.
    pub fn start(&self) -> Sentinels {
        let mut setup = self.server_setup().config("repl-diskless-sync-delay", "0");
        if let Some(password) = &self.password {
            setup = setup.password(password).config("masterauth", password);
        }
        let servers = setup.start_many(1 + self.replicas);
        let (master, replicas) = servers.split_first().expect("there is a master");
        for replica in replicas {
            let port = self.port_of(master).to_string();
            assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).as_str(), Some("OK"));
        }
        for replica in replicas {
            eventually("the replica to have its master's data", || {
                let info = replica.command(&["INFO", "replication"]);
                info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
            });
        }
        let sentinel = self.sentinel_setup(master).start();
        let sentinels = Sentinels { setup: self.clone(), servers, sentinel };
        eventually("the sentinel to know the replicas", || sentinels.promotable_replicas() == self.replicas);
        sentinels
    }

    fn sentinel_setup(&self, master: &RedisServer) -> RedisServerBuilder {
        let down_after = self.down_after.as_millis();
        let mut setup = self
            .server_setup()
            .sentinel()
            .config("sentinel monitor", &format!("{SERVICE} 127.0.0.1 {} 1", self.port_of(master)))
            .config("sentinel down-after-milliseconds", &format!("{SERVICE} {down_after}"))
            .config("sentinel failover-timeout", &format!("{SERVICE} 2000"));
        if let Some(password) = &self.password {
            setup = setup.config("sentinel auth-pass", &format!("{SERVICE} {password}"));
        }
        if let Some(password) = &self.sentinel_password {
            setup = setup.password(password);
        }
        setup
    }
}

impl Sentinels {
    /// Returns a builder.
    pub fn builder() -> SentinelsBuilder {
        SentinelsBuilder::default()
    }

    /// The URL for clients, with the passwords if there are any.
    pub fn url(&self) -> String {
        self.url_after(&[])
    }

    /// The URL for clients, with other sentinels (`host:port`) before this one.
    pub fn url_after(&self, others: &[&str]) -> String {
        let login = self.setup.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        let own = format!("127.0.0.1:{}", self.setup.port_of(&self.sentinel));
        let hosts = [others, &[own.as_str()]].concat().join(",");
        let password = self.setup.sentinel_password.as_ref().map(|password| format!("sentinel_password={password}"));
        let tls = self.setup.tls.as_ref().map(|_| "tls=true".to_owned());
        let settings: Vec<String> = password.into_iter().chain(tls).collect();
        let query = if settings.is_empty() { String::new() } else { format!("?{}", settings.join("&")) };
        format!("redis+sentinel://{login}{hosts}/{SERVICE}{query}")
    }

    /// Starts one more sentinel for the same servers, and waits until it can make a replica the master.
    pub fn start_another(&self) -> RedisServer {
        let sentinel = self.setup.sentinel_setup(self.master()).start();
        eventually("the other sentinel to know the replicas", || promotable_replicas(&sentinel) == self.setup.replicas);
        sentinel
    }

    /// Kills the sentinel, starts it again, and waits until a failover can succeed.
    pub fn restart_sentinel(&self) {
        self.sentinel.restart();
        eventually("the sentinel to know the replicas", || self.promotable_replicas() == self.setup.replicas);
    }

    /// The server that the sentinel reports as the master.
    pub fn master(&self) -> &RedisServer {
        let address = self.sentinel.command(&["SENTINEL", "get-master-addr-by-name", SERVICE]).strings();
        let port: u16 = address[1].parse().expect("a port is a number");
        self.servers.iter().find(|server| self.setup.port_of(server) == port).expect("the master is one of the servers")
    }

    /// Makes a replica the master, as an operator would, and waits until the replica is the master.
    pub fn fail_over(&self) {
        self.fail_over_through(&self.sentinel);
    }

    /// Like [`fail_over`](Self::fail_over), through this sentinel.
    pub fn fail_over_through(&self, sentinel: &RedisServer) {
        let master_address = || sentinel.command(&["SENTINEL", "get-master-addr-by-name", SERVICE]).strings();
        let old_address = master_address();
        assert_eq!(sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]).as_str(), Some("OK"));
        eventually("the sentinel to name another master", || master_address() != old_address);
    }

    fn promotable_replicas(&self) -> usize {
        promotable_replicas(&self.sentinel)
    }
}

/// The number of replicas that this sentinel can make the master.
fn promotable_replicas(sentinel: &RedisServer) -> usize {
    let Reply::Array(replicas) = sentinel.command(&["SENTINEL", "REPLICAS", SERVICE]) else { return 0 };
    let is_promotable = |replica: &&Reply| {
        let fields = replica.strings();
        let has = |key: &str, value: &str| fields.chunks(2).any(|field| field[0] == key && field[1] == value);
        has("flags", "slave") && has("master-link-status", "ok")
    };
    replicas.iter().filter(is_promotable).count()
}
