//! Runs that lose their lock, whose lock is broken, or that reach --max-hold.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, Command};

use quorlock_testkit::eventually_async;
use serde_json::Value;

use super::{Setup, StartedRun, wait_until_gone};
use crate::common::stdout;

/// The flags for a short lease with a short grace.
const SHORT_LEASE: [&str; 4] = ["--ttl", "4s", "--kill-grace", "200ms"];

impl Setup {
    /// Freezes two of three servers, so that no lease can be renewed.
    fn freeze_majority(&self) {
        self.servers[0].freeze();
        self.servers[1].freeze();
    }

    /// Ends [`freeze_majority`](Self::freeze_majority).
    fn thaw_majority(&self) {
        self.servers[0].thaw();
        self.servers[1].thaw();
    }
}

/// Reads all of stderr.
fn read_all(stderr: Option<ChildStderr>) -> String {
    let mut text = String::new();
    stderr.unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_command_is_dead_before_its_lock_can_be_granted_again() {
    let setup = Setup::with_three_servers();
    // The command and its child both ignore SIGTERM.
    let script = "trap '' TERM; sleep 1000 & echo $$ $!; wait; wait";
    let mut run = setup.start_script(&[&["a"], &SHORT_LEASE[..]].concat(), script);
    let pids = run.first_line.clone();
    let stderr = run.child.stderr.take();
    setup.freeze_majority();
    assert_eq!(run.exit_code(), Some(79));
    assert!(pids.split(' ').all(|pid| !crate::common::is_alive(pid)), "a process outlives the wrapper");
    let text = read_all(stderr);
    assert!(text.contains("a cannot be renewed: ending the command") && text.contains("the lease is lost"), "{text}");
}

#[test]
fn a_run_that_lost_its_lock_fails_although_its_command_exits_with_zero() {
    let setup = Setup::with_three_servers();
    let path = setup.user.home.path().join("result.json");
    let flags = [&["a", "--result-file", path.to_str().unwrap()], &SHORT_LEASE[..]].concat();
    let mut run =
        setup.start_script(&flags, "trap 'echo ending; exit 0' TERM; echo begun; while :; do sleep 0.02; done");
    setup.freeze_majority();
    assert_eq!(run.read_line(), "ending", "the command did not get SIGTERM first");
    assert_eq!(run.exit_code(), Some(79));
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&result["outcome"], &result["lost"], &result["exit"]), (&"lost".into(), &true.into(), &79.into()));
}

#[test]
fn on_lost_decides_what_happens_to_the_command() {
    let setup = Setup::with_three_servers();
    let script = "trap 'echo asked' TERM; echo begun; while ! test -e \"$DONE\"; do sleep 0.02; done; echo done";
    let done_path = setup.user.home.path().join("done");
    let start = |name: &str, on_lost: &str| {
        let flags = [&[name, "--on-lost", on_lost], &SHORT_LEASE[..], &["--", "sh", "-c", script]].concat();
        StartedRun::start(setup.run(&flags).env("DONE", &done_path))
    };
    let (mut run_with_ignore, mut run_with_kill) = (start("a", "ignore"), start("b", "kill"));
    setup.freeze_majority();
    assert_eq!(run_with_kill.read_line(), "", "the command got SIGTERM");
    assert_eq!(run_with_kill.exit_code(), Some(79));
    std::fs::write(&done_path, "").unwrap();
    assert_eq!(run_with_ignore.read_line(), "done");
    assert_eq!(run_with_ignore.exit_code(), Some(79));
}

