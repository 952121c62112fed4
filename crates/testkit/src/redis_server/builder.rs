//! The settings of a Redis server under test.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::thread;

use super::RedisServer;
use crate::authority::Authority;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::spawner::find_in_path;

/// How often the server syncs its append-only file to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aof {
    /// Once a second: a power loss can undo the last second.
    Everysec,
    /// Before each reply.
    Always,
}

/// A builder of a [`RedisServer`]. The default has no persistence.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RedisServerBuilder {
    aof: Option<Aof>,
    rdb: bool,
    config: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) clock: Option<Clock>,
    pub(super) disk: Option<Disk>,
    pub(super) is_sentinel: bool,
    tls: Option<Vec<(&'static str, String)>>,
}

impl RedisServerBuilder {
    /// Keeps an append-only file.
    pub fn aof(mut self, aof: Aof) -> Self {
        self.aof = Some(aof);
        self
    }

    /// Keeps snapshots: hourly, and at each clean shutdown.
    pub fn rdb(mut self) -> Self {
        self.rdb = true;
        self
    }

    /// Adds a line to the configuration file. `value` is not escaped.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.config.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Requires a password. It may contain letters, digits, `-`, `.` and `_`, which need no escapes in a URL and in a
    /// configuration file.
    pub fn password(mut self, password: &str) -> Self {
        let is_permitted = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        assert!(
            !password.is_empty() && password.chars().all(is_permitted),
            "a test password is made of letters, digits, '-', '.' and '_'"
        );
        self.password = Some(password.to_owned());
        self
    }

    /// Runs the server under this wall clock.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Runs the server on this disk.
    pub fn disk(mut self, disk: &Disk) -> Self {
        self.disk = Some(disk.clone());
        self
    }

    /// Also listens for TLS on another port, with a certificate of this authority, which must outlive the server.
    pub fn tls(mut self, authority: &Authority) -> Self {
        self.tls = Some(authority.settings());
        self
    }

    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Makes the server a sentinel, which stores no data and rewrites its own configuration.
    pub(crate) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) -> RedisServer {
        RedisServer::launch_new(self)
    }

    /// Starts this number of servers at the same time.
    pub fn start_many(&self, count: usize) -> Vec<RedisServer> {
        thread::scope(|scope| {
            let starts: Vec<_> = (0..count).map(|_| scope.spawn(|| RedisServer::launch_new(self))).collect();
            starts.into_iter().map(|start| start.join().expect("each server starts")).collect()
        })
    }

    /// The content of the configuration file.
    pub(super) fn config_file(&self, port: u16, tls_port: Option<u16>, dir: &Path) -> String {
        let (appendonly, appendfsync) = match self.aof {
            None => ("no", "no"),
            Some(Aof::Everysec) => ("yes", "everysec"),
            Some(Aof::Always) => ("yes", "always"),
        };
        let save = if self.rdb { "3600 1" } else { "\"\"" };
        let mut file = format!(
            "bind 127.0.0.1\n\
             port {port}\n\
             dir \"{}\"\n\
             daemonize no\n\
             loglevel notice\n",
            dir.display()
        );
        if !self.is_sentinel {
            let data = format!("save {save}\nappendonly {appendonly}\nappendfsync {appendfsync}\n");
            file.push_str(&data);
        }
        let tls_port = tls_port.map(|port| port.to_string());
        let tls_port = tls_port.iter().map(|port| ("tls-port", port));
        let tls = self.tls.iter().flatten().map(|(key, value)| (*key, value));
        let password = self.password.iter().map(|password| ("requirepass", password));
        let config = self.config.iter().map(|(key, value)| (key.as_str(), value));
        for (key, value) in tls_port.chain(tls).chain(password).chain(config) {
            writeln!(file, "{key} {value}").expect("writing to a string succeeds");
        }
        file
    }
}

/// The program of the server: the file in `QUORLOCK_REDIS_SERVER`, for example of Valkey, or else `redis-server`.
pub(super) fn server_program() -> OsString {
    if let Some(path) = env::var_os("QUORLOCK_REDIS_SERVER") {
        assert!(Path::new(&path).is_file(), "QUORLOCK_REDIS_SERVER names no file: {}", path.display());
        return path;
    }
    find_in_path("redis-server").expect("redis-server is not installed; ./x test installs it").into()
}
