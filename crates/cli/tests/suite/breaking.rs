//! `quorlock break` with the real binary, a real SQLite file and real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output};

use crate::common::pty::Pty;
use crate::common::setup::Setup;
use crate::common::{assert_fails, is_alive, stderr, stdout};
use serde_json::Value;

impl Setup {
    /// Runs `quorlock break a` with a reason.
    fn break_lock(&self, arguments: &[&str]) -> Output {
        self.quorlock(&[&["break", "a", "--reason", "a test"], arguments].concat()).output().unwrap()
    }

    /// Starts a run that holds the lock, and does not end by itself.
    fn hold_without_end(&self, ttl: &str) -> HoldingRun {
        let script = "echo $QUORLOCK_FENCE $$; exec sleep 1000";
        let flags = ["run", "a", "--ttl", ttl, "--kill-grace", "200ms", "--label", "the nightly", "--"];
        let mut child = self.quorlock(&[&flags[..], &["sh", "-c", script]].concat()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (fence, pid) = line.trim_end().split_once(' ').unwrap();
        HoldingRun { child, fence: fence.into(), pid: pid.into() }
    }
}

/// A run that holds the lock.
struct HoldingRun {
    child: Child,
    fence: String,
    pid: String,
}

impl HoldingRun {
    /// Waits until the run has ended. Returns its exit code and stderr.
    fn wait(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for HoldingRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_whose_lock_is_broken_ends_before_the_next_holder_starts() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold_without_end("6s");
        let pid = holder.pid.clone();
        let broken = setup.break_lock(&["--fence", &holder.fence]);
        assert!(broken.status.success(), "{}", stderr(&broken));
        assert!(stdout(&broken).starts_with("a is broken on"), "{}", stdout(&broken));
        // The process that broke the lease has ended. In a file, the end of a process frees its locks, but it must not
        // free the broken lock.
        assert!(!setup.is_free("a"), "the lock is free before the lease has ended");
        let is_dead = format!("! kill -0 {pid}");
        for server in &setup.servers {
            let history = server.cli(&["XREVRANGE", "quorlock~history", "+", "-"]);
            assert!(history.contains("a test") && history.contains("broken"), "{history}");
        }
        let next_run = setup.quorlock(&["run", "a", "--wait", "5m", "--", "sh", "-c", &is_dead]).output().unwrap();
        assert_eq!(next_run.status.code(), Some(0), "{}", stderr(&next_run));
        let (code, text) = holder.wait();
        assert_eq!(code, Some(79), "{text}");
        assert!(text.contains("it was broken"), "{text}");
    });
}

/// The lease outlasts the test, so the run can only learn of the break by a message.
#[test]
fn a_run_learns_at_once_that_its_lock_is_broken() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold_without_end("60s");
        assert!(setup.break_lock(&["--fence", &holder.fence, "--now", "--yes"]).status.success());
        let pid = holder.pid.clone();
        assert_eq!(holder.wait().0, Some(79));
        assert!(!is_alive(&pid));
        assert!(setup.is_free("a"), "the lock is not free at once after break --now");
    });
}

#[test]
fn another_fence_breaks_nothing_and_names_the_current_fence() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold_without_end("60s");
        for flags in [&["--fence", "1"][..], &["--fence", "1", "--now", "--yes"]] {
            let refused = setup.break_lock(flags);
            assert_fails(&refused, 75, &format!("another fence {} now", holder.fence));
            assert!(stderr(&refused).contains("the nightly"), "{}", stderr(&refused));
        }
        assert!(is_alive(&holder.pid));
        assert!(!setup.is_free("a"));
    });
}

#[test]
fn a_free_lock_is_not_broken() {
    Setup::on_file_and_servers(|setup| assert_fails(&setup.break_lock(&["--fence", "1"]), 75, "nobody holds \"a\""));
}

#[test]
fn breaking_now_needs_confirmation_without_a_terminal() {
    let setup = Setup::with_file();
    let holder = setup.hold_without_end("60s");
    assert_fails(&setup.break_lock(&["--fence", &holder.fence, "--now"]), 64, "--yes");
    assert!(is_alive(&holder.pid));
}

