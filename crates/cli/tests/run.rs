//! `quorlock` as its users meet it: the real binary, a real file, real servers.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use quorlock_testkit::{RedisServer, eventually};

use common::{User, assert_fails, cluster, is_alive, signal, stderr, stdout};

#[test]
fn the_first_command_of_the_readme_works() {
    let output = User::new().run(&["run", "hello", "--", "echo", "only one of me"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("only one of me\n", ""));
    assert!(output.status.success());
}

#[test]
fn the_commands_exit_code_is_passed_on() {
    let user = User::new();
    let code = |script: &str| user.run(&["run", "a", "--", "sh", "-c", script]).status.code();
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(137));
    assert_eq!(code("kill -TERM $$"), Some(143));
}

#[test]
fn a_command_that_cannot_run_has_the_shells_codes() {
    let user = User::new();
    assert_fails(&user.run(&["run", "a", "--", "no-such-command"]), 127, "cannot run no-such-command");
    assert_fails(&user.run(&["run", "a", "--", "/etc/passwd"]), 126, "cannot run /etc/passwd");
    assert!(user.run(&["run", "a", "--", "true"]).status.success(), "and the lock was given back");
}

#[test]
fn the_command_gets_its_stdin_its_arguments_and_the_lease() {
    let user = User::new();
    let script = r#"cat; printf '%s\n' "$1" "$QUORLOCK_NAME" "$QUORLOCK_TTL_MS"; test ${#QUORLOCK_LEASE} = 32; echo "$QUORLOCK_FENCE""#;
    let arguments = ["run", "the name", "--", "sh", "-ec", script, "sh", "two  words; $HOME"];
    let mut child = user.quorlock(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..4], ["from stdin", "two  words; $HOME", "the name", "30000"]);
    let fence: u64 = lines[4].parse().unwrap();
    let next = user.run(&["run", "the name", "--", "sh", "-c", "echo $QUORLOCK_FENCE"]);
    assert!(stdout(&next).trim().parse::<u64>().unwrap() > fence);
}

#[test]
fn a_held_lock_is_refused_with_its_holder() {
    let user = User::new();
    let holder = user.hold(&["run", "nightly", "--label", "the first"]);
    let refused = user.run(&["run", "nightly", "--", "echo", "never"]);
    assert_fails(&refused, 75, "nightly is held by ");
    assert!(stderr(&refused).contains("the first"), "{}", stderr(&refused));
    assert_eq!(stdout(&refused), "");
    assert_fails(&user.run(&["run", "nightly", "--wait", "50ms", "--", "true"]), 75, "is held");
    assert!(user.run(&["run", "another", "--", "true"]).status.success());
    assert_eq!(holder.end(), Some(0));
}

