//! One SQLite file, and processes in other time and mount namespaces. If the machine allows no namespaces, these tests
//! print that and check nothing; unit tests of the node cover how it reads `/proc`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::ClientBuilder;
use quorlock::blocking::Client;
use quorlock_testkit::eventually;

/// The role of the child process.
const ROLE: &str = "QUORLOCK_TEST_ROLE";
const FOLDER: &str = "QUORLOCK_TEST_FOLDER";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longer than any delay of a busy machine.
const LONG_TTL: Duration = Duration::from_secs(60);
const SHORT_TTL: Duration = Duration::from_secs(1);
/// Much longer than the longest lease here.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a program in other namespaces, behind `wrapper`: as root, or as root of a user namespace.
fn unshare(flags: &[&str], wrapper: &[&str]) -> Option<Command> {
    for extra in [&[][..], &["--map-root-user"]] {
        let command = || {
            let mut command = Command::new("unshare");
            command.args(extra).args(flags).args(["--fork", "--kill-child", "--"]).args(wrapper);
            command
        };
        let tried = command().arg("true").stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) {
            return Some(command());
        }
    }
    println!("skipped: not allowed here: unshare {} {}", flags.join(" "), wrapper.join(" "));
    None
}

/// Runs the test `other` of this file in a child process.
fn start(mut within: Command, role: &str, folder: &Path) -> Child {
    within.arg(std::env::current_exe().unwrap()).args(crate::common::only(concat!(module_path!(), "::other")));
    within.env(ROLE, role).env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// The output of a child process that tries to acquire the lock.
fn attempt(within: Command, folder: &Path) -> String {
    assert!(start(within, "attempt", folder).wait().unwrap().success());
    std::fs::read_to_string(folder.join("said")).unwrap()
}

#[test]
#[ignore = "a part of the other tests, in a process of its own"]
fn other() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    match std::env::var(ROLE).unwrap().as_str() {
        "attempt" => {
            std::fs::write(folder.join("said"), try_acquire(&folder).unwrap_or_else(|error| error)).unwrap();
        }
        role => {
            assert_eq!(role, "hold");
            let client = client(&folder);
            let lease = client.lock("a").ttl(SHORT_TTL).acquire().unwrap();
            std::fs::write(folder.join("said"), lease.fence().unwrap().to_string()).unwrap();
            // Until it is killed.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
    }
}

fn try_acquire(folder: &Path) -> Result<String, String> {
    let client = Client::start(builder(folder).connect()).map_err(|error| error.to_string())?;
    let lease = client.lock("a").try_acquire().map_err(|error| error.to_string())?;
    Ok(if lease.is_some() { "acquired".into() } else { "held".into() })
}

fn client(folder: &Path) -> Client {
    Client::start(builder(folder).connect()).unwrap()
}

fn builder(folder: &Path) -> ClientBuilder {
    let node = format!("sqlite:{}", folder.join("locks.db").display());
    quorlock::Client::builder().nodes([node]).ttl(LONG_TTL)
}

#[test]
fn a_held_lock_is_held_in_another_time_namespace() {
    let Some(within) = unshare(&["--time", "--boottime", "100000"], &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire().unwrap();
    assert_eq!(attempt(within, folder.path()), "held");
    lease.ensure(Duration::ZERO).unwrap();
}

#[test]
fn a_lease_from_another_time_namespace_lasts_at_most_its_ttl() {
    let Some(within) = unshare(&["--time", "--boottime", "100000"], &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut holder = start(within, "hold", folder.path());
    // Kept open, because the holder releases its lease when its input ends.
    let _stdin = holder.stdin.take();
    eventually("the other process holds the lock", || folder.path().join("said").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire_within(PATIENCE).unwrap();
    lease.ensure(Duration::ZERO).unwrap();
}

#[test]
fn a_boot_id_from_a_bind_mount_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire().unwrap();
    let made_up = folder.path().join("boot_id");
    std::fs::write(&made_up, "5f3c1c5e-8d4e-4a57-9b0c-3d1f2a6b7c8d\n").unwrap();
    // One on another file system, and one on the same.
    for source in [made_up.to_str().unwrap(), "/proc/sys/kernel/random/uuid"] {
        let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let Some(within) = unshare(&["--mount"], &["sh", "-c", script, "sh", source, BOOT_ID]) else { return };
        let said = attempt(within, folder.path());
        assert!(said.contains(BOOT_ID) && said.contains("mounted over"), "{said}");
    }
    assert_eq!(attempt(Command::new("env"), folder.path()), "held", "the votes are as they were");
    lease.ensure(Duration::ZERO).unwrap();
}
