//! Shares servers with Redlock clients and with other data, and refuses servers that cannot be nodes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_timeouts::{self, LONG};
use quorlock::{
    AcquireError, Break, Client, ClientBuilder, ConnectError, HeldError, Lease, LeaseError, Lock, LostError,
};
use quorlock_testkit::{RedisServer, Reply, eventually, eventually_async};

/// The release script of the Redlock page (the description of Redlock in the Redis manual), which Redlock libraries
/// use.
const REDLOCK_RELEASE: &str = r#"
    if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
    else
        return 0
    end"#;

/// The name and also the key of the lock. With the key template of these tests they are the same.
const KEY: &str = "invoices/42";

/// Each makes a lock of another kind: the first with a fence, the second plain.
const LOCK_KINDS: [fn(Lock) -> Lock; 2] = [|lock| lock, Lock::plain];

/// Three servers that quorlock shares with other programs, and a client.
struct SharedServers {
    servers: Vec<RedisServer>,
    client: Client,
}

impl SharedServers {
    async fn start() -> Self {
        let servers = RedisServer::start_many(3);
        let client = builder(&servers).init_cluster().await.unwrap();
        Self { servers, client }
    }

    fn lock(&self, with_kind: fn(Lock) -> Lock) -> Lock {
        with_kind(self.client.lock(KEY))
    }

    /// Runs redis-cli with these arguments on all servers, and returns the outputs.
    fn cli<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        self.servers.iter().map(|server| server.cli(words))
    }

    /// Waits until all servers have the vote of the lease.
    fn wait_for_votes(&self, lease: &Lease) {
        let id = lease.id().reveal();
        eventually("all servers to have the vote of the lease", || self.cli(&["GET", KEY]).all(|value| value == id));
    }

    /// Waits until no server has the key.
    fn wait_until_free(&self) {
        eventually("all servers to delete the key", || self.cli(&["EXISTS", KEY]).all(|count| count == "0"));
    }
}

fn builder(servers: &[RedisServer]) -> ClientBuilder {
    long_timeouts::builder().key_template("{name}").nodes(servers.iter().map(RedisServer::url))
}

