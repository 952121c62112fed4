//! The default file of locks: unusable paths, and a full disk.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{User, assert_fails, stderr, stdout};

const ADVICE: &str = "use another file: --nodes sqlite:/some/path";
/// The id of an unprivileged user.
const NOBODY: u32 = 65_534;

impl User {
    fn state_folder(&self) -> PathBuf {
        self.home.path().join("quorlock")
    }

    fn locks_file(&self) -> PathBuf {
        self.state_folder().join("locks.db")
    }

    fn run_with_state_folder(&self, state: &Path) -> Output {
        self.quorlock(&["run", "a", "--", "true"]).env("XDG_STATE_HOME", state).output().unwrap()
    }

    /// Runs `quorlock run` as an unprivileged user who owns this path. Returns `None` if that is not possible.
    fn run_as_nobody(&self, owned_path: &Path) -> Option<Output> {
        std::fs::set_permissions(self.home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = self.quorlock(&["run", "a", "--", "true"]);
        if rustix::process::geteuid().is_root() {
            chown(owned_path, Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output();
        if output.is_err() {
            eprintln!("skipped: an unprivileged user cannot run {}", env!("CARGO_BIN_EXE_quorlock"));
        }
        output.ok()
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn missing_directories_are_created_for_the_owner_only() {
    let user = User::new();
    let state = user.home.path().join("deep/er");
    assert!(user.run_with_state_folder(&state).status.success());
    for path in [state.parent().unwrap(), &state, &state.join("quorlock")] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    assert_eq!(mode(&state.join("quorlock/locks.db")), 0o600);
}

#[test]
fn an_error_about_a_missing_directory_says_what_to_do() {
    let user = User::new();
    let file = user.home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for state in [file.as_path(), Path::new("/proc/self")] {
        let output = user.run_with_state_folder(state);
        assert_fails(&output, 78, &format!("{}: cannot create the directory", state.join("quorlock").display()));
        assert_fails(&output, 78, ADVICE);
    }
}

#[test]
fn an_error_about_a_read_only_directory_says_what_to_do() {
    let user = User::new();
    std::fs::create_dir(user.state_folder()).unwrap();
    std::fs::set_permissions(user.state_folder(), PermissionsExt::from_mode(0o500)).unwrap();
    let Some(output) = user.run_as_nobody(&user.state_folder()) else { return };
    assert_fails(&output, 78, &format!("{}: cannot create the file: Permission denied", user.locks_file().display()));
    assert_fails(&output, 78, ADVICE);
}

#[test]
fn an_error_about_a_read_only_file_says_what_to_do() {
    let user = User::new();
    std::fs::create_dir(user.state_folder()).unwrap();
    assert!(user.run(&["run", "a", "--", "true"]).status.success());
    std::fs::set_permissions(user.state_folder(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(user.locks_file(), PermissionsExt::from_mode(0o400)).unwrap();
    let Some(output) = user.run_as_nobody(&user.locks_file()) else { return };
    assert_fails(&output, 78, &user.locks_file().display().to_string());
    assert_fails(&output, 78, ADVICE);
}

#[test]
fn a_file_that_is_no_database_is_named_and_not_changed() {
    for text in ["a few words\n", &"many words\n".repeat(1_000)] {
        let user = User::new();
        std::fs::create_dir(user.state_folder()).unwrap();
        std::fs::write(user.locks_file(), text).unwrap();
        let output = user.run(&["run", "a", "--", "true"]);
        assert_fails(&output, 78, &format!("{}: it is not an SQLite database", user.locks_file().display()));
        assert_fails(&output, 78, ADVICE);
        assert_eq!(std::fs::read_to_string(user.locks_file()).unwrap(), text);
    }
}

/// Runs a script in a folder on a small disk, which exists only during the script. In the script, `$Q` is the tested
/// program, `fill` fills the disk, and `make_room` frees it. Returns `None` if no disk can be mounted.
fn run_on_small_disk(user: &User, script: &str) -> Option<Output> {
    let disk = user.home.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let script = format!(
        "set -u; mount -t tmpfs -o size=512k none \"$XDG_STATE_HOME\" || exit 200; cd \"$XDG_STATE_HOME\"
         fill() {{ dd if=/dev/zero of=filler bs=4k 2>/dev/null; }}; make_room() {{ rm filler; }}
         {script}"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.env("Q", env!("CARGO_BIN_EXE_quorlock")).env("XDG_STATE_HOME", &disk).env_remove("QUORLOCK_NODES");
    let output = command.output().unwrap();
    if matches!(output.status.code(), None | Some(1 | 200)) {
        eprintln!("skipped: no small disk can be mounted here: {}", stderr(&output));
        return None;
    }
    Some(output)
}

#[test]
fn a_full_disk_grants_no_lock_and_keeps_the_fences() {
    let script = "$Q run a -- sh -c 'echo $QUORLOCK_FENCE'
        fill; $Q run a -- echo never; echo $?; $Q run b -- echo never; echo $?
        make_room; $Q run a -- sh -c 'echo $QUORLOCK_FENCE'";
    let Some(output) = run_on_small_disk(&User::new(), script) else { return };
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    let [fence_before, "69", "69", fence_after] = lines[..] else { panic!("{text}{}", stderr(&output)) };
    assert!(fence_after.parse::<u64>().unwrap() > fence_before.parse().unwrap(), "{text}");
    assert_eq!(
        stderr(&output).matches("quorlock/locks.db: database or disk is full").count(),
        2,
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_new_file_on_a_full_disk_reports_the_full_disk() {
    let script = "fill; $Q run a -- echo never; echo $?; make_room; $Q run a -- echo done";
    let Some(output) = run_on_small_disk(&User::new(), script) else { return };
    assert_eq!(stdout(&output), "69\ndone\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("disk is full"), "{}", stderr(&output));
}

#[test]
fn a_lease_on_a_full_disk_is_lost_and_its_command_is_ended() {
    let script = "$Q run a --ttl 4s --kill-grace 100ms -- sh -c 'dd if=/dev/zero of=filler bs=4k; exec sleep 600'
        echo $?; make_room; $Q run a --wait 60s -- echo done";
    let Some(output) = run_on_small_disk(&User::new(), script) else { return };
    assert_eq!(stdout(&output), "79\ndone\n", "{}", stderr(&output));
}
