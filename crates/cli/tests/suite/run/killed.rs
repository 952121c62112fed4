//! The wrapper is killed, or the command leaves something behind.

use std::io::Read;

use quorlock_testkit::eventually;

use super::{Place, eventually_gone};
use crate::common::stdout;

/// A command with a grandchild, both deaf to SIGTERM; it tells their ids.
const DEAF: &str = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; wait";

#[test]
fn the_command_and_its_descendants_die_with_the_wrapper() {
    Place::both(|place| {
        let mut run = place.script(&["a"], DEAF);
        run.child.kill().unwrap();
        eventually_gone(&run.first);
        run.child.wait().unwrap();
    });
}

#[test]
fn a_killed_wrapper_is_out_of_the_way_as_soon_as_its_command_is() {
    let place = Place::file();
    let mut run = place.script(&["a", "--ttl", "60s"], DEAF);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // Nobody waits for a ttl of a minute: all who stand behind the lock are gone.
    eventually("the lock is free", || place.is_free("a"));
    assert!(!crate::common::is_alive(run.first.split(' ').next().unwrap()));
    assert!(!crate::common::is_alive(run.first.split(' ').nth(1).unwrap()));
}

#[test]
fn the_guardian_cannot_be_talked_out_of_it() {
    let place = Place::file();
    let mut run = place.script(&["a"], DEAF);
    let guardian = guardian_of(run.child.id());
    for name in ["TERM", "INT", "HUP", "USR1"] {
        crate::common::signal(guardian, name);
    }
    run.child.kill().unwrap();
    eventually_gone(&run.first);
    eventually_gone(&guardian.to_string());
    run.child.wait().unwrap();
}

#[test]
fn what_is_left_behind_is_ended_before_the_lock_is_given_back() {
    let place = Place::file();
    let script = "trap '' TERM; sleep 1000 > /dev/null 2>&1 & echo $!; exit 3";
    let mut run = place.script(&["a", "--kill-grace", "200ms"], script);
    let mut said = String::new();
    run.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("left processes behind"), "{said}");
    let left = run.first.clone();
    assert_eq!(run.code(), Some(3));
    assert!(!crate::common::is_alive(&left));
}

#[test]
fn what_ends_by_itself_is_left_alone() {
    let place = Place::file();
    let script = "(trap 'echo interrupted' TERM; sleep 0.3; echo to the end) & exit 0";
    let output = place.run(&["a", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "to the end\n");
    assert!(output.stderr.is_empty());
}

#[test]
fn a_daemon_goes_on_without_the_lock() {
    let place = Place::file();
    let script = "setsid sh -c 'echo $$; exec sleep 1000 > /dev/null 2>&1' & wait";
    let run = place.run(&["a", "--", "sh", "-c", script]);
    let run = super::Running::start(&mut { run });
    let daemon = run.first.clone();
    run.signal("TERM");
    assert_eq!(run.code(), Some(143));
    assert!(crate::common::is_alive(&daemon));
    crate::common::signal(daemon.parse().unwrap(), "KILL");
}

/// The wrapper's other child.
fn guardian_of(wrapper: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).unwrap();
    let is_guardian =
        |pid: &&str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"quorlock\0__guard");
    children.split_whitespace().find(is_guardian).unwrap().parse().unwrap()
}
