//! `quorlock bench`: short measurements, whose results the tests do not check.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::pty::Pty;
use crate::common::{User, assert_fails, is_alive, signal, start_cluster, stderr, stdout};
use quorlock_testkit::{RedisServer, eventually};
use serde_json::Value;

/// The arguments of a short benchmark.
const SHORT_BENCH: [&str; 5] = ["bench", "--seconds", "1", "--callers", "1,3"];

/// Returns the arguments of a short benchmark with these flags.
fn short_bench_with<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    SHORT_BENCH.into_iter().chain(flags.iter().copied()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks that a report has every measurement.
fn assert_measured(report: &Value, nodes: usize) {
    assert_eq!((&report["v"], &report["seconds"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["nodes"].as_array().unwrap().len(), nodes, "{report}");
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.iter().map(|case| case["callers"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    for case in cases {
        for field in ["/cycles", "/cycles_per_second", "/cycle/p50_us", "/cycle/p99_us", "/acquire/p50_us", "/leases"] {
            assert!(case.pointer(field).unwrap().as_f64().unwrap() > 0.0, "{field} of {case}");
        }
        assert!(case["second_rounds"].as_u64() <= case["leases"].as_u64(), "{case}");
        assert_eq!(case["failures"], 0, "{case}");
    }
}

/// A running benchmark. The test finds the servers of the benchmark by their folder.
struct RunningBench {
    folder: PathBuf,
    child: Child,
}

impl RunningBench {
    fn spawn(user: &User, arguments: &[&str]) -> Self {
        let mut command = user.quorlock(arguments);
        let child = command.env("TMPDIR", user.home.path()).spawn().unwrap();
        Self { folder: user.home.path().to_owned(), child }
    }

    /// Returns the number of running servers.
    fn server_count(&self) -> usize {
        servers_below(&self.folder).len()
    }
}

/// Returns the process ids of the redis-servers that run in a folder below this folder.
fn servers_below(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_server_of_bench = |pid: &String| {
        let working_folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("redis-server") && working_folder.starts_with(folder)
    };
    processes.filter(|pid| pid.parse::<u32>().is_ok()).filter(is_server_of_bench).filter(|pid| is_alive(pid)).collect()
}

#[test]
fn local_servers_are_measured_and_then_stopped() {
    let user = User::new();
    let bench = RunningBench::spawn(&user, &short_bench_with(&["--local", "3", "--json"]));
    eventually("three servers run", || bench.server_count() == 3);
    let (folder, output) = (bench.folder, bench.child.wait_with_output().unwrap());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&stdout(&output));
    assert_measured(&report, 3);
    assert!(report["handoff"]["count"].as_u64() > Some(0), "{report}");
    assert!(report["handoff"]["p99_us"].as_f64() > Some(0.0), "{report}");
    assert_eq!(servers_below(&folder), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "the folder of the servers is not removed");
}

#[test]
fn a_signal_stops_the_local_servers() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let user = User::new();
        let mut bench = RunningBench::spawn(&user, &["bench", "--local", "3", "--seconds", "600"]);
        eventually("three servers run", || bench.server_count() == 3);
        signal(bench.child.id(), name);
        assert_eq!(bench.child.wait().unwrap().code(), Some(code));
        assert_eq!(bench.server_count(), 0);
        assert_eq!(std::fs::read_dir(&bench.folder).unwrap().count(), 0, "the folder of the servers is not removed");
    }
}

#[test]
fn the_local_servers_of_a_killed_bench_end() {
    let user = User::new();
    let mut bench = RunningBench::spawn(&user, &["bench", "--local", "3", "--seconds", "600"]);
    eventually("three servers run", || bench.server_count() == 3);
    signal(bench.child.id(), "KILL");
    bench.child.wait().unwrap();
    eventually("no server runs", || bench.server_count() == 0);
}

#[test]
fn without_redis_server_the_error_says_what_to_do() {
    let user = User::new();
    let output = user.quorlock(&short_bench_with(&["--local", "3"])).env("PATH", user.home.path()).output().unwrap();
    assert_fails(&output, 78, "--local needs redis-server, which is not installed");
    assert!(stderr(&output).contains("apt install redis-server"));
}

#[test]
fn the_file_of_this_machine_is_measured_when_no_nodes_are_named() {
    let user = User::new();
    let output = user.run(&short_bench_with(&["--json"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&stdout(&output));
    assert_measured(&report, 1);
    assert!(report["nodes"][0].as_str().unwrap().starts_with("sqlite:"), "{report}");
}

#[test]
fn named_nodes_are_measured_and_no_lock_stays_held() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let output = user.run(&short_bench_with(&["--nodes", &nodes]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("this puts load on redis://"), "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("CALLERS  CYCLES/S"), "{text}");
    assert!(rows[1].starts_with("1 ") && rows[2].starts_with("3 "), "{text}");
    assert!(text.contains("\nhandoff: p50 "), "{text}");
    assert_eq!(lock_keys(&servers), Vec::<String>::new());
}

#[test]
fn an_interrupted_bench_leaves_no_lock_on_named_nodes() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let arguments = ["bench", "--nodes", &nodes, "--seconds", "600", "--callers", "8"];
    let mut child = user.quorlock(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the benchmark locks a name", || {
        lock_keys(&servers).iter().any(|key| key.starts_with("quorlock:quorlock-bench/"))
    });
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(lock_keys(&servers), Vec::<String>::new());
}

/// Returns the lock keys on the servers.
fn lock_keys(servers: &[RedisServer]) -> Vec<String> {
    let keys = servers.iter().flat_map(|server| server.keys("*"));
    keys.filter(|key| !key.starts_with("quorlock~")).collect()
}

#[test]
fn plain_locks_have_no_handoff() {
    let user = User::new();
    let report = json(&stdout(&user.run(&short_bench_with(&["--json", "--plain", "--local", "1"]))));
    assert_measured(&report, 1);
    assert_eq!((&report["plain"], &report["handoff"]), (&true.into(), &Value::Null));
}

#[test]
fn nodes_that_cannot_vote_are_reported_at_once() {
    let output =
        User::new().run(&short_bench_with(&["--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"]));
    assert_fails(&output, 69, "no quorum");
}

#[test]
fn on_a_terminal_bench_asks_for_confirmation_and_shows_its_progress() {
    let user = User::new();
    let remote_nodes = short_bench_with(&["--nodes", "redis://192.0.2.1,redis://192.0.2.2,redis://192.0.2.3"]);
    let mut pty = Pty::spawn(&user.quorlock(&remote_nodes));
    pty.wait_for_text("Continue? [y/N]");
    pty.type_keys(b"n\n");
    assert_eq!(pty.wait().code(), Some(64));
    pty.wait_for_text("--yes measures without asking");

    let mut pty = Pty::spawn(&user.quorlock(&short_bench_with(&[])));
    pty.wait_for_text("█");
    pty.wait_for_text("3 callers");
    assert!(pty.wait().success());
    pty.wait_for_text("handoff: p50");
    assert!(!pty.text().contains('█'), "the progress bar is still shown: {}", pty.text());
}

#[test]
fn invalid_numbers_are_refused() {
    let user = User::new();
    for (arguments, message) in [
        (["--callers", "0"], "--callers"),
        (["--callers", "1,x"], "--callers"),
        (["--seconds", "0"], "--seconds"),
        (["--local", "0"], "--local"),
    ] {
        assert_fails(&user.run(&["bench", arguments[0], arguments[1]]), 64, message);
    }
    assert_fails(&user.run(&["bench", "--local", "2"]), 78, "two nodes tolerate no failure");
}
