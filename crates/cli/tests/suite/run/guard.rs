//! The guard: the wrapper is stopped or killed, or the guard itself is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorlock_testkit::{RedisServer, with_longest_stall};

use super::{Place, Running, eventually, eventually_gone};
use crate::common::{User, assert_fails, is_alive, signal, stderr, stdout};

/// A command with a grandchild, both of which ignore SIGTERM; it prints their ids.
const DEAF: &str = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; wait";
/// A short lease with a short grace.
const SHORT: [&str; 5] = ["a", "--ttl", "4s", "--kill-grace", "200ms"];
/// The guard kills the command this long before the lease ends.
const GUARD_MARGIN: Duration = Duration::from_millis(400);
/// A lease that outlasts every wait in these tests.
const LONG: [&str; 3] = ["a", "--ttl", "60s"];

/// The ids of the wrapper's guard, if it has one.
fn guard_of(wrapper: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).ok()?;
    let is_guard = |pid: &&str| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"quorlock\0__guard"))
            && is_alive(pid)
    };
    children.split_whitespace().find(is_guard)?.parse().ok()
}

fn state_of(pid: impl std::fmt::Display) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
}

/// Kills the guard, and returns the one that takes its place.
fn replace_guard(run: &Running) -> u32 {
    let first = guard_of(run.child.id()).unwrap();
    signal(first, "KILL");
    eventually("another guard", || guard_of(run.child.id()).is_some_and(|guard| guard != first));
    guard_of(run.child.id()).unwrap()
}

impl Place {
    /// Takes the lock and asserts that none of these processes runs while it is held.
    fn takes_over_from(&self, pids: &str) {
        let script = format!("for pid in {pids}; do cat /proc/$pid/stat 2>&1; done; echo next");
        let mut next = self.run(&["a", "--wait", "30s", "--", "sh", "-c", &script]);
        let (output, stall) = with_longest_stall(|| next.output().unwrap());
        let text = stdout(&output);
        assert!(text.ends_with("next\n"), "{text}{}", stderr(&output));
        if stall > GUARD_MARGIN {
            println!("no verdict: nothing ran on this machine for {stall:?}, so the guard may have been late, too");
            return;
        }
        for line in text.lines().filter(|line| *line != "next" && !line.contains("No such")) {
            assert!(line.contains(") Z "), "it still runs: {line}");
        }
    }
}

#[test]
fn the_command_of_a_stopped_wrapper_is_dead_before_the_next_holder_starts() {
    Place::on_both(|place| {
        let run = place.script(&SHORT, DEAF);
        run.signal("STOP");
        place.takes_over_from(&run.first);
        run.signal("CONT");
        assert_eq!(run.code(), Some(79));
    });
}

#[test]
fn a_stopped_wrapper_that_ignores_losses_keeps_its_command() {
    let place = Place::servers();
    let run = place.script(&[&SHORT[..], &["--on-lost", "ignore"]].concat(), "echo $$; exec sleep 1000");
    run.signal("STOP");
    eventually("the lock is free again", || place.is_free("a"));
    assert!(is_alive(&run.first));
    signal(run.first.parse().unwrap(), "TERM");
    run.signal("CONT");
    assert_eq!(run.code(), Some(79));
}

#[test]
fn a_killed_wrapper_frees_the_lock_before_the_ttl_ends() {
    Place::on_both(|place| {
        let mut run = place.script(&LONG, DEAF);
        run.child.kill().unwrap();
        place.takes_over_from(&run.first);
        run.child.wait().unwrap();
    });
}

#[test]
fn a_killed_wrapper_frees_its_share_or_slot() {
    let place = Place::servers();
    for flags in [&["--shared"][..], &["--slots", "1"]] {
        let mut run = place.script(&[&LONG[..], flags].concat(), DEAF);
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        // A writer waits for the reader; a slot waits for the slot.
        let kind = if flags[0] == "--slots" { flags } else { &[] };
        let next = [&["a", "--wait", "30s"], kind, &["--", "true"]].concat();
        let output = place.run(&next).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(run.first.split(' ').all(|pid| !is_alive(pid)));
    }
}

#[test]
fn a_killed_guard_is_replaced_by_a_working_one() {
    Place::on_both(|place| {
        let mut run = place.script(&LONG, DEAF);
        replace_guard(&run);
        replace_guard(&run);
        if place.servers.is_empty() {
            // The file has the new guard as soon as the lease is renewed.
            let guard = guard_of(run.child.id()).unwrap();
            eventually("the file knows the guard", || place.knows_process(&guard.to_string()));
        }
        run.child.kill().unwrap();
        place.takes_over_from(&run.first);
        run.child.wait().unwrap();
    });
}

