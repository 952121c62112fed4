//! Runs whose wrapper is killed, and commands that leave processes behind.

use std::io::Read;

use quorlock_testkit::eventually;

use super::{Setup, wait_until_gone};
use crate::common::stdout;

/// A command that prints its own id and the id of its child. Both processes ignore SIGTERM.
const STUBBORN_SCRIPT: &str = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; wait";

#[test]
fn the_command_and_its_descendants_die_with_the_wrapper() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(&["a"], STUBBORN_SCRIPT);
        run.child.kill().unwrap();
        wait_until_gone(&run.first_line);
        run.child.wait().unwrap();
    });
}

#[test]
fn the_lock_of_a_killed_wrapper_is_free_when_its_command_has_ended() {
    let setup = Setup::with_file();
    let mut run = setup.start_script(&["a", "--ttl", "60s"], STUBBORN_SCRIPT);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // The ttl is a minute, but a file frees a lock when all processes of its lease are gone.
    eventually("the lock is free", || setup.is_free("a"));
    assert!(!crate::common::is_alive(run.first_line.split(' ').next().unwrap()));
    assert!(!crate::common::is_alive(run.first_line.split(' ').nth(1).unwrap()));
}

#[test]
fn the_guard_ignores_signals() {
    let setup = Setup::with_file();
    let mut run = setup.start_script(&["a"], STUBBORN_SCRIPT);
    let guard = guard_of(run.child.id());
    for name in ["TERM", "INT", "HUP", "USR1"] {
        crate::common::signal(guard, name);
    }
    run.child.kill().unwrap();
    wait_until_gone(&run.first_line);
    wait_until_gone(&guard.to_string());
    run.child.wait().unwrap();
}

#[test]
fn leftover_processes_are_ended_before_the_release() {
    let setup = Setup::with_file();
    let script = "trap '' TERM; sleep 1000 > /dev/null 2>&1 & echo $!; exit 3";
    let mut run = setup.start_script(&["a", "--kill-grace", "200ms"], script);
    let mut text = String::new();
    run.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("left processes behind"), "{text}");
    let leftover_pid = run.first_line.clone();
    assert_eq!(run.exit_code(), Some(3));
    assert!(!crate::common::is_alive(&leftover_pid));
}

#[test]
fn leftover_processes_that_end_by_themselves_are_not_killed() {
    let setup = Setup::with_file();
    let script = "(trap 'echo interrupted' TERM; sleep 0.3; echo to the end) & exit 0";
    let output = setup.run(&["a", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "to the end\n");
    assert!(output.stderr.is_empty());
}

#[test]
fn a_daemon_survives_the_release_of_the_lock() {
    let setup = Setup::with_file();
    let script = "setsid sh -c 'echo $$; exec sleep 1000 > /dev/null 2>&1' & wait";
    let run = setup.run(&["a", "--", "sh", "-c", script]);
    let run = super::StartedRun::start(&mut { run });
    let daemon_pid = run.first_line.clone();
    run.signal("TERM");
    assert_eq!(run.exit_code(), Some(143));
    assert!(crate::common::is_alive(&daemon_pid));
    crate::common::signal(daemon_pid.parse().unwrap(), "KILL");
}

/// Returns the id of the wrapper's guard.
fn guard_of(wrapper: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).unwrap();
    let is_guard =
        |pid: &&str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"quorlock\0__guard");
    children.split_whitespace().find(is_guard).unwrap().parse().unwrap()
}
