//! Signals to the wrapper while it waits, to the wrapper while the command runs, and to the command.

use std::io::{BufRead, BufReader};

use super::{Setup, eventually};
use crate::common::signal;

#[test]
fn signals_are_forwarded_to_the_command() {
    Setup::on_file_and_servers(|setup| {
        for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"] {
            let script = format!("trap 'echo got it; exit 9' {name}; echo begun; while :; do sleep 0.02; done");
            let mut run = setup.start_script(&["a"], &script);
            run.signal(name);
            assert_eq!(run.read_line(), "got it", "{name}");
            assert_eq!(run.exit_code(), Some(9), "{name}");
        }
        assert!(setup.is_free("a"));
    });
}

#[test]
fn the_whole_process_group_of_the_command_gets_the_signal() {
    let setup = Setup::with_file();
    let mut run = setup.start_script(&["a"], "sleep 1000 & echo $!; wait");
    run.signal("TERM");
    assert_eq!(run.read_line(), "");
    let grandchild = run.first_line.clone();
    assert_eq!(run.exit_code(), Some(143));
    super::wait_until_gone(&grandchild);
}

#[test]
fn the_exit_code_of_a_killed_command_is_128_plus_the_signal() {
    let setup = Setup::with_file();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("KILL", 137), ("USR1", 138)] {
        let run = setup.start_script(&["a"], "echo $$; exec sleep 1000");
        signal(run.first_line.parse().unwrap(), name);
        assert_eq!(run.exit_code(), Some(code), "{name}");
    }
    assert!(setup.is_free("a"));
}

#[test]
fn a_signal_during_a_wait_leaves_the_queue_at_once() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold(&["a"]);
        for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
            let mut waiter = setup.run(&["a", "--wait", "5m", "--", "echo", "never"]).spawn().unwrap();
            let mut stderr = BufReader::new(waiter.stderr.take().unwrap());
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            assert!(line.contains("you are 1st of 1"), "an interrupted waiter is still in the queue: {line}");
            signal(waiter.id(), name);
            assert_eq!(waiter.wait_with_output().unwrap().status.code(), Some(code), "{name}");
        }
        assert_eq!(holder.end(), Some(0));
        assert!(setup.is_free("a"), "a waiter is left in the queue");
    });
}

#[test]
fn a_stopped_command_keeps_its_lock_and_continues() {
    let setup = Setup::with_file();
    let done_path = setup.user.home.path().join("done");
    let run = setup.start_script(
        &["a"],
        &format!("echo $$; while ! test -e {}; do sleep 0.02; done; exit 5", done_path.display()),
    );
    let pid = run.first_line.clone();
    signal(pid.parse().unwrap(), "STOP");
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    eventually("the command is stopped", || state().contains(") T "));
    assert!(!setup.is_free("a"));
    std::fs::write(done_path, "").unwrap();
    signal(pid.parse().unwrap(), "CONT");
    assert_eq!(run.exit_code(), Some(5));
}
