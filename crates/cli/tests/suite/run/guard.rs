//! The guard of a run: a process that the wrapper (`quorlock run`) starts, and that ends the command if the wrapper
//! cannot. Tests what happens if the wrapper or the guard is stopped or killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorlock_testkit::{RedisServer, with_longest_stall};

use super::{Setup, StartedRun, eventually, wait_until_gone};
use crate::common::{User, assert_fails, is_alive, signal, stderr, stdout};

/// A command that prints its own id and the id of its child. Both processes ignore SIGTERM.
const STUBBORN_SCRIPT: &str = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; wait";
/// The flags for a short lease with a short grace.
const SHORT_LEASE: [&str; 5] = ["a", "--ttl", "4s", "--kill-grace", "200ms"];
/// The guard kills the command this long before the lease ends.
const GUARD_MARGIN: Duration = Duration::from_millis(400);
/// The flags for a lease that outlasts every wait in these tests.
const LONG_LEASE: [&str; 3] = ["a", "--ttl", "60s"];

/// Returns the process id of the wrapper's guard, if the wrapper has one.
fn guard_of(wrapper: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).ok()?;
    let is_guard = |pid: &&str| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"quorlock\0__guard"))
            && is_alive(pid)
    };
    children.split_whitespace().find(is_guard)?.parse().ok()
}

/// Returns the letter of the process's state; empty if there is no such process.
fn state_of(pid: impl std::fmt::Display) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
}

/// Kills the guard, and returns the process id of the next guard.
fn replace_guard(run: &StartedRun) -> u32 {
    let first_guard = guard_of(run.child.id()).unwrap();
    signal(first_guard, "KILL");
    eventually("the wrapper has another guard", || guard_of(run.child.id()).is_some_and(|guard| guard != first_guard));
    guard_of(run.child.id()).unwrap()
}

impl Setup {
    /// Acquires the lock, and checks that none of these processes runs while the lock is held.
    fn assert_none_runs_under_next_holder(&self, pids: &str) {
        let script = format!("for pid in {pids}; do cat /proc/$pid/stat 2>&1; done; echo next");
        let mut next_run = self.run(&["a", "--wait", "30s", "--", "sh", "-c", &script]);
        let (output, stall) = with_longest_stall(|| next_run.output().unwrap());
        let text = stdout(&output);
        assert!(text.ends_with("next\n"), "{text}{}", stderr(&output));
        if stall > GUARD_MARGIN {
            println!("no verdict: no process ran on this machine for {stall:?}, so the guard may have been late");
            return;
        }
        for line in text.lines().filter(|line| *line != "next" && !line.contains("No such")) {
            assert!(line.contains(") Z "), "a process still runs: {line}");
        }
    }
}

#[test]
fn the_command_of_a_stopped_wrapper_is_dead_before_the_next_holder_starts() {
    Setup::on_file_and_servers(|setup| {
        let run = setup.start_script(&SHORT_LEASE, STUBBORN_SCRIPT);
        run.signal("STOP");
        setup.assert_none_runs_under_next_holder(&run.first_line);
        run.signal("CONT");
        assert_eq!(run.exit_code(), Some(79));
    });
}

#[test]
fn with_on_lost_ignore_the_command_of_a_stopped_wrapper_continues() {
    let setup = Setup::with_three_servers();
    let run = setup.start_script(&[&SHORT_LEASE[..], &["--on-lost", "ignore"]].concat(), "echo $$; exec sleep 1000");
    run.signal("STOP");
    eventually("the lock is free again", || setup.is_free("a"));
    assert!(is_alive(&run.first_line));
    signal(run.first_line.parse().unwrap(), "TERM");
    run.signal("CONT");
    assert_eq!(run.exit_code(), Some(79));
}

#[test]
fn the_lock_of_a_killed_wrapper_is_free_before_the_ttl_ends() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(&LONG_LEASE, STUBBORN_SCRIPT);
        run.child.kill().unwrap();
        setup.assert_none_runs_under_next_holder(&run.first_line);
        run.child.wait().unwrap();
    });
}

