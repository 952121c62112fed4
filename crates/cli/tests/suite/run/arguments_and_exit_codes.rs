//! Arguments, environment, exit codes and errors of `quorlock run`.

use std::io::Write;
use std::process::Stdio;

use quorlock_testkit::{RedisServer, eventually};

use super::Setup;
use crate::common::{User, assert_fails, stderr, stdout};

#[test]
fn the_first_command_of_the_readme_works() {
    let output = User::new().run(&["run", "hello", "--", "echo", "only one of me"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("only one of me\n", ""));
    assert!(output.status.success());
}

#[test]
fn the_exit_code_of_the_command_is_returned() {
    let user = User::new();
    let code = |script: &str| user.run(&["run", "a", "--", "sh", "-c", script]).status.code();
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(137));
    assert_eq!(code("kill -TERM $$"), Some(143));
}

#[test]
fn a_ttl_that_is_too_short_comes_with_advice_that_works() {
    let user = User::new();
    let output = user.run(&["run", "a", "--ttl", "4s", "--", "true"]);
    assert_fails(&output, 64, "use --ttl 18s, or --kill-grace 333ms");
    assert!(user.run(&["run", "a", "--ttl", "4s", "--kill-grace", "333ms", "--", "true"]).status.success());
    let output = user.run(&["run", "a", "--ttl", "3s", "--kill-grace", "500ms", "--", "true"]);
    assert_fails(&output, 64, "use --ttl 4500ms");
    assert!(!stderr(&output).contains("or --kill-grace"), "no grace is short enough: {}", stderr(&output));
}

#[test]
fn a_command_that_cannot_be_started_has_the_exit_code_of_a_shell() {
    let user = User::new();
    assert_fails(&user.run(&["run", "a", "--", "no-such-command"]), 127, "cannot run no-such-command");
    assert_fails(&user.run(&["run", "a", "--", "/etc/passwd"]), 126, "cannot run /etc/passwd");
    assert!(user.run(&["run", "a", "--", "true"]).status.success(), "the lock was not released");
}

#[test]
fn the_command_gets_its_stdin_its_arguments_and_the_lease() {
    let user = User::new();
    let script = r#"cat; printf '%s\n' "$1" "$QUORLOCK_NAME" "$QUORLOCK_TTL_MS"; test "${QUORLOCK_LEASE#q1.the%20name.}" != "$QUORLOCK_LEASE"; echo "$QUORLOCK_FENCE""#;
    let arguments = ["run", "the name", "--", "sh", "-ec", script, "sh", "two  words; $HOME"];
    let mut child = user.quorlock(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..4], ["from stdin", "two  words; $HOME", "the name", "30000"]);
    let fence: u64 = lines[4].parse().unwrap();
    let next_run = user.run(&["run", "the name", "--", "sh", "-c", "echo $QUORLOCK_FENCE"]);
    assert!(stdout(&next_run).trim().parse::<u64>().unwrap() > fence);
}

#[test]
fn invalid_arguments_and_nodes_are_reported() {
    let user = User::new();
    for (arguments, code, message) in [
        (&["run", "a"][..], 64, "COMMAND"),
        (&["run", "a", "--ttl", "30", "--", "true"], 64, "30s or 30ms"),
        (&["run", "a", "--ttl", "5s", "--", "true"], 64, "at least 18s"),
        (&["run", "a", "--ttl", "2m", "--", "true"], 64, "--ttl must be between"),
        (&["run", "a", "--wait", "soon", "--", "true"], 64, "a number and a unit"),
        (&["run", "a", "--max-hold", "5", "--", "true"], 64, "5s or 5ms"),
        (&["run", "a", "--min-hold", "5x", "--", "true"], 64, "not a unit"),
        (&["run", "a", "--min-hold", "2s", "--max-hold", "1s", "--", "true"], 64, "longer than"),
        (&["run", "a", "-n", "--wait", "1s", "--", "true"], 64, "cannot be used with"),
        (&["run", "a", "-n", "--if-held", "wait", "--", "true"], 64, "contradict"),
        (&["run", "a", "--shared", "--slots", "2", "--", "true"], 64, "cannot be used with"),
        (&["run", "a", "--slots", "0", "--", "true"], 64, "between 1 and"),
        (&["run", "a", "-E", "256", "--", "true"], 64, "256"),
        (&["run", "a", "--result-file", "/nowhere/at/all", "--", "true"], 64, "no folder /nowhere/at"),
        (&["run", "", "--", "true"], 64, "must not be empty"),
        (&["nonsense"], 64, "nonsense"),
        (&["run", "a", "--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:2", "--", "true"], 78, "two nodes"),
        (&["run", "a", "--nodes", "http://127.0.0.1:1", "--", "true"], 78, "use redis://"),
        (&["run", "a", "--nodes", "sqlite:/proc/nowhere/locks.db", "--", "true"], 78, "/proc/nowhere"),
        (&["run", "a", "--nodes", "memory:", "--", "true"], 78, "memory:"),
        (&["nodes", "init"], 64, "--yes"),
    ] {
        assert_fails(&user.run(arguments), code, message);
    }
    assert!(user.run(&["--help"]).status.success());
    assert!(user.run(&["--version"]).status.success());
}

