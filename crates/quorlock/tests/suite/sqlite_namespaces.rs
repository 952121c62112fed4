//! Processes in other time and mount namespaces that share an SQLite file. If the machine does not allow namespaces,
//! these tests print a note and check nothing. Unit tests of the SQLite node check how it reads `/proc`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::ClientBuilder;
use quorlock::blocking::Client;
use quorlock_testkit::eventually;

/// The environment variable with the role of the child process: `attempt` or `hold`.
const ROLE_VARIABLE: &str = "QUORLOCK_TEST_ROLE";
/// The environment variable with the folder of the SQLite file.
const FOLDER_VARIABLE: &str = "QUORLOCK_TEST_FOLDER";
/// The file with the id of the current boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A ttl that is longer than any delay of a busy machine.
const LONG_TTL: Duration = Duration::from_secs(60);
/// A ttl that is short enough to wait for.
const SHORT_TTL: Duration = Duration::from_secs(1);
/// A timeout that is much longer than any ttl of these tests.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A command that runs `wrapper` in other namespaces. It runs as root, or as the root of a user namespace. The caller
/// appends the program that `wrapper` runs. Returns `None` if the machine does not allow these namespaces.
fn unshare(flags: &[&str], wrapper: &[&str]) -> Option<Command> {
    for user_flags in [&[][..], &["--map-root-user"]] {
        let command = || {
            let mut command = Command::new("unshare");
            command.args(user_flags).args(flags).args(["--fork", "--kill-child", "--"]).args(wrapper);
            command
        };
        let status = command().arg("true").stderr(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            return Some(command());
        }
    }
    println!("skipped: not allowed here: unshare {} {}", flags.join(" "), wrapper.join(" "));
    None
}

/// Starts `command`, and makes it run the test `child_process` of this file.
fn start(mut command: Command, role: &str, folder: &Path) -> Child {
    command
        .arg(std::env::current_exe().unwrap())
        .args(crate::common::args_to_run(concat!(module_path!(), "::child_process")));
    command
        .env(ROLE_VARIABLE, role)
        .env(FOLDER_VARIABLE, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The result of a child process that tries to acquire the lock.
fn attempt_result(command: Command, folder: &Path) -> String {
    assert!(start(command, "attempt", folder).wait().unwrap().success());
    std::fs::read_to_string(folder.join("result")).unwrap()
}

#[test]
#[ignore = "other tests run this test in a child process"]
fn child_process() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    match std::env::var(ROLE_VARIABLE).unwrap().as_str() {
        "attempt" => {
            std::fs::write(folder.join("result"), try_acquire(&folder).unwrap_or_else(|error| error)).unwrap();
        }
        role => {
            assert_eq!(role, "hold");
            let client = client(&folder);
            let lease = client.lock("a").ttl(SHORT_TTL).acquire().unwrap();
            std::fs::write(folder.join("result"), lease.fence().unwrap().to_string()).unwrap();
            // Hold the lock until this process is killed.
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
fn a_process_in_another_time_namespace_finds_a_held_lock_held() {
    let Some(command) = unshare(&["--time", "--boottime", "100000"], &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire().unwrap();
    assert_eq!(attempt_result(command, folder.path()), "held");
    lease.ensure(Duration::ZERO).unwrap();
}

#[test]
fn a_lease_from_another_time_namespace_lasts_at_most_its_ttl() {
    let Some(command) = unshare(&["--time", "--boottime", "100000"], &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut holder = start(command, "hold", folder.path());
    // The input stays open, because the holder releases its lease when its input ends.
    let _stdin = holder.stdin.take();
    eventually("the other process to hold the lock", || folder.path().join("result").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire_within(TIME_LIMIT).unwrap();
    lease.ensure(Duration::ZERO).unwrap();
}

#[test]
fn a_process_whose_boot_id_comes_from_a_bind_mount_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    let lease = client.lock("a").acquire().unwrap();
    let made_up_file = folder.path().join("boot_id");
    std::fs::write(&made_up_file, "5f3c1c5e-8d4e-4a57-9b0c-3d1f2a6b7c8d\n").unwrap();
    // The first source is on another file system than the boot id, the second on the same.
    for source in [made_up_file.to_str().unwrap(), "/proc/sys/kernel/random/uuid"] {
        let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let Some(command) = unshare(&["--mount"], &["sh", "-c", script, "sh", source, BOOT_ID]) else { return };
        let result = attempt_result(command, folder.path());
        assert!(result.contains(BOOT_ID) && result.contains("mounted over"), "{result}");
    }
    assert_eq!(attempt_result(Command::new("env"), folder.path()), "held", "a refused process changed the votes");
    lease.ensure(Duration::ZERO).unwrap();
}