#[test]
fn the_shared_lock_or_slot_of_a_killed_wrapper_is_released() {
    let setup = Setup::with_three_servers();
    for flags in [&["--shared"][..], &["--slots", "1"]] {
        let mut run = setup.start_script(&[&LONG_LEASE[..], flags].concat(), STUBBORN_SCRIPT);
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        // The next run gets the lock only if the shared lock or the slot has been released.
        let kind = if flags[0] == "--slots" { flags } else { &[] };
        let next_run = [&["a", "--wait", "30s"], kind, &["--", "true"]].concat();
        let output = setup.run(&next_run).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(run.first_line.split(' ').all(|pid| !is_alive(pid)));
    }
}

#[test]
fn a_killed_guard_is_replaced_by_a_working_guard() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(&LONG_LEASE, STUBBORN_SCRIPT);
        replace_guard(&run);
        replace_guard(&run);
        if setup.servers.is_empty() {
            // A renewal of the lease writes the process id of the new guard to the file.
            let guard = guard_of(run.child.id()).unwrap();
            eventually("the file lists the guard", || setup.file_lists_process(&guard.to_string()));
        }
        run.child.kill().unwrap();
        setup.assert_none_runs_under_next_holder(&run.first_line);
        run.child.wait().unwrap();
    });
}

impl Setup {
    /// Returns whether the file lists this process as keeping the lease alive. An id with a minus sign is that of a
    /// process group.
    fn file_lists_process(&self, pid: &str) -> bool {
        let file = self.user.home.path().join("quorlock/locks.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        let processes = connection.query_row("SELECT processes FROM entry", [], |row| row.get::<_, String>(0));
        processes.is_ok_and(|list| list.contains(&format!(" {pid}@")))
    }
}

#[test]
fn the_next_guard_gets_the_deadline_of_a_killed_guard() {
    let setup = Setup::with_three_servers();
    let run = setup.start_script(&SHORT_LEASE, STUBBORN_SCRIPT);
    replace_guard(&run);
    run.signal("STOP");
    setup.assert_none_runs_under_next_holder(&run.first_line);
    run.signal("CONT");
    assert_eq!(run.exit_code(), Some(79));
}

#[test]
fn a_stopped_guard_is_continued() {
    let setup = Setup::with_file();
    let run = setup.start_script(&LONG_LEASE, "echo $$; exec sleep 1000");
    let guard = guard_of(run.child.id()).unwrap();
    signal(guard, "STOP");
    eventually("the guard runs again", || state_of(guard) == "S");
    run.signal("TERM");
    assert_eq!(run.exit_code(), Some(143));
}

#[test]
fn without_a_guard_the_command_is_ended_in_time() {
    let setup = Setup::with_three_servers();
    let program = setup.user.home.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_quorlock"), &program).unwrap();
    let mut run = Command::new(&program);
    run.env("XDG_STATE_HOME", setup.user.home.path()).env("XDG_CONFIG_HOME", setup.user.home.path());
    run.args(&setup.flags).arg("run").args(SHORT_LEASE).args(["--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut run = StartedRun::start(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // From here on, the program cannot be started, so the wrapper cannot start another guard.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
    signal(guard_of(run.child.id()).unwrap(), "KILL");
    let pid = run.first_line.clone();
    let errors = run.child.stderr.take().unwrap();
    assert_eq!(run.exit_code(), Some(79));
    assert!(!is_alive(&pid));
    let text = std::io::read_to_string(errors).unwrap();
    // If no process runs on the machine for seconds, the lease may not be renewed in time.
    let is_reported = ["a has no guard: ", "a cannot be renewed: "].iter().any(|reason| text.contains(reason));
    assert!(text.contains("cannot start a guard") && is_reported, "{text}");
    assert!(setup.is_free("a"), "the lease was not released");
}

#[test]
fn the_command_dies_if_its_wrapper_and_guard_are_killed_together() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(&LONG_LEASE, STUBBORN_SCRIPT);
        let (command, grandchild) = run.first_line.split_once(' ').unwrap();
        if setup.servers.is_empty() {
            eventually("the file lists the group", || setup.file_lists_process(&format!("-{command}")));
        }
        let guard = guard_of(run.child.id()).unwrap();
        // A stopped wrapper cannot start another guard.
        run.signal("STOP");
        signal(guard, "KILL");
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        wait_until_gone(command);
        // No process is left that could end the children of the command, and the lock is held.
        assert!(is_alive(grandchild) && !setup.is_free("a"));
        signal(grandchild.parse().unwrap(), "KILL");
        if setup.servers.is_empty() {
            eventually("the lock is free", || setup.is_free("a"));
        }
    });
}

