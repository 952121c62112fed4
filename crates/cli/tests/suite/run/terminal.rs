//! Runs on a terminal: the display of a wait, Ctrl-C, Ctrl-Z, and who has the terminal.

use std::process::Command;

use super::Setup;
use super::eventually;
use crate::common::pty::Pty;
use crate::common::signal;

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");
const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";

impl Setup {
    /// Starts an interactive shell on a terminal, with the prompt `ready> `.
    fn shell_on_terminal(&self) -> Pty {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").env("Q", QUORLOCK);
        shell.env("XDG_STATE_HOME", self.user.home.path()).env("HISTFILE", "/dev/null");
        let shell = Pty::spawn(&shell);
        shell.wait_for_text("ready> ");
        shell
    }
}

/// Returns how many lines on the screen are this text. Lines with typed input have a prompt, and do not count.
fn count_lines(pty: &Pty, line_text: &str) -> usize {
    pty.text().lines().filter(|line| line.trim() == line_text).count()
}

#[test]
fn a_waiter_sees_the_holder_and_its_position() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold(&["nightly", "--label", "backup.sh"]);
        let mut pty = Pty::spawn(&setup.run(&["nightly", "--", "echo", "my turn"]));
        pty.wait_for_text(", backup.sh) for ");
        pty.wait_for_text("s left of its lease");
        pty.wait_for_text("; you are 1st of 1, waited ");
        let text = pty.text();
        let has_spinner = text.lines().any(|line| line.starts_with(|c| "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(c)));
        assert!(has_spinner && text.contains(&format!("(pid {}, ", holder.0.id())), "{text}");
        pty.wait_until("a second passes", |text| text.contains("waited ") && !text.contains("waited 0."));
        assert_eq!(holder.end(), Some(0));
        assert!(pty.wait().success());
        pty.wait_for_text("my turn");
        let text = pty.text();
        let parts = ["held by", "backup.sh", "you are", "waited"];
        assert!(parts.iter().all(|part| !text.contains(part)), "the display is not cleared: {text}");
    });
}

/// No node tells a waiter that the holder has renewed its lease. The waiter must ask for the new end of the lease.
#[test]
fn a_waiter_sees_that_the_holder_renews_its_lease() {
    let setup = Setup::with_file();
    let holder = setup.hold(&["a", "--ttl", "4s", "--kill-grace", "200ms"]);
    let pty = Pty::spawn(&setup.run(&["a", "--", "true"]));
    pty.wait_for_text("s left of its lease, which it renews; you are 1st of 1");
    assert_eq!(holder.end(), Some(0));
}

#[test]
fn ctrl_c_during_a_wait_leaves_the_queue_and_exits() {
    let setup = Setup::with_file();
    let holder = setup.hold(&["a"]);
    let mut shell = setup.shell_on_terminal();
    shell.type_keys(b"$Q run a -- echo never; echo code $?\n");
    shell.wait_for_text("you are 1st of 1");
    shell.type_keys(CTRL_C);
    shell.wait_until("the prompt is back", |text| text.ends_with("ready> ") || text.trim().ends_with("ready>"));
    shell.type_keys(b"echo code $?\n");
    shell.wait_for_text("code 130");
    assert!(!shell.text().contains("you are"), "{}", shell.text());
    assert_eq!(holder.end(), Some(0));
    assert!(setup.is_free("a"));
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    let script = "trap \"echo got it\" INT; echo begun; read line; echo line was $line; exit 7";
    shell.type_keys(format!("$Q run a -- bash -c '{script}'; echo code $?\n").as_bytes());
    eventually("the command runs", || count_lines(&shell, "begun") == 1);
    shell.type_keys(CTRL_C);
    let signal_count = |pty: &Pty| pty.text().lines().filter(|line| line.trim_end().ends_with("got it")).count();
    eventually("the command gets the signal", || signal_count(&shell) == 1);
    // The command continues to read from the terminal. A second signal would arrive before the line.
    shell.type_keys(b"from the terminal\n");
    shell.wait_for_text("line was from the terminal");
    shell.wait_for_text("code 7");
    assert_eq!(signal_count(&shell), 1, "{}", shell.text());
}

