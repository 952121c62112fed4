//! Processes that share an SQLite file and die while they hold a lock. The next client gets the lock before the ttl has
//! passed.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::blocking::{Client, Lease};
use quorlock::{AcquireError, ClientBuilder};
use quorlock_testkit::eventually;

/// A ttl that is longer than any wait of these tests.
const TTL: Duration = Duration::from_secs(60);
/// Half of the ttl. A client that acquires within this time did not wait for the ttl.
const HALF_TTL: Duration = Duration::from_secs(30);
/// The environment variable with the folder of the SQLite file.
const FOLDER_VARIABLE: &str = "QUORLOCK_TEST_FOLDER";
/// The environment variable with the process id of the companion. The leases end only when the holder and its companion
/// are dead.
const COMPANION_VARIABLE: &str = "QUORLOCK_TEST_COMPANION";
/// The environment variable that makes the leases outlive their process, if it is set.
const LEASES_OUTLIVE_PROCESS_VARIABLE: &str = "QUORLOCK_TEST_LEASES_OUTLIVE_PROCESS";

#[test]
fn the_lock_of_a_killed_holder_is_free_before_and_after_the_process_is_reaped() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let mut last_fence = 0;
    for is_reaped in [false, true] {
        let mut holder = Holder::start(folder.path(), &[]);
        assert!(holder.fence > last_fence, "fence {} after fence {last_fence}", holder.fence);
        assert!(try_acquire(&client).is_none(), "the lock is not held");
        holder.process.kill().unwrap();
        if is_reaped {
            holder.process.wait().unwrap();
        }
        let lease = acquire(&client);
        last_fence = lease.fence().unwrap().get();
        assert!(last_fence > holder.fence, "fence {last_fence} after fence {}", holder.fence);
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
        eventually("the waiter to be queued", || waiter_count(folder.path()) == 1);
        holder.process.kill().unwrap();
        assert!(waiter.join().unwrap().fence().unwrap().get() > holder.fence);
    });
}

#[test]
fn a_stopped_holder_keeps_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path(), &[]);
    let client = client(folder.path());
    send_signal(&holder, "STOP");
    eventually("the process to be stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", holder.process.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    assert!(try_acquire(&client).is_none());
    send_signal(&holder, "CONT");
    assert!(try_acquire(&client).is_none());
    holder.process.kill().unwrap();
    drop(acquire(&client));
}

#[test]
fn a_lock_stays_held_until_the_holder_and_its_companion_are_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut companion = Command::new("sleep").arg("600").spawn().unwrap();
    let mut holder = Holder::start(folder.path(), &[(COMPANION_VARIABLE, &companion.id().to_string())]);
    let client = client(folder.path());
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert!(try_acquire(&client).is_none(), "the lock was free although the companion lives");
    companion.kill().unwrap();
    drop(acquire(&client));
    companion.wait().unwrap();
}

#[test]
fn leases_that_may_outlive_their_process_stay_held_after_its_death() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path(), &[(LEASES_OUTLIVE_PROCESS_VARIABLE, "yes")]);
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert!(try_acquire(&client(folder.path())).is_none());
}

#[test]
fn a_missing_companion_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut ended_process = Command::new("true").spawn().unwrap();
    ended_process.wait().unwrap();
    let error =
        Client::start(builder(folder.path()).add_holder_process(ended_process.id()).connect()).unwrap_err().to_string();
    assert!(error.contains(&ended_process.id().to_string()) && error.contains("running process"), "{error}");
}

#[test]
#[ignore = "other tests run this test in a child process"]
fn holder_process() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    let mut builder = builder(&folder);
    if let Ok(pid) = std::env::var(COMPANION_VARIABLE) {
        builder = builder.add_holder_process(pid.parse().unwrap());
    }
    if std::env::var_os(LEASES_OUTLIVE_PROCESS_VARIABLE).is_some() {
        builder = builder.leases_outlive_process();
    }
    let client = Client::start(builder.connect()).unwrap();
    let lease = acquire(&client);
    std::fs::write(folder.join("fence.new"), lease.fence().unwrap().to_string()).unwrap();
    std::fs::rename(folder.join("fence.new"), folder.join("fence")).unwrap();
    loop {
        std::thread::park();
    }
}

/// A child process that runs this test binary, and holds the lock until it is killed. Dropping it kills the process.
struct Holder {
    process: Child,
    fence: u64,
}

impl Holder {
    fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(crate::common::args_to_run(concat!(module_path!(), "::holder_process")))
            .env(FOLDER_VARIABLE, folder)
            .stdout(Stdio::null());
        let process = command.envs(variables.iter().copied()).spawn().unwrap();
        let fence_file = folder.join("fence");
        eventually("the other process to hold the lock", || fence_file.exists());
        let fence = std::fs::read_to_string(&fence_file).unwrap().parse().unwrap();
        std::fs::remove_file(fence_file).unwrap();
        Self { process, fence }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a signal to the process of the holder.
fn send_signal(holder: &Holder, name: &str) {
    let pid = holder.process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn acquire(client: &Client) -> Lease {
    client.lock("a").acquire_within(HALF_TTL).unwrap()
}

/// Tries to acquire. Tries again if the file was busy for too long.
fn try_acquire(client: &Client) -> Option<Lease> {
    loop {
        match client.lock("a").try_acquire() {
            Ok(lease) => return lease,
            Err(AcquireError::NoQuorum { .. } | AcquireError::TooSlow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn waiter_count(folder: &Path) -> u32 {
    let client = client(folder);
    client.wait(client.inspect("a")).unwrap().waiting()
}

fn client(folder: &Path) -> Client {
    Client::start(builder(folder).connect()).unwrap()
}

fn builder(folder: &Path) -> ClientBuilder {
    quorlock::Client::builder().nodes([format!("sqlite:{}", folder.join("locks.db").display())]).ttl(TTL)
}
