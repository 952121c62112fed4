//! The guard of a run: what happens if the wrapper or the guard is stopped or killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorlock_testkit::{RedisServer, with_longest_stall};

use super::{Running, Setup, eventually, eventually_gone};
use crate::common::{User, assert_fails, is_alive, signal, stderr, stdout};

/// A command that prints its own id and the id of its child. Both processes ignore SIGTERM.
const STUBBORN: &str = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; wait";
/// A short lease with a short grace.
const SHORT: [&str; 5] = ["a", "--ttl", "4s", "--kill-grace", "200ms"];
/// The guard kills the command this long before the lease ends.
const GUARD_MARGIN: Duration = Duration::from_millis(400);
/// A lease that outlasts every wait in these tests.
const LONG: [&str; 3] = ["a", "--ttl", "60s"];

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
fn replace_guard(run: &Running) -> u32 {
    let first = guard_of(run.child.id()).unwrap();
    signal(first, "KILL");
    eventually("the wrapper has another guard", || guard_of(run.child.id()).is_some_and(|guard| guard != first));
    guard_of(run.child.id()).unwrap()
}

impl Setup {
    /// Acquires the lock, and checks that none of these processes runs while the lock is held.
    fn assert_none_runs_under_next_holder(&self, pids: &str) {
        let script = format!("for pid in {pids}; do cat /proc/$pid/stat 2>&1; done; echo next");
        let mut next = self.run(&["a", "--wait", "30s", "--", "sh", "-c", &script]);
        let (output, stall) = with_longest_stall(|| next.output().unwrap());
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
    Setup::on_both(|setup| {
        let run = setup.script(&SHORT, STUBBORN);
        run.signal("STOP");
        setup.assert_none_runs_under_next_holder(&run.first);
        run.signal("CONT");
        assert_eq!(run.code(), Some(79));
    });
}

#[test]
fn with_on_lost_ignore_the_command_of_a_stopped_wrapper_continues() {
    let setup = Setup::servers();
    let run = setup.script(&[&SHORT[..], &["--on-lost", "ignore"]].concat(), "echo $$; exec sleep 1000");
    run.signal("STOP");
    eventually("the lock is free again", || setup.is_free("a"));
    assert!(is_alive(&run.first));
    signal(run.first.parse().unwrap(), "TERM");
    run.signal("CONT");
    assert_eq!(run.code(), Some(79));
}

#[test]
fn the_lock_of_a_killed_wrapper_is_free_before_the_ttl_ends() {
    Setup::on_both(|setup| {
        let mut run = setup.script(&LONG, STUBBORN);
        run.child.kill().unwrap();
        setup.assert_none_runs_under_next_holder(&run.first);
        run.child.wait().unwrap();
    });
}

#[test]
fn the_shared_lock_or_slot_of_a_killed_wrapper_is_released() {
    let setup = Setup::servers();
    for flags in [&["--shared"][..], &["--slots", "1"]] {
        let mut run = setup.script(&[&LONG[..], flags].concat(), STUBBORN);
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        // The next run needs the shared lock or the slot to be released.
        let kind = if flags[0] == "--slots" { flags } else { &[] };
        let next = [&["a", "--wait", "30s"], kind, &["--", "true"]].concat();
        let output = setup.run(&next).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(run.first.split(' ').all(|pid| !is_alive(pid)));
    }
}

#[test]
fn a_killed_guard_is_replaced_by_a_working_one() {
    Setup::on_both(|setup| {
        let mut run = setup.script(&LONG, STUBBORN);
        replace_guard(&run);
        replace_guard(&run);
        if setup.servers.is_empty() {
            // A renewal of the lease writes the process id of the new guard to the file.
            let guard = guard_of(run.child.id()).unwrap();
            eventually("the file lists the guard", || setup.file_lists_process(&guard.to_string()));
        }
        run.child.kill().unwrap();
        setup.assert_none_runs_under_next_holder(&run.first);
        run.child.wait().unwrap();
    });
}

impl Setup {
    /// Returns whether the file lists a process that keeps a lease alive. A minus sign before the id stands for a
    /// group.
    fn file_lists_process(&self, pid: &str) -> bool {
        let file = self.user.home.path().join("quorlock/locks.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        let processes = connection.query_row("SELECT processes FROM entry", [], |row| row.get::<_, String>(0));
        processes.is_ok_and(|list| list.contains(&format!(" {pid}@")))
    }
}

#[test]
fn the_next_guard_gets_the_deadline_of_a_killed_guard() {
    let setup = Setup::servers();
    let run = setup.script(&SHORT, STUBBORN);
    replace_guard(&run);
    run.signal("STOP");
    setup.assert_none_runs_under_next_holder(&run.first);
    run.signal("CONT");
    assert_eq!(run.code(), Some(79));
}

#[test]
fn a_stopped_guard_is_continued() {
    let setup = Setup::file();
    let run = setup.script(&LONG, "echo $$; exec sleep 1000");
    let guard = guard_of(run.child.id()).unwrap();
    signal(guard, "STOP");
    eventually("the guard runs again", || state_of(guard) == "S");
    run.signal("TERM");
    assert_eq!(run.code(), Some(143));
}

#[test]
fn without_a_guard_the_command_is_ended_in_time() {
    let setup = Setup::servers();
    let program = setup.user.home.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_quorlock"), &program).unwrap();
    let mut run = Command::new(&program);
    run.env("XDG_STATE_HOME", setup.user.home.path()).env("XDG_CONFIG_HOME", setup.user.home.path());
    run.args(&setup.flags).arg("run").args(SHORT).args(["--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut run = Running::start(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // From here on, the program cannot be started, so the wrapper cannot start another guard.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
    signal(guard_of(run.child.id()).unwrap(), "KILL");
    let pid = run.first.clone();
    let errors = run.child.stderr.take().unwrap();
    assert_eq!(run.code(), Some(79));
    assert!(!is_alive(&pid));
    let text = std::io::read_to_string(errors).unwrap();
    // If no process runs on the machine for seconds, the lease may not be renewed in time.
    let is_reported = ["a has no guard: ", "a cannot be renewed: "].iter().any(|reason| text.contains(reason));
    assert!(text.contains("cannot start a guard") && is_reported, "{text}");
    assert!(setup.is_free("a"), "the lease was not released");
}

#[test]
fn the_command_dies_if_its_wrapper_and_guard_are_killed_together() {
    Setup::on_both(|setup| {
        let mut run = setup.script(&LONG, STUBBORN);
        let (command, grandchild) = run.first.split_once(' ').unwrap();
        if setup.servers.is_empty() {
            eventually("the file lists the group", || setup.file_lists_process(&format!("-{command}")));
        }
        let guard = guard_of(run.child.id()).unwrap();
        // A stopped wrapper cannot start another guard.
        run.signal("STOP");
        signal(guard, "KILL");
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        eventually_gone(command);
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
    let setup = Setup::servers();
    let started = Instant::now();
    let mut run = setup.script(&[&SHORT[..], &["--min-hold", "9s"]].concat(), STUBBORN);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    setup.assert_none_runs_under_next_holder(&run.first);
    assert!(started.elapsed() >= Duration::from_secs(9));
}

#[test]
fn the_lock_of_a_wrapper_killed_after_its_command_is_held_for_min_hold() {
    let setup = Setup::file();
    let mut run = setup.script(&[&LONG[..], &["--min-hold", "1h"]].concat(), "echo $$");
    eventually("the command is reaped", || state_of(&run.first).is_empty());
    let guard = guard_of(run.child.id()).unwrap();
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(!setup.is_free("a"));
    signal(guard, "KILL");
    eventually("the lock is free", || setup.is_free("a"));
}

#[test]
fn a_killed_nested_run_releases_only_its_own_lease() {
    Setup::on_both(|setup| {
        let inner = format!(
            "{} run a -- sh -c 'echo $$ $PPID; exec sleep 1000' < /dev/null; echo over $?; read _",
            env!("CARGO_BIN_EXE_quorlock")
        );
        let mut outer = setup.run(&[&LONG[..], &["--", "sh", "-c", &inner]].concat());
        let mut outer = Running::start(outer.stdin(Stdio::piped()));
        let (command, wrapper) = outer.first.split_once(' ').unwrap();
        let wrapper = wrapper.parse().unwrap();
        let guard = guard_of(wrapper).unwrap();
        signal(wrapper, "KILL");
        eventually_gone(&format!("{command} {guard}"));
        assert_eq!(outer.line(), "over 137");
        assert!(!setup.is_free("a"), "the outer run has lost its lock");
        drop(outer.child.stdin.take());
        outer.code();
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
    let mut run = Running::start(&mut run);
    let guard = guard_of(run.child.id()).unwrap();
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{guard}/{file}")).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for secret in ["correct-horse", "battery-staple", &run.first] {
            assert!(!text.contains(secret), "{file} of the guard shows {secret}");
        }
    }
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // The guard still has the secrets that it needs to release the lease.
    let next =
        user.quorlock(&["run", "a", "--wait", "30s", "--", "true"]).env("QUORLOCK_NODES", &nodes).output().unwrap();
    assert!(next.status.success(), "{}", stderr(&next));
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    let setup = Setup::file();
    let quorlock = setup.quorlock(&["run", "a", "--", "true"]);
    for extra in [&[][..], &["--map-root-user"]] {
        let unshare = |program: &std::ffi::OsStr| {
            let mut command = Command::new("unshare");
            command.args(extra).args(["--pid", "--fork", "--kill-child", "--"]).arg(program);
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
