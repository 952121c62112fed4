//! One SQLite file, and processes that die while they hold a lock: the next holder does not wait for the ttl.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::blocking::{Client, Lease};
use quorlock::{AcquireError, ClientBuilder};
use quorlock_testkit::eventually;

/// Longer than any wait in these tests.
const TTL: Duration = Duration::from_secs(60);
/// Half of the ttl: a client that acquires sooner did not wait for the ttl.
const LONG_BEFORE: Duration = Duration::from_secs(30);
const FOLDER: &str = "QUORLOCK_TEST_FOLDER";
const COMPANION: &str = "QUORLOCK_TEST_COMPANION";
const OUTLIVED: &str = "QUORLOCK_TEST_OUTLIVED";

#[test]
fn a_killed_holder_frees_the_lock_before_and_after_it_is_reaped() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let mut last = 0;
    for is_reaped in [false, true] {
        let mut holder = Holder::start(folder.path(), &[]);
        assert!(holder.fence > last, "fence {} after {last}", holder.fence);
        assert!(try_acquire(&client).is_none(), "it is not held");
        holder.process.kill().unwrap();
        if is_reaped {
            holder.process.wait().unwrap();
        }
        let lease = acquire(&client);
        last = lease.fence().unwrap().get();
        assert!(last > holder.fence, "fence {last} after {}", holder.fence);
        lease.release().unwrap();
    }
}

#[test]
fn a_waiter_notices_the_death_of_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path(), &[]);
    let client = client(folder.path());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| acquire(&client));
        eventually("a waiter is queued", || waiting(folder.path()) == 1);
        holder.process.kill().unwrap();
        assert!(waiter.join().unwrap().fence().unwrap().get() > holder.fence);
    });
}

#[test]
fn a_stopped_holder_is_not_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path(), &[]);
    let client = client(folder.path());
    signal(&holder, "STOP");
    eventually("it stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", holder.process.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    assert!(try_acquire(&client).is_none());
    signal(&holder, "CONT");
    assert!(try_acquire(&client).is_none());
    holder.process.kill().unwrap();
    drop(acquire(&client));
}

#[test]
fn a_holder_with_a_companion_is_dead_once_both_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut companion = Command::new("sleep").arg("600").spawn().unwrap();
    let mut holder = Holder::start(folder.path(), &[(COMPANION, &companion.id().to_string())]);
    let client = client(folder.path());
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert!(try_acquire(&client).is_none(), "the companion has yet to end what it guards");
    companion.kill().unwrap();
    drop(acquire(&client));
    companion.wait().unwrap();
}

#[test]
fn leases_that_outlive_their_process_last_for_their_ttl() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path(), &[(OUTLIVED, "yes")]);
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert!(try_acquire(&client(folder.path())).is_none());
}

#[test]
fn a_missing_companion_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let error = Client::start(builder(folder.path()).also_alive_with(gone.id()).connect()).unwrap_err().to_string();
    assert!(error.contains(&gone.id().to_string()) && error.contains("running process"), "{error}");
}

#[test]
#[ignore = "a part of the tests above, in a process of its own"]
fn holder() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut builder = builder(&folder);
    if let Ok(pid) = std::env::var(COMPANION) {
        builder = builder.also_alive_with(pid.parse().unwrap());
    }
    if std::env::var_os(OUTLIVED).is_some() {
        builder = builder.leases_outlive_process();
    }
    let client = Client::start(builder.connect()).unwrap();
    let lease = acquire(&client);
    std::fs::write(folder.join("taking"), lease.fence().unwrap().to_string()).unwrap();
    std::fs::rename(folder.join("taking"), folder.join("taken")).unwrap();
    loop {
        std::thread::park();
    }
}

/// A process that holds the lock until it is killed.
struct Holder {
    process: Child,
    fence: u64,
}

impl Holder {
    fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(crate::common::only(concat!(module_path!(), "::holder")))
            .env(FOLDER, folder)
            .stdout(Stdio::null());
        let process = command.envs(variables.iter().copied()).spawn().unwrap();
        let taken = folder.join("taken");
        eventually("the other process holds", || taken.exists());
        let fence = std::fs::read_to_string(&taken).unwrap().parse().unwrap();
        std::fs::remove_file(taken).unwrap();
        Self { process, fence }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(holder: &Holder, name: &str) {
    let pid = holder.process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn acquire(client: &Client) -> Lease {
    client.lock("a").acquire_within(LONG_BEFORE).unwrap()
}

/// Retries if the file was busy for too long.
fn try_acquire(client: &Client) -> Option<Lease> {
    loop {
        match client.lock("a").try_acquire() {
            Ok(lease) => return lease,
            Err(AcquireError::NoQuorum { .. } | AcquireError::TooSlow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn waiting(folder: &Path) -> u32 {
    let client = client(folder);
    client.wait(client.inspect("a")).unwrap().waiting()
}

fn client(folder: &Path) -> Client {
    Client::start(builder(folder).connect()).unwrap()
}

fn builder(folder: &Path) -> ClientBuilder {
    quorlock::Client::builder().nodes([format!("sqlite:{}", folder.join("locks.db").display())]).ttl(TTL)
}