/// Tries to acquire a held lock, and returns the error.
async fn expect_held(lock: &Lock) -> HeldError {
    match lock.acquire_within(Duration::ZERO).await {
        Err(AcquireError::Held(error)) => *error,
        other => panic!("the lock is not held: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_a_redlock_client_excludes_clients_of_quorlock() {
    let shared = SharedServers::start().await;
    for with_kind in LOCK_KINDS {
        for server in &shared.servers[..2] {
            assert_eq!(server.cli(&["SET", KEY, "theirs", "NX", "PX", "60000"]), "OK");
        }
        assert!(shared.lock(with_kind).try_acquire().await.unwrap().is_none());
        let error = expect_held(&shared.lock(with_kind)).await;
        assert!(error.holder.is_none(), "{error}");
        assert_eq!(error.tally.refused(), 2, "{}", error.tally);
        assert!(error.remaining.is_some_and(|left| left <= Duration::from_secs(60)), "{error}");
        for server in &shared.servers[..2] {
            assert_eq!(server.cli(&["EVAL", REDLOCK_RELEASE, "1", KEY, "theirs"]), "1");
        }
        shared.lock(with_kind).acquire().await.unwrap().release().await.unwrap();
        shared.wait_until_free();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_of_redlock_votes_is_not_changed() {
    let shared = SharedServers::start().await;
    shared.servers[0].cli(&["SET", KEY, "theirs", "NX", "PX", "60000"]);
    for with_kind in LOCK_KINDS {
        let lease = shared.lock(with_kind).acquire().await.unwrap();
        lease.extend().await.unwrap();
        lease.release().await.unwrap();
    }
    shared.client.close(LONG).await.unwrap();
    assert_eq!(shared.servers[0].cli(&["GET", KEY]), "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_quorlock_excludes_redlock_clients() {
    let shared = SharedServers::start().await;
    for with_kind in LOCK_KINDS {
        let lease = shared.lock(with_kind).acquire().await.unwrap();
        shared.wait_for_votes(&lease);
        for refusal in shared.cli(&["SET", KEY, "theirs", "NX", "PX", "60000"]) {
            assert_eq!(refusal, "", "a Redlock client set the key of a held lock");
        }
        for answer in shared.cli(&["EVAL", REDLOCK_RELEASE, "1", KEY, "theirs"]) {
            assert_eq!(answer, "0");
        }
        lease.extend().await.unwrap();
        lease.release().await.unwrap();
        shared.wait_until_free();
        for answer in shared.cli(&["SET", KEY, "theirs", "NX", "PX", "60000"]) {
            assert_eq!(answer, "OK");
        }
        shared.cli(&["DEL", KEY]).for_each(drop);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_has_the_format_of_the_redlock_page() {
    let shared = SharedServers::start().await;
    for with_kind in LOCK_KINDS {
        let lease = shared.lock(with_kind).acquire().await.unwrap();
        shared.wait_for_votes(&lease);
        assert_eq!(lease.id().reveal().len(), 32);
        for server in &shared.servers {
            assert_eq!(server.cli(&["TYPE", KEY]), "string");
            let left = server.command(&["PTTL", KEY]).as_int().unwrap();
            assert!(left > 0 && Duration::from_millis(left.unsigned_abs()) <= LONG, "{left}");
        }
        lease.release().await.unwrap();
        shared.wait_until_free();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redlock_release_script_frees_a_lock_of_quorlock() {
    let shared = SharedServers::start().await;
    let other_client = builder(&shared.servers).connect().await.unwrap();
    for with_kind in LOCK_KINDS {
        let lease = shared.lock(with_kind).acquire().await.unwrap();
        shared.wait_for_votes(&lease);
        for answer in shared.cli(&["EVAL", REDLOCK_RELEASE, "1", KEY, &lease.id().reveal()]) {
            assert_eq!(answer, "1");
        }
        let next_lease = with_kind(other_client.lock(KEY)).try_acquire().await.unwrap().unwrap();
        shared.wait_for_votes(&next_lease);

        // The key has the id of another lease now, so the old lease can be neither extended nor released.
        assert_eq!(lease.extend().await, Err(LeaseError::Lost(LostError::Removed)));
        drop(lease);
        assert!(shared.lock(with_kind).try_acquire().await.unwrap().is_none());
        next_lease.extend().await.unwrap();
        shared.wait_for_votes(&next_lease);
        next_lease.release().await.unwrap();
        shared.wait_until_free();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lock_sends_the_commands_of_the_redlock_page() {
    let shared = SharedServers::start().await;
    let server = &shared.servers[0];
    // Makes the slow log record all commands, except for commands in scripts.
    for (setting, value) in [("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1000")] {
        assert_eq!(server.cli(&["CONFIG", "SET", setting, value]), "OK");
    }
    let lease = shared.lock(Lock::plain).acquire().await.unwrap();
    let id = lease.id().reveal();
    shared.wait_for_votes(&lease);
    lease.release().await.unwrap();
    shared.wait_until_free();

    // Clients send a script without its indentation.
    let sent_script: String = include_str!("../../src/node/redis/scripts/plain_release.lua")
        .lines()
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect();
    let digest = server.command(&["SCRIPT", "LOAD", &sent_script]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(include_str!("../../src/node/redis/scripts/plain_release.lua")), words(REDLOCK_RELEASE));
    let ttl = LONG.as_millis().to_string();
    let expected = [vec!["SET", KEY, &id, "NX", "PX", &ttl], vec!["EVALSHA", digest.as_str().unwrap(), "1", KEY, &id]];
    let sent: Vec<Vec<String>> = recorded_commands(server).into_iter().filter(|words| words.contains(&id)).collect();
    assert_eq!(sent, expected);
}

/// The commands in the slow log of a server, oldest first, each as a list of words.
fn recorded_commands(server: &RedisServer) -> Vec<Vec<String>> {
    let Reply::Array(entries) = server.command(&["SLOWLOG", "GET", "-1"]) else {
        panic!("the reply to SLOWLOG is not a list")
    };
    let words = |entry: Reply| match entry {
        // The fields are: number, time, duration, command.
        Reply::Array(parts) => parts[3].strings(),
        other => panic!("an entry of the slow log is not a list: {other:?}"),
    };
    entries.into_iter().rev().map(words).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_data_under_the_key_is_neither_overwritten_nor_deleted() {
    let shared = SharedServers::start().await;
    for write in [["RPUSH", KEY, "an element"].as_slice(), &["HSET", KEY, "a field", "a value"]] {
        shared.cli(write).for_each(drop);
        let dumps_before: Vec<String> = shared.cli(&["DUMP", KEY]).collect();
        let key_type = if write[0] == "HSET" { "hash" } else { "list" };
        let shown_holder = format!("another program (key type {key_type})");
        let mut fences = Vec::new();
        for _ in 0..2 {
            match shared.lock(LOCK_KINDS[0]).acquire_within(Duration::ZERO).await {
                Err(AcquireError::Held(held)) => {
                    assert_eq!(held.holder.as_ref().map(ToString::to_string).as_ref(), Some(&shown_holder), "{held}");
                    fences.push(held.fence);
                }
                other => panic!("another program holds the lock: {other:?}"),
            }
        }
        assert_eq!(fences[0], fences[1], "a refused attempt raised the fence");
        for error in [
            shared.client.reentrant(KEY).acquire_within(Duration::ZERO).await.unwrap_err(),
            shared.client.rw(KEY).read().acquire_within(Duration::ZERO).await.unwrap_err(),
            shared.client.semaphore(KEY, 2).acquire_within(Duration::ZERO).await.unwrap_err(),
        ] {
            assert!(matches!(&error, AcquireError::Held(_)) && error.to_string().contains(&shown_holder), "{error}");
        }
        let inspection = shared.client.inspect(KEY).await.unwrap();
        assert_eq!(inspection.holder().unwrap().0.unwrap().to_string(), shown_holder);
        let broken = shared.client.break_lock(KEY, Break::new(inspection.target().unwrap(), "test").now()).await;
        assert!(matches!(&broken, Err(error) if error.to_string().contains(&shown_holder)), "{broken:?}");
        assert!(shared.lock(Lock::plain).try_acquire().await.unwrap().is_none());
        for wait in [Duration::ZERO, Duration::from_millis(1)] {
            let error = loop {
                let error = shared.lock(Lock::plain).acquire_within(wait).await.unwrap_err();
                // On a busy machine, a short wait ends before the nodes have answered.
                if !error.to_string().contains("too few nodes had answered") {
                    break error;
                }
            };
            assert!(error.to_string().contains(&shown_holder), "{error}");
        }

        // A client whose only attempt was refused has no votes to release.
        let new_client = builder(&shared.servers).connect().await.unwrap();
        assert!(new_client.lock(KEY).plain().try_acquire().await.unwrap().is_none());
        new_client.close(LONG / 4).await.unwrap();

        // Other data on a minority of the servers does not prevent a lease.
        shared.servers[1..].iter().for_each(|server| drop(server.cli(&["DEL", KEY])));
        for with_kind in LOCK_KINDS {
            let lease = shared.lock(with_kind).acquire().await.unwrap();
            lease.extend().await.unwrap();
            lease.release().await.unwrap();
        }
        assert_eq!(shared.servers[0].cli(&["DUMP", KEY]), dumps_before[0]);
        shared.cli(&["DEL", KEY]).for_each(drop);
    }
    shared.client.close(LONG).await.unwrap();
}

/// Connects, which must fail. Returns the error.
async fn connect_error(urls: &[String]) -> ConnectError {
    long_timeouts::builder().nodes(urls).connect().await.expect_err("the connection is refused")
}

/// Connects to a server that must deny access. Returns the error.
async fn denied_error(url: String) -> String {
    match connect_error(&[url]).await {
        error @ ConnectError::Denied { .. } => error.to_string(),
        other => panic!("access was not denied: {other}"),
    }
}

/// Connects to servers that must be unfit as nodes. Returns the error.
async fn unfit_error(urls: &[String]) -> String {
    match connect_error(urls).await {
        error @ ConnectError::Unfit { .. } => error.to_string(),
        other => panic!("the servers were not unfit: {other}"),
    }
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_no_password_is_shown() {
    let server = RedisServer::builder().password("correct-horse").start();
    let error = denied_error(format!("redis://:battery-staple@{}", server.addr())).await;
    assert!(error.contains("authentication failed") && error.contains(&server.addr().to_string()), "{error}");
    assert!(!error.contains("battery-staple"), "{error}");
    let error = denied_error(format!("redis://{}", server.addr())).await;
    assert!(error.contains("NOAUTH"), "{error}");

    let client = long_timeouts::builder().nodes([server.url()]).connect().await.unwrap();
    client.lock(KEY).acquire().await.unwrap().release().await.unwrap();
    let shown = format!("{client:?} {:?}", client.nodes());
    assert!(!shown.contains("correct-horse"), "{shown}");
}

#[tokio::test]
async fn connect_names_a_missing_permission() {
    let server = RedisServer::start();
    let url = |permissions: &[&str]| {
        let user = ["ACL", "SETUSER", "limited", "reset", "on", ">battery-staple"];
        assert_eq!(server.cli(&[&user, permissions].concat()), "OK");
        format!("redis://limited:battery-staple@{}", server.addr())
    };
    for (permissions, named_permission) in [
        (["~*", "+@all", "-@scripting"], "script"),
        (["~*", "+@all", "-info"], "info"),
        (["~app:*", "+@all", "-flushall"], "key"),
    ] {
        let error = denied_error(url(&permissions)).await;
        assert!(error.contains("NOPERM") && error.contains(named_permission), "{error}");
        assert!(!error.contains("battery-staple"), "{error}");
    }
    // The permissions that quorlock needs.
    let data_commands = ["+@string", "+@hash", "+@sortedset", "+@keyspace"];
    let needed_permissions = [&["~quorlock*", "-@all", "+@scripting", "+info", "+time"], &data_commands[..]].concat();
    let client = long_timeouts::builder().nodes([url(&needed_permissions)]).connect().await.unwrap();
    for with_kind in LOCK_KINDS {
        let lease = with_kind(client.lock(KEY)).acquire().await.unwrap();
        lease.extend().await.unwrap();
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_unfit() {
    let servers = RedisServer::start_many(2);
    let port = servers[0].port().to_string();
    assert_eq!(servers[1].cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    let error = unfit_error(&[servers[1].url()]).await;
    assert!(error.contains("replica") && error.contains(&servers[1].addr().to_string()), "{error}");
}

#[tokio::test]
async fn a_server_with_an_eviction_policy_is_refused() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = RedisServer::builder().config("maxmemory-policy", policy).start();
        let error = unfit_error(&[server.url()]).await;
        assert!(error.contains(policy) && error.contains("noeviction"), "{error}");
    }
}

#[tokio::test]
async fn a_node_does_not_vote_while_it_has_an_eviction_policy() {
    for is_busy in [false, true] {
        let server = RedisServer::start();
        let client = long_timeouts::builder().nodes([server.url()]).connect().await.unwrap();
        let silence = || client.nodes()[0].1.as_ref().map(ToString::to_string);
        server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        // On a busy connection there is no heartbeat, so a request must notice the policy.
        eventually_async("the client to notice the policy", async || {
            if is_busy && let Ok(lease) = client.lock(KEY).try_acquire().await {
                drop(lease);
            }
            silence().is_some_and(|reason| reason.contains("allkeys-lru") && reason.contains("noeviction"))
        })
        .await;
        assert!(client.lock(KEY).try_acquire().await.is_err());
        server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        eventually_async("the node to vote again", async || client.lock(KEY).try_acquire().await.is_ok()).await;
    }
}

#[tokio::test]
async fn a_new_cluster_with_one_server_under_two_names_is_refused() {
    let servers = RedisServer::start_many(2);
    let alias = servers[0].url().replace("127.0.0.1", "localhost");
    let error = unfit_error(&[servers[0].url(), servers[1].url(), alias]).await;
    assert!(error.contains("same server") && error.contains("twice"), "{error}");
    assert!(error.contains("localhost") && error.contains("127.0.0.1"), "{error}");
}