#[test]
fn max_hold_still_ends_a_command_after_a_failed_renewal_was_repaired() {
    let setup = Setup::with_three_servers();
    let path = setup.user.home.path().join("result.json");
    let flags =
        ["a", "--ttl", "18s", "--kill-grace", "5s", "--max-hold", "18s", "--result-file", path.to_str().unwrap()];
    let script = "trap 'echo asked; trap \"echo asked; exit\" TERM' TERM; echo begun; while :; do sleep 0.02; done";
    let mut run = setup.start_script(&flags, script);
    let stderr = run.child.stderr.take();
    setup.freeze_majority();
    assert_eq!(run.read_line(), "asked");
    setup.thaw_majority();
    assert_eq!(run.read_line(), "asked", "--max-hold did not end the command");
    assert_eq!(run.exit_code(), Some(79));
    let text = read_all(stderr);
    let expected_order = ["a cannot be renewed: ending", "a was renewed", "a has been held for long enough: ending"];
    let offsets = expected_order.map(|part| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in: {text}")));
    assert!(offsets.is_sorted(), "{text}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&result["outcome"], &result["lost"]), (&"max-hold".into(), &false.into()));
}

#[test]
fn a_run_fails_if_its_command_was_asked_to_end_although_the_lock_was_renewed_later() {
    let setup = Setup::with_three_servers();
    let path = setup.user.home.path().join("result.json");
    let flags = ["a", "--ttl", "18s", "--kill-grace", "5s", "--result-file", path.to_str().unwrap()];
    let script = "trap 'echo asked' TERM; echo begun; while ! test -e \"$DONE\"; do sleep 0.02; done";
    let done_path = setup.user.home.path().join("done");
    let mut run =
        StartedRun::start(setup.run(&[&flags[..], &["--", "sh", "-c", script]].concat()).env("DONE", &done_path));
    let mut stderr = BufReader::new(run.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    setup.freeze_majority();
    assert_eq!(run.read_line(), "asked");
    setup.thaw_majority();
    assert!(stderr.any(|line| line.contains("a was renewed")));
    std::fs::write(&done_path, "").unwrap();
    assert_eq!(run.exit_code(), Some(79), "the command may have stopped early with code 0");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&result["outcome"], &result["lost"]), (&"asked-to-end".into(), &false.into()));
}

#[test]
fn a_command_is_ended_when_its_lock_is_deleted() {
    let setup = Setup::with_three_servers();
    let run = setup.start_script(&[&["a"], &SHORT_LEASE[..]].concat(), "echo $$; exec sleep 1000");
    let pid = run.first_line.clone();
    for server in &setup.servers {
        server.command(&["SET", "quorlock:a", "somebody-else", "PX", "60000"]);
    }
    assert_eq!(run.exit_code(), Some(79));
    wait_until_gone(&pid);
}

#[test]
fn max_hold_ends_the_command() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(
            &["a", "--max-hold", "300ms"],
            "trap 'echo ending; exit 0' TERM; echo begun; while :; do sleep 0.02; done",
        );
        assert_eq!(run.read_line(), "ending");
        let stderr = run.child.stderr.take();
        assert_eq!(run.exit_code(), Some(79));
        assert!(read_all(stderr).contains("a has been held for long enough"));
        let script = "trap '' TERM; echo $$; while :; do sleep 0.02; done";
        let stubborn_run = setup.start_script(&["a", "--max-hold", "300ms", "--kill-grace", "200ms"], script);
        let pid = stubborn_run.first_line.clone();
        assert_eq!(stubborn_run.exit_code(), Some(79));
        assert!(!crate::common::is_alive(&pid));
        assert!(setup.is_free("a"));
    });
}

/// Breaks the lock as another client of the same nodes.
fn break_lock(setup: &Setup, name: &str, at_once: bool) {
    let file = format!("sqlite:{}", setup.user.home.path().join("quorlock/locks.db").display());
    let nodes = setup.flags.get(1).unwrap_or(&file).split(',').map(ToOwned::to_owned).collect::<Vec<_>>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = quorlock::Client::connect(nodes).await.unwrap();
        let mut target = None;
        // On a loaded machine, too few nodes may answer in time.
        eventually_async("the nodes to name the lease", async || {
            target = client.inspect(name).await.ok().and_then(|inspection| inspection.target());
            target.is_some()
        })
        .await;
        let target = target.expect("the wait has set this value");
        let request = quorlock::Break::new(target, "a test");
        client.break_lock(name, if at_once { request.now() } else { request }).await.unwrap();
    });
}

#[test]
fn a_broken_lock_ends_the_command_before_the_next_holder_starts() {
    Setup::on_file_and_servers(|setup| {
        let script = "trap 'echo ending; exit 0' TERM; echo begun; while :; do sleep 0.02; done";
        let mut run = setup.start_script(&["a"], script);
        let stderr = run.child.stderr.take();
        break_lock(setup, "a", false);
        assert_eq!(run.read_line(), "ending", "the command did not get SIGTERM, although the lock drains");
        assert_eq!(run.exit_code(), Some(79));
        let text = read_all(stderr);
        assert!(text.contains("a was broken: ending the command"), "{text}");
        assert!(!setup.is_free("a"), "the lock is free before the lease has ended");
        let stubborn_run =
            setup.start_script(&["b", "--kill-grace", "200ms"], "trap '' TERM; echo $$; while :; do sleep 0.02; done");
        let pid = stubborn_run.first_line.clone();
        break_lock(setup, "b", false);
        assert_eq!(stubborn_run.exit_code(), Some(79));
        assert!(!crate::common::is_alive(&pid));
    });
}

#[test]
fn a_break_with_now_kills_the_command_at_once() {
    Setup::on_file_and_servers(|setup| {
        let mut run = setup.start_script(&["a"], "trap 'echo asked' TERM; echo begun; while :; do sleep 0.02; done");
        break_lock(setup, "a", true);
        assert_eq!(run.read_line(), "", "the command got SIGTERM");
        assert_eq!(run.exit_code(), Some(79));
        assert!(setup.is_free("a"));
    });
}

#[test]
fn processes_outside_the_run_are_not_signalled() {
    let setup = Setup::with_file();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let output = setup.run(&["a", "--max-hold", "100ms", "--", "sleep", "1000"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(79), ""));
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