#[test]
fn a_new_cluster_reports_its_quarantine_and_init_ends_it() {
    let servers = RedisServer::start_many(3);
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    let user = User::new();
    let run = ["run", "a", "--nodes", &nodes, "--", "echo", "done"];
    // On a busy machine, servers may answer late.
    let mut refused = user.run(&run);
    eventually("every node answers", || {
        refused = user.run(&run);
        !stderr(&refused).contains("unreachable")
    });
    assert_fails(&refused, 69, "quorlock nodes init");
    for server in &servers {
        assert!(stderr(&refused).contains(&format!("redis://{}  quarantined", server.addr())), "{}", stderr(&refused));
    }
    let init = user.run(&["nodes", "init", "--yes", "--nodes", &nodes]);
    assert!(init.status.success(), "{}", stderr(&init));
    assert_eq!(stdout(&user.run(&run)), "done\n");
    let listed = user.run(&["nodes", "--nodes", &nodes]);
    assert_eq!(stdout(&listed).lines().filter(|line| line.contains("  voting  ")).count(), 3);
    servers[0].kill();
    servers[1].kill();
    assert_fails(&user.run(&run), 69, &format!("redis://{}  unreachable", servers[0].addr()));
}

#[test]
fn an_even_number_of_nodes_causes_a_warning() {
    let setup = Setup::with_servers(4);
    let warnings = |flags: &[&str]| stderr(&setup.run(&[flags, &["a", "--", "true"]].concat()).output().unwrap());
    assert_eq!(warnings(&[]), "quorlock: 4 nodes tolerate no more failures than 3: use an odd number\n");
    assert_eq!(warnings(&["-q"]), "");
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
fn a_file_in_place_of_the_state_directory_is_a_configuration_error() {
    let user = User::new();
    let file = user.home.path().join("quorlock");
    std::fs::write(&file, "not a folder").unwrap();
    assert_fails(&user.run(&["run", "a", "--", "true"]), 78, &file.display().to_string());
}

#[test]
fn the_command_keeps_its_directory_and_gets_an_absolute_path_of_the_file() {
    let user = User::new();
    let nodes = "sqlite:locks.db";
    let script = r#"pwd; cd /; echo "$QUORLOCK_NODES"; echo "$QUORLOCK_KIND ${QUORLOCK_OWNER:+owned}""#;
    let mut run = user.quorlock(&["run", "a", "--nodes", nodes, "--", "sh", "-c", script]);
    let output = run.current_dir(user.home.path()).output().unwrap();
    let home = user.home.path().canonicalize().unwrap();
    let home = home.display();
    assert_eq!(stdout(&output), format!("{home}\nsqlite:{home}/locks.db\nexclusive owned\n"), "{}", stderr(&output));
}

#[test]
fn an_ignored_signal_stays_ignored_for_the_command() {
    let user = User::new();
    let quorlock = env!("CARGO_BIN_EXE_quorlock");
    let script = format!("trap '' HUP; exec {quorlock} run a -- grep SigIgn: /proc/self/status");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &script]).env("XDG_STATE_HOME", user.home.path()).output().unwrap();
    let mask = u64::from_str_radix(stdout(&output).trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 1, 1, "{mask:x}");
}
