//! `quorlock watch`: prints locks as they change.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use quorlock_testkit::eventually;
use serde_json::Value;

use crate::common::pty::Pty;
use crate::common::{User, assert_fails, signal, start_cluster, stdout};

/// The time limit for a line. Only a failing test reaches it.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running `quorlock watch` whose lines the test reads. It is killed on drop.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start(user: &User, arguments: &[&str]) -> Self {
        let all_arguments = [&["watch", "--every", "100ms"], arguments].concat();
        let mut child = user.quorlock(&all_arguments).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    fn next_line(&self) -> String {
        self.lines.recv_timeout(LINE_TIMEOUT).expect("the watch prints another line")
    }

    fn next_object(&self) -> Value {
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// Waits until the watch has ended. Returns its exit code.
    fn wait(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the watch has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn acquire(user: &User, arguments: &[&str]) -> String {
    let output = user.run(&[&["acquire"], arguments].concat());
    assert!(output.status.success());
    stdout(&output).trim_end().to_owned()
}

#[test]
fn every_change_is_printed_as_a_line() {
    for size in [0, 3] {
        let user = User::new();
        let (_servers, nodes) = match size {
            0 => (Vec::new(), format!("sqlite:{}", user.home.path().join("locks.db").display())),
            size => start_cluster(&user, size),
        };
        let node_flags = ["--nodes", nodes.as_str()];
        let lease = acquire(&user, &[&["a", "--label", "us"], &node_flags[..]].concat());
        let mut watch = Watch::start(&user, &[&["a*"], &node_flags[..]].concat());
        let first_line = watch.next_line();
        assert!(first_line.starts_with("a is held by ") && first_line.contains(", us) with fence "), "{first_line}");
        let run_arguments = [&["run", "a", "--wait", "60s"], &node_flags[..], &["--", "true"]].concat();
        let mut waiter = user.quorlock(&run_arguments).spawn().unwrap();
        assert_eq!(watch.next_line(), format!("{first_line}, 1 waiting"));
        signal(waiter.id(), "INT");
        waiter.wait().unwrap();
        assert_eq!(watch.next_line(), first_line);
        let other_lease = acquire(&user, &[&["ab"], &node_flags[..]].concat());
        assert!(watch.next_line().starts_with("ab is held by "));
        for (lease, line) in [(&lease, "a is free"), (&other_lease, "ab is free")] {
            let released =
                user.quorlock(&[&["release"], &node_flags[..]].concat()).env("QUORLOCK_LEASE", lease).output().unwrap();
            assert!(released.status.success());
            assert_eq!(watch.next_line(), line);
        }
        signal(watch.child.id(), "INT");
        assert_eq!(watch.wait(), Some(130));
    }
}

#[test]
fn with_json_every_change_is_printed_as_an_object() {
    let user = User::new();
    let lease = acquire(&user, &["a", "--label", "us"]);
    let mut watch = Watch::start(&user, &["--json"]);
    let held_event = watch.next_object();
    assert_eq!((&held_event["v"], &held_event["event"], &held_event["name"]), (&1.into(), &"held".into(), &"a".into()));
    assert_eq!(held_event["holder"]["label"], "us");
    assert!(
        held_event["at_ms"].as_u64().unwrap() > 1_700_000_000_000 && held_event["nodes"].is_array(),
        "{held_event}"
    );
    user.quorlock(&["release"]).env("QUORLOCK_LEASE", &lease).output().unwrap();
    let free_event = watch.next_object();
    assert_eq!(
        (&free_event["event"], &free_event["name"], &free_event["held"]),
        (&"free".into(), &"a".into(), &false.into())
    );
    signal(watch.child.id(), "TERM");
    assert_eq!(watch.wait(), Some(143));
}

#[test]
fn a_watch_ends_when_its_reader_closes_the_pipe() {
    let user = User::new();
    let lease = acquire(&user, &["a"]);
    let mut watch = user.quorlock(&["watch", "--every", "100ms"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("a is held"), "{line}");
    user.quorlock(&["release"]).env("QUORLOCK_LEASE", &lease).output().unwrap();
    let (_sender, lines) = mpsc::channel();
    assert_eq!(Watch { child: watch, lines }.wait(), Some(0));
}

#[test]
fn on_a_terminal_the_table_is_redrawn_in_place() {
    let user = User::new();
    let lease = acquire(&user, &["a", "--label", "us"]);
    let mut terminal = Pty::spawn(&user.quorlock(&["watch", "--every", "100ms"]));
    terminal.wait_until("the held lock is drawn", |text| text.contains(", us)"));
    let other_lease = acquire(&user, &["b", "--label", "them"]);
    terminal.wait_until("both held locks are drawn", |text| {
        text.matches("NAME ").count() == 1 && text.contains(", us)") && text.contains(", them)")
    });
    for lease in [lease, other_lease] {
        user.quorlock(&["release"]).env("QUORLOCK_LEASE", &lease).output().unwrap();
    }
    terminal.wait_until("both locks disappear", |text| text.contains("NAME ") && !text.contains(", us)"));
    terminal.type_keys(b"\x03");
    assert_eq!(terminal.wait().code(), Some(130));
}

#[test]
fn a_too_short_interval_is_refused() {
    assert_fails(&User::new().run(&["watch", "--every", "1ms"]), 64, "at least 100ms");
}