#[test]
fn a_waiting_command_runs_when_the_lock_is_free() {
    let user = User::new();
    let holder = user.hold(&["run", "a"]);
    let mut waiter = user.quorlock(&["run", "a", "--wait", "5m", "--", "echo", "at last"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("quorlock: waiting for a, held by "), "{line}");
    assert_eq!(holder.end(), Some(0));
    assert_eq!(stdout(&waiter.wait_with_output().unwrap()), "at last\n");
}

#[test]
fn a_signal_while_waiting_ends_it_and_leaves_nothing() {
    let user = User::new();
    let holder = user.hold(&["run", "a"]);
    let mut waiter = user.quorlock(&["run", "a", "--wait", "5m", "--", "echo", "never"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut line).unwrap();
    signal(waiter.id(), "TERM");
    assert_eq!(waiter.wait().unwrap().code(), Some(143));
    assert_eq!(holder.end(), Some(0));
    assert!(user.run(&["run", "a", "--", "true"]).status.success());
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let user = User::new();
    let script = "trap 'echo got it; exit 9' TERM; echo begun; while :; do sleep 0.05; done";
    let mut run = user.quorlock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    signal(run.id(), "TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

#[test]
fn a_killed_wrapper_is_out_of_the_way_after_its_ttl() {
    let user = User::new();
    drop(user.hold(&["run", "a", "--ttl", "4s", "--kill-grace", "200ms"]));
    let next = user.run(&["run", "a", "--wait", "5m", "--", "echo", "next"]);
    assert_eq!(stdout(&next), "next\n");
}

#[test]
fn mistakes_are_named() {
    let user = User::new();
    for (arguments, code, says) in [
        (&["run", "a"][..], 64, "CMD"),
        (&["run", "a", "--ttl", "30", "--", "true"], 64, "30s or 30ms"),
        (&["run", "a", "--ttl", "5s", "--", "true"], 64, "at least 18s"),
        (&["run", "a", "--ttl", "2m", "--", "true"], 64, "out of bounds"),
        (&["run", "", "--", "true"], 64, "must not be empty"),
        (&["nonsense"], 64, "nonsense"),
        (&["run", "a", "--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:2", "--", "true"], 78, "two nodes"),
        (&["run", "a", "--nodes", "http://127.0.0.1:1", "--", "true"], 78, "use redis://"),
        (&["run", "a", "--nodes", "sqlite:/proc/nowhere/locks.db", "--", "true"], 78, "/proc/nowhere"),
        (&["run", "a", "--nodes", "memory:", "--", "true"], 78, "memory:"),
        (&["nodes", "init"], 64, "--yes"),
    ] {
        assert_fails(&user.run(arguments), code, says);
    }
    assert!(user.run(&["--help"]).status.success());
    assert!(user.run(&["--version"]).status.success());
}

#[test]
fn a_new_cluster_says_what_is_going_on_and_init_gets_it_going() {
    let servers = RedisServer::start_many(3);
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    let user = User::new();
    let run = ["run", "a", "--nodes", &nodes, "--", "echo", "done"];
    let refused = user.run(&run);
    assert_fails(&refused, 69, "quorlock nodes init");
    for server in &servers {
        assert!(stderr(&refused).contains(&format!("redis://{}  quarantined", server.addr())), "{}", stderr(&refused));
    }
    let init = user.run(&["nodes", "init", "--yes", "--nodes", &nodes]);
    assert!(init.status.success(), "{}", stderr(&init));
    assert_eq!(stdout(&user.run(&run)), "done\n");
    let listed = user.run(&["nodes", "--nodes", &nodes]);
    assert_eq!(stdout(&listed).lines().filter(|line| line.ends_with("ready")).count(), 3);
    servers[0].kill();
    servers[1].kill();
    assert_fails(&user.run(&run), 69, &format!("redis://{}  unreachable", servers[0].addr()));
}

#[test]
fn a_wrong_password_is_denied_and_not_shown() {
    let server = RedisServer::builder().password("correct-horse").start();
    let url = format!("redis://:wrong-horse@{}", server.addr());
    let output = User::new().run(&["run", "a", "--nodes", &url, "--", "true"]);
    assert_fails(&output, 77, "access denied");
    assert!(!stderr(&output).contains("horse"), "{}", stderr(&output));
}

#[test]
fn a_command_is_dead_before_its_lock_can_be_somebody_elses() {
    let user = User::new();
    let (servers, nodes) = cluster(&user, 3);
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    // It ignores SIGTERM, and so does the grandchild that does the work.
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; echo begun; wait; wait", pid_file.display());
    let flags = ["run", "a", "--ttl", "4s", "--kill-grace", "200ms", "--nodes", &nodes, "--", "sh", "-c", &script];
    let mut run = user.quorlock(&flags).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let grandchild = std::fs::read_to_string(&pid_file).unwrap();
    servers[0].freeze();
    servers[1].freeze();
    assert_eq!(run.wait().unwrap().code(), Some(79));
    eventually("the grandchild is dead", || !is_alive(grandchild.trim()));
}