impl Place {
    /// Whether the file lists this process, or group with a minus sign, as keeping a lease alive.
    fn knows_process(&self, pid: &str) -> bool {
        let file = self.user.home.path().join("quorlock/locks.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        let lists = connection.query_row("SELECT processes FROM entry", [], |row| row.get::<_, String>(0));
        lists.is_ok_and(|list| list.contains(&format!(" {pid}@")))
    }
}

#[test]
fn a_new_guard_knows_the_deadline() {
    let place = Place::servers();
    let run = place.script(&SHORT, DEAF);
    replace_guard(&run);
    run.signal("STOP");
    place.takes_over_from(&run.first);
    run.signal("CONT");
    assert_eq!(run.code(), Some(79));
}

#[test]
fn a_stopped_guard_is_continued() {
    let place = Place::file();
    let run = place.script(&LONG, "echo $$; exec sleep 1000");
    let guard = guard_of(run.child.id()).unwrap();
    signal(guard, "STOP");
    eventually("it goes on", || state_of(guard) == "S");
    run.signal("TERM");
    assert_eq!(run.code(), Some(143));
}

#[test]
fn without_any_guard_the_command_is_stopped_in_time() {
    let place = Place::servers();
    let program = place.user.home.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_quorlock"), &program).unwrap();
    let mut run = Command::new(&program);
    run.env("XDG_STATE_HOME", place.user.home.path()).env("XDG_CONFIG_HOME", place.user.home.path());
    run.args(&place.flags).arg("run").args(SHORT).args(["--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut run = Running::start(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // This program cannot be started any more.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
    signal(guard_of(run.child.id()).unwrap(), "KILL");
    let pid = run.first.clone();
    let errors = run.child.stderr.take().unwrap();
    assert_eq!(run.code(), Some(79));
    assert!(!is_alive(&pid));
    let text = std::io::read_to_string(errors).unwrap();
    // On a machine that stands still for seconds, the lease may also not be renewed in time.
    let is_reported = ["a has no guard: ", "a cannot be renewed: "].iter().any(|reason| text.contains(reason));
    assert!(text.contains("cannot start a guard") && is_reported, "{text}");
    assert!(place.is_free("a"), "the lease was held to the end, and released");
}

#[test]
fn a_wrapper_killed_with_its_guard_takes_the_command_along() {
    Place::on_both(|place| {
        let mut run = place.script(&LONG, DEAF);
        let (command, grandchild) = run.first.split_once(' ').unwrap();
        if place.servers.is_empty() {
            eventually("the file knows the group", || place.knows_process(&format!("-{command}")));
        }
        let guard = guard_of(run.child.id()).unwrap();
        // Stopped, so that it cannot start another guard.
        run.signal("STOP");
        signal(guard, "KILL");
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        eventually_gone(command);
        // No process is left that could end the children of the command, and the lock is held.
        assert!(is_alive(grandchild) && !place.is_free("a"));
        signal(grandchild.parse().unwrap(), "KILL");
        if place.servers.is_empty() {
            eventually("the lock is free", || place.is_free("a"));
        }
    });
}

#[test]
fn a_killed_wrapper_holds_for_its_minimum_time() {
    let place = Place::servers();
    let began = Instant::now();
    let mut run = place.script(&[&SHORT[..], &["--min-hold", "9s"]].concat(), DEAF);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    place.takes_over_from(&run.first);
    assert!(began.elapsed() >= Duration::from_secs(9));
}

#[test]
fn a_wrapper_killed_after_its_command_holds_for_its_minimum_time() {
    let place = Place::file();
    let mut run = place.script(&[&LONG[..], &["--min-hold", "1h"]].concat(), "echo $$");
    eventually("the command is reaped", || state_of(&run.first).is_empty());
    let guard = guard_of(run.child.id()).unwrap();
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(!place.is_free("a"));
    signal(guard, "KILL");
    eventually("the lock is free", || place.is_free("a"));
}

#[test]
fn a_killed_nested_run_releases_only_its_own_lease() {
    Place::on_both(|place| {
        let inner = format!(
            "{} run a -- sh -c 'echo $$ $PPID; exec sleep 1000' < /dev/null; echo over $?; read _",
            env!("CARGO_BIN_EXE_quorlock")
        );
        let mut outer = place.run(&[&LONG[..], &["--", "sh", "-c", &inner]].concat());
        let mut outer = Running::start(outer.stdin(Stdio::piped()));
        let (command, wrapper) = outer.first.split_once(' ').unwrap();
        let wrapper = wrapper.parse().unwrap();
        let guard = guard_of(wrapper).unwrap();
        signal(wrapper, "KILL");
        eventually_gone(&format!("{command} {guard}"));
        assert_eq!(outer.line(), "over 137");
        assert!(!place.is_free("a"), "the outer run still holds it");
        drop(outer.child.stdin.take());
        outer.code();
        assert!(place.is_free("a"));
    });
}

#[test]
fn a_guard_shows_no_secrets() {
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
    // It still has everything it needs.
    let next =
        user.quorlock(&["run", "a", "--wait", "30s", "--", "true"]).env("QUORLOCK_NODES", &nodes).output().unwrap();
    assert!(next.status.success(), "{}", stderr(&next));
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    let place = Place::file();
    let quorlock = place.quorlock(&["run", "a", "--", "true"]);
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
        assert!(place.is_free("a"));
        return;
    }
    println!("skipped: not allowed here: unshare --pid");
}