#[test]
fn breaking_now_asks_for_the_name() {
    let setup = Setup::with_file();
    let holder = setup.hold_without_end("60s");
    let command = setup.quorlock(&["break", "a", "--fence", &holder.fence, "--reason", "a test", "--now"]);
    for (typed, code) in [("b\n", 64), ("\n", 64), ("a\n", 0)] {
        let mut terminal = Pty::spawn(&command);
        terminal.wait_for_text("Type the name of the lock to continue:");
        assert!(is_alive(&holder.pid), "the lock was broken before the name was typed");
        terminal.type_keys(typed.as_bytes());
        assert_eq!(terminal.wait().code(), Some(code), "{typed:?}: {}", terminal.text());
    }
    assert_eq!(holder.wait().0, Some(79));
}

#[test]
fn break_prints_its_result_as_json() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold_without_end("60s");
        let broken = setup.break_lock(&["--fence", &holder.fence, "--json"]);
        let result: Value = serde_json::from_str(&stdout(&broken)).unwrap();
        assert_eq!((&result["v"], &result["name"], &result["mode"]), (&1.into(), &"a".into(), &"drain".into()));
        assert_eq!(result["fence"].to_string(), holder.fence);
        assert_eq!(result["reason"], "a test");
        assert!((1..=60_000).contains(&result["drain_ms"].as_u64().unwrap()), "{result}");
    });
}

#[test]
fn the_history_has_the_breaker_and_the_reason() {
    Setup::on_file_and_servers(|setup| {
        let run = |arguments: &[&str]| stdout(&setup.quorlock(arguments).output().unwrap());
        assert_eq!(run(&["history"]), "");
        let holder = setup.hold_without_end("60s");
        assert!(setup.break_lock(&["--fence", &holder.fence]).status.success());
        let history: Value = serde_json::from_str(&run(&["history", "a", "--json"])).unwrap();
        let event = &history["events"][0];
        assert_eq!((&event["name"], &event["what"], &event["mode"]), (&"a".into(), &"broken".into(), &"drain".into()));
        assert_eq!((event["fence"].to_string(), &event["reason"]), (holder.fence.clone(), &"a test".into()));
        assert!(event["by"]["pid"].is_u64(), "{event}");
        let table = run(&["history"]);
        assert!(table.contains(&holder.fence) && table.contains("a test"), "{table}");
        assert_eq!(run(&["history", "another"]), "", "the history of another name has this event");
    });
}

#[test]
fn a_plain_lock_is_broken_by_its_digest() {
    let setup = Setup::with_three_servers();
    for server in &setup.servers {
        server.command(&["SET", "quorlock:a", "a stranger's", "NX", "PX", "100000"]);
    }
    assert_fails(&setup.break_lock(&["--fence", "1"]), 75, "another digest 765842bf8d727e5f now");
    assert!(setup.break_lock(&["--digest", "765842bf8d727e5f"]).status.success());
    assert!(!setup.is_free("a"));
    assert!(setup.break_lock(&["--digest", "765842bf8d727e5f", "--now", "--yes"]).status.success());
    assert!(setup.is_free("a"));
}

#[test]
fn without_a_quorum_break_names_the_unreachable_nodes() {
    let setup = Setup::with_three_servers();
    let holder = setup.hold_without_end("60s");
    setup.servers[0].kill();
    setup.servers[1].kill();
    let refused = setup.break_lock(&["--fence", &holder.fence]);
    assert_fails(&refused, 69, "no quorum for breaking a: 2 of 3 nodes are unreachable");
    for server in &setup.servers[..2] {
        assert!(stderr(&refused).contains(&server.url()), "{}", stderr(&refused));
    }
}

#[test]
fn missing_and_invalid_arguments_are_reported() {
    let setup = Setup::with_file();
    for (arguments, message) in [
        (&["break", "a", "--reason", "x"][..], "--fence"),
        (&["break", "a", "--fence", "1"], "--reason"),
        (&["break", "a", "--fence", "1", "--reason", " "], "the reason must not be blank"),
        (&["break", "a", "--fence", "one", "--reason", "x"], "a fence is the number of a lease"),
        (&["break", "a", "--fence", "null", "--reason", "x"], "if the lock is free, it has no fence"),
        (&["break", "a", "--digest", "12", "--reason", "x"], "16 hexadecimal digits"),
        (&["break", "a", "--digest", "0123456789abcdef", "--fence", "1", "--reason", "x"], "cannot be used with"),
        (&["break", "", "--fence", "1", "--reason", "x"], "must not be empty"),
    ] {
        assert_fails(&setup.quorlock(arguments).output().unwrap(), 64, message);
    }
}