#[test]
fn the_lock_of_a_killed_wrapper_is_held_for_min_hold() {
    let setup = Setup::with_three_servers();
    let started_at = Instant::now();
    let mut run = setup.start_script(&[&SHORT_LEASE[..], &["--min-hold", "9s"]].concat(), STUBBORN_SCRIPT);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    setup.assert_none_runs_under_next_holder(&run.first_line);
    assert!(started_at.elapsed() >= Duration::from_secs(9));
}

#[test]
fn the_lock_of_a_wrapper_killed_after_its_command_is_held_for_min_hold() {
    let setup = Setup::with_file();
    let mut run = setup.start_script(&[&LONG_LEASE[..], &["--min-hold", "1h"]].concat(), "echo $$");
    eventually("the command is reaped", || state_of(&run.first_line).is_empty());
    let guard = guard_of(run.child.id()).unwrap();
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(!setup.is_free("a"));
    signal(guard, "KILL");
    eventually("the lock is free", || setup.is_free("a"));
}

#[test]
fn a_killed_nested_run_releases_only_its_own_lease() {
    Setup::on_file_and_servers(|setup| {
        let inner_run = format!(
            "{} run a -- sh -c 'echo $$ $PPID; exec sleep 1000' < /dev/null; echo over $?; read _",
            env!("CARGO_BIN_EXE_quorlock")
        );
        let mut outer = setup.run(&[&LONG_LEASE[..], &["--", "sh", "-c", &inner_run]].concat());
        let mut outer = StartedRun::start(outer.stdin(Stdio::piped()));
        let (command, wrapper) = outer.first_line.split_once(' ').unwrap();
        let wrapper = wrapper.parse().unwrap();
        let guard = guard_of(wrapper).unwrap();
        signal(wrapper, "KILL");
        wait_until_gone(&format!("{command} {guard}"));
        assert_eq!(outer.read_line(), "over 137");
        assert!(!setup.is_free("a"), "the outer run has lost its lock");
        drop(outer.child.stdin.take());
        outer.exit_code();
        assert!(setup.is_free("a"));
    });
}

#[test]
fn the_arguments_and_environment_of_a_guard_contain_no_secrets() {
    let user = User::new();
    let servers = RedisServer::builder().password("correct-horse").start_many(3);
    let urls = servers.iter().map(|server| format!("redis://:correct-horse@{}", server.addr()));
    let nodes = urls.collect::<Vec<_>>().join(",");
    assert!(user.run(&["nodes", "init", "--yes", "--nodes", &nodes]).status.success());
    let mut run =
        user.quorlock(&["run", "a", "--ttl", "60s", "--", "sh", "-c", "echo $QUORLOCK_LEASE; exec sleep 1000"]);
    run.env("QUORLOCK_NODES", &nodes).env("QUORLOCK_PASSWORD", "battery-staple");
    let mut run = StartedRun::start(&mut run);
    let guard = guard_of(run.child.id()).unwrap();
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{guard}/{file}")).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for secret in ["correct-horse", "battery-staple", &run.first_line] {
            assert!(!text.contains(secret), "{file} of the guard shows {secret}");
        }
    }
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // The guard still has the secrets that it needs to release the lease.
    let next_run =
        user.quorlock(&["run", "a", "--wait", "30s", "--", "true"]).env("QUORLOCK_NODES", &nodes).output().unwrap();
    assert!(next_run.status.success(), "{}", stderr(&next_run));
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    let setup = Setup::with_file();
    let quorlock = setup.quorlock(&["run", "a", "--", "true"]);
    for user_flags in [&[][..], &["--map-root-user"]] {
        let unshare = |program: &std::ffi::OsStr| {
            let mut command = Command::new("unshare");
            command.args(user_flags).args(["--pid", "--fork", "--kill-child", "--"]).arg(program);
            command
        };
        if !unshare("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        let mut command = unshare(quorlock.get_program());
        command.args(quorlock.get_args());
        for (key, value) in quorlock.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        assert_fails(&command.output().unwrap(), 78, "/proc belongs to another PID namespace");
        assert!(setup.is_free("a"));
        return;
    }
    println!("skipped: not allowed here: unshare --pid");
}
