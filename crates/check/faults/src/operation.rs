//! Ordinary operations on a Redis server.

use std::process::{Command, Stdio};

use quorlock_testkit::{RedisServer, RedisServerBuilder, eventually};
use tempfile::TempDir;

/// Makes the server start replication at once, and free the replication backlog one second after its last replica has
/// detached. The replication id changes when the first replica attaches, and when the server frees the backlog.
pub fn quick_replication(builder: RedisServerBuilder) -> RedisServerBuilder {
    builder.config("repl-diskless-sync-delay", "0").config("repl-backlog-ttl", "1")
}

/// Backs the server up with `redis-cli --rdb`.
///
/// # Panics
/// When the backup fails.
pub fn back_up(server: &RedisServer) {
    let folder = TempDir::with_prefix("quorlock-backup-").expect("a temporary folder for the backup");
    let file = folder.path().join("dump.rdb");
    let mut command = Command::new("redis-cli");
    command.args(["-p", &server.port().to_string(), "--rdb"]).arg(&file);
    let output = command.stdin(Stdio::null()).output().expect("redis-cli is not installed; ./x faults installs it");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && file.is_file(), "the backup of {} failed: {stderr}", server.addr());
}

/// Attaches a new replica, and waits until the replica has the data. Dropping the replica detaches it.
///
/// # Panics
/// When the replica never gets the data.
pub fn attach_replica(server: &RedisServer) -> RedisServer {
    let replica = RedisServer::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    eventually("the replica to have the data", || {
        let info = replica.command(&["INFO", "replication"]);
        info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
    });
    replica
}
