//! On a terminal: the display, Ctrl-C, Ctrl-Z.

use std::process::Command;

use super::Place;
use super::eventually;
use crate::common::pty::Pty;
use crate::common::signal;

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");
const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";

impl Place {
    /// An interactive shell on a terminal, with a recognizable prompt.
    fn terminal(&self) -> Pty {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").env("Q", QUORLOCK);
        shell.env("XDG_STATE_HOME", self.user.home.path()).env("HISTFILE", "/dev/null");
        let shell = Pty::spawn(&shell);
        shell.wait_for_text("ready> ");
        shell
    }
}

/// How often this text is on the screen, without the typed input.
fn count(pty: &Pty, what: &str) -> usize {
    pty.text().lines().filter(|line| line.trim() == what).count()
}

#[test]
fn a_waiter_sees_the_holder_and_its_position() {
    Place::on_both(|place| {
        let holder = place.hold(&["nightly", "--label", "backup.sh"]);
        let mut pty = Pty::spawn(&place.run(&["nightly", "--", "echo", "my turn"]));
        pty.wait_for_text(", backup.sh) for ");
        pty.wait_for_text("  you are 1st of 1, waited ");
        let text = pty.text();
        let spins = text.lines().any(|line| line.starts_with(|c| "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(c)));
        assert!(spins && text.contains(&format!("(pid {}, ", holder.0.id())) && text.contains(", lease "), "{text}");
        pty.wait_until("the time goes by", |text| text.contains("waited ") && !text.contains("waited 0."));
        assert_eq!(holder.end(), Some(0));
        assert!(pty.wait().success());
        pty.wait_for_text("my turn");
        let text = pty.text();
        let rest = ["held by", "backup.sh", "you are", "waited"];
        assert!(rest.iter().all(|part| !text.contains(part)), "the display is not cleared: {text}");
    });
}

#[test]
fn ctrl_c_during_a_wait_leaves_the_queue_and_exits() {
    let place = Place::file();
    let holder = place.hold(&["a"]);
    let mut shell = place.terminal();
    shell.type_keys(b"$Q run a -- echo never; echo code $?\n");
    shell.wait_for_text("you are 1st of 1");
    shell.type_keys(CTRL_C);
    shell.wait_until("the prompt is back", |text| text.ends_with("ready> ") || text.trim().ends_with("ready>"));
    shell.type_keys(b"echo code $?\n");
    shell.wait_for_text("code 130");
    assert!(!shell.text().contains("you are"), "{}", shell.text());
    assert_eq!(holder.end(), Some(0));
    assert!(place.is_free("a"));
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let place = Place::file();
    let mut shell = place.terminal();
    let script = "trap \"echo got it\" INT; echo begun; read line; echo line was $line; exit 7";
    shell.type_keys(format!("$Q run a -- bash -c '{script}'; echo code $?\n").as_bytes());
    eventually("begun", || count(&shell, "begun") == 1);
    shell.type_keys(CTRL_C);
    let times = |pty: &Pty| pty.text().lines().filter(|line| line.trim_end().ends_with("got it")).count();
    eventually("interrupted", || times(&shell) == 1);
    // It continues to read from the terminal: a second signal would have arrived before the line.
    shell.type_keys(b"from the terminal\n");
    shell.wait_for_text("line was from the terminal");
    shell.wait_for_text("code 7");
    assert_eq!(times(&shell), 1, "{}", shell.text());
}

#[test]
fn a_script_is_interrupted_together_with_its_command() {
    let place = Place::file();
    let mut shell = place.terminal();
    for program in ["bash", "sh"] {
        // The lines of the program before are still on the screen.
        let (begun, end) = (format!("begun {program}"), format!("end of {program}"));
        shell.type_keys(
            format!("{program} -c '$Q run a -- sh -c \"echo {begun}; exec sleep 1000\"; echo went on'\n").as_bytes(),
        );
        eventually(&begun, || count(&shell, &begun) == 1);
        shell.type_keys(CTRL_C);
        // Keys typed while the terminal changes its foreground group may be discarded.
        shell.wait_until("the prompt is back", |text| text.trim_end().ends_with("ready>"));
        shell.type_keys(format!("echo {end}\n").as_bytes());
        eventually(&end, || count(&shell, &end) == 1);
        assert_eq!(count(&shell, "went on"), 0, "{program}: {}", shell.text());
    }
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    let place = Place::file();
    let mut shell = place.terminal();
    shell.type_keys(b"$Q run a -- bash -c 'echo pid $$; read line; echo line was $line; exit 7'; echo code $?\n");
    shell.wait_until("it has begun", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    let text = shell.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(state.contains(") T "), "{state}");
    assert!(!place.is_free("a"), "its lease has not ended yet");
    shell.type_keys(b"fg; echo code $?\n");
    shell.wait_until("it is in the foreground", |text| text.matches("$Q run a").count() >= 2);
    shell.type_keys(b"typed\n");
    shell.wait_for_text("line was typed");
    shell.wait_for_text("code 7");
}

#[test]
fn a_job_that_was_stopped_for_too_long_is_not_continued() {
    let place = Place::file();
    let mut shell = place.terminal();
    let flags = "--ttl 4s --kill-grace 200ms";
    shell.type_keys(format!("$Q run a {flags} -- bash -c 'echo pid $$; sleep 1000; echo went on'; echo\n").as_bytes());
    shell.wait_until("it has begun", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    eventually("the lock is free again", || place.is_free("a"));
    shell.type_keys(b"fg; echo code $?\n");
    shell.wait_for_text("code 79");
    assert_eq!(count(&shell, "went on"), 0);
}

#[test]
fn a_background_job_does_not_take_the_terminal() {
    let place = Place::file();
    let mut shell = place.terminal();
    shell.type_keys(b"$Q run a -- bash -c 'echo begun; read line; echo line was $line' &\n");
    shell.wait_until("begun", |text| text.lines().any(|line| ["begun", "ready> begun"].contains(&line.trim())));
    shell.type_keys(b"echo still here\n");
    eventually("the shell reads", || count(&shell, "still here") == 1);
    // The shell reports stopped jobs before its next prompt.
    let text = shell.text();
    let pid = text.lines().find_map(|line| line.trim().strip_prefix("[1] ")).unwrap().to_owned();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    eventually("the job is stopped", || stat().contains(") T "));
    shell.type_keys(b"\n");
    shell.wait_for_text("Stopped");
    shell.type_keys(b"fg\n");
    shell.type_keys(b"typed\n");
    shell.wait_for_text("line was typed");
}

#[test]
fn a_pipeline_keeps_the_terminal() {
    let place = Place::file();
    let mut shell = place.terminal();
    shell.type_keys(
        b"$Q run a -- sh -c 'echo one; echo two' | bash -c 'cat; read line < /dev/tty; echo line was $line'\n",
    );
    eventually("two", || count(&shell, "two") == 1);
    shell.type_keys(b"typed\n");
    shell.wait_for_text("line was typed");
    // Stopping the wrapper stops the command as well.
    shell.type_keys(b"clear; $Q run b -- sh -c 'echo pid $$; exec sleep 1000' | cat\n");
    shell.wait_until("it has begun", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    let text = shell.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap().trim();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state().contains(") T "), "{}", state());
    shell.type_keys(b"fg\n");
    eventually("it goes on", || state().contains(") S "));
    shell.type_keys(CTRL_C);
    eventually("it is gone", || state().is_empty());
}

#[test]
fn a_killed_editor_leaves_the_terminal_restored() {
    let place = Place::file();
    let mut pty = Pty::spawn(&place.run(&["a", "--", "sh", "-c", "stty raw -echo; echo pid $$; exec sleep 1000"]));
    pty.wait_for_text("pid ");
    assert!(!pty.is_restored());
    let text = pty.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    signal(pid.trim().parse().unwrap(), "KILL");
    assert_eq!(pty.wait().code(), Some(137));
    assert!(pty.is_restored());
}