#[test]
fn a_script_is_interrupted_together_with_its_command() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    for program in ["bash", "sh"] {
        // The lines of the first shell are still on the screen when the second shell runs.
        let (begun, end) = (format!("begun {program}"), format!("end of {program}"));
        shell.type_keys(
            format!("{program} -c '$Q run a -- sh -c \"echo {begun}; exec sleep 1000\"; echo went on'\n").as_bytes(),
        );
        eventually(&begun, || count_lines(&shell, &begun) == 1);
        shell.type_keys(CTRL_C);
        // Keys typed while the terminal changes its foreground group may be discarded.
        shell.wait_until("the prompt is back", |text| text.trim_end().ends_with("ready>"));
        shell.type_keys(format!("echo {end}\n").as_bytes());
        eventually(&end, || count_lines(&shell, &end) == 1);
        assert_eq!(count_lines(&shell, "went on"), 0, "{program}: {}", shell.text());
    }
}

#[test]
fn ctrl_z_stops_a_run_and_fg_continues_it() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    shell.type_keys(b"$Q run a -- bash -c 'echo pid $$; read line; echo line was $line; exit 7'; echo code $?\n");
    shell.wait_until("the command runs", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    let text = shell.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(state.contains(") T "), "{state}");
    assert!(!setup.is_free("a"), "the lock is free although the lease has not ended");
    shell.type_keys(b"fg; echo code $?\n");
    shell.wait_until("the job is in the foreground", |text| text.matches("$Q run a").count() >= 2);
    shell.type_keys(b"typed\n");
    shell.wait_for_text("line was typed");
    shell.wait_for_text("code 7");
}

#[test]
fn a_job_that_was_stopped_for_too_long_is_not_continued() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    let flags = "--ttl 4s --kill-grace 200ms";
    shell.type_keys(format!("$Q run a {flags} -- bash -c 'echo pid $$; sleep 1000; echo went on'; echo\n").as_bytes());
    shell.wait_until("the command runs", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    eventually("the lock is free again", || setup.is_free("a"));
    shell.type_keys(b"fg; echo code $?\n");
    shell.wait_for_text("code 79");
    assert_eq!(count_lines(&shell, "went on"), 0);
}

#[test]
fn a_background_job_does_not_take_the_terminal() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    shell.type_keys(b"$Q run a -- bash -c 'echo begun; read line; echo line was $line' &\n");
    shell.wait_until("the command runs", |text| {
        text.lines().any(|line| ["begun", "ready> begun"].contains(&line.trim()))
    });
    shell.type_keys(b"echo still here\n");
    eventually("the shell reads", || count_lines(&shell, "still here") == 1);
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
fn a_run_in_a_pipeline_leaves_the_terminal_to_the_pipeline() {
    let setup = Setup::with_file();
    let mut shell = setup.shell_on_terminal();
    shell.type_keys(
        b"$Q run a -- sh -c 'echo one; echo two' | bash -c 'cat; read line < /dev/tty; echo line was $line'\n",
    );
    eventually("the pipeline prints its second line", || count_lines(&shell, "two") == 1);
    shell.type_keys(b"typed\n");
    shell.wait_for_text("line was typed");
    // Stopping the wrapper stops the command as well.
    shell.type_keys(b"clear; $Q run b -- sh -c 'echo pid $$; exec sleep 1000' | cat\n");
    shell.wait_until("the command runs", |text| text.lines().any(|line| line.starts_with("pid ")));
    shell.type_keys(CTRL_Z);
    shell.wait_for_text("Stopped");
    let text = shell.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap().trim();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state().contains(") T "), "{}", state());
    shell.type_keys(b"fg\n");
    eventually("the command continues", || state().contains(") S "));
    shell.type_keys(CTRL_C);
    eventually("the command has ended", || state().is_empty());
}

#[test]
fn the_terminal_is_restored_after_its_command_was_killed() {
    let setup = Setup::with_file();
    let mut pty = Pty::spawn(&setup.run(&["a", "--", "sh", "-c", "stty raw -echo; echo pid $$; exec sleep 1000"]));
    pty.wait_for_text("pid ");
    assert!(!pty.is_restored());
    let text = pty.text();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    signal(pid.trim().parse().unwrap(), "KILL");
    assert_eq!(pty.wait().code(), Some(137));
    assert!(pty.is_restored());
}
