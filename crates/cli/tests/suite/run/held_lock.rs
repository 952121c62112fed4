//! A run whose lock is held by another client, and the result of a run.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Setup, eventually, wait_until_gone};
use crate::common::{assert_fails, stderr, stdout};

#[test]
fn a_held_lock_is_refused_with_its_holder() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold(&["nightly", "--label", "the first"]);
        // With a long deadline, the nodes have time to answer since when the lock has been held.
        let deadline = ["--node-deadline", "10s"];
        let refused = setup.run_with_quorum(&[&["run", "nightly"], &deadline[..], &["--", "echo", "never"]].concat());
        let holder_text = format!("(pid {}, the first) for ", holder.0.id());
        assert_fails(&refused, 75, &holder_text);
        assert!(stderr(&refused).contains("; its lease ends in "), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("wait for it: --wait 5m    more: quorlock status nightly"));
        assert_eq!(stdout(&refused), "");
        assert_fails(&setup.run_with_quorum(&["run", "nightly", "--wait", "1s", "--", "true"]), 75, "is held");
        assert!(setup.is_free("another"));
        assert_eq!(holder.end(), Some(0));
    });
}

#[test]
fn if_held_decides_whether_a_run_fails_skips_or_waits() {
    let setup = Setup::with_file();
    let holder = setup.hold(&["a"]);
    let run = |flags: &[&str]| setup.run_with_quorum(&[&["run", "a"], flags, &["--", "echo", "never"]].concat());
    assert_fails(&run(&["--if-held", "fail"]), 75, "a is held");
    assert_fails(&run(&["-n", "-E", "17"]), 17, "a is held");
    assert_fails(&run(&["-E", "0"]), 0, "a is held");
    let skipped = run(&["--if-held", "skip"]);
    assert_fails(&skipped, 0, "skipped: a is held");
    assert_eq!((stdout(&skipped).as_str(), stderr(&skipped).lines().count()), ("", 1), "{}", stderr(&skipped));
    assert_eq!(stderr(&run(&["--if-held", "skip", "-q"])), "");
    assert_fails(&run(&["--if-held", "skip", "--wait", "1s"]), 0, "skipped");
    let mut waiter = setup.run(&["a", "--if-held", "wait", "--", "echo", "at last"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("waiting for a"), "{line}");
    assert_eq!(holder.end(), Some(0));
    assert_eq!(stdout(&waiter.wait_with_output().unwrap()), "at last\n");
}

#[test]
fn a_waiting_command_runs_when_the_lock_is_free() {
    Setup::on_file_and_servers(|setup| {
        let holder = setup.hold(&["a"]);
        let mut waiter = setup.run(&["a", "--wait", "5m", "--", "echo", "at last"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("quorlock: waiting for a, held by "), "{line}");
        assert!(line.contains(", sh) for ") && line.contains("s left of its lease"), "{line}");
        assert!(line.contains("; you are 1st of 1, waited "), "{line}");
        assert_eq!(holder.end(), Some(0));
        assert_eq!(stdout(&waiter.wait_with_output().unwrap()), "at last\n");
    });
}

#[test]
fn a_waiter_reports_a_new_holder() {
    let setup = Setup::with_file();
    let first_holder = setup.hold(&["a", "--label", "one"]);
    let second_run = setup.run(&["a", "--wait", "5m", "--label", "two", "--", "sh", "-c", "read _"]);
    let mut second_run = { second_run }.stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(second_run.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(", one)"));
    let mut third_run = setup.run(&["a", "--wait", "5m", "--", "true"]).spawn().unwrap();
    let mut lines = BufReader::new(third_run.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains(", one)") && line.contains("you are 2nd of 2"), "{line}");
    assert_eq!(first_holder.end(), Some(0));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains(", two)"), "{line}");
    drop(second_run.stdin.take());
    assert!(second_run.wait().unwrap().code().is_some());
    assert!(third_run.wait().unwrap().success());
}

#[test]
fn fifty_copies_run_one_at_a_time_and_in_order() {
    let setup = Setup::with_file();
    let log = setup.user.home.path().join("log");
    let script = r#"echo "begin $1" >> "$LOG"; echo "end $1" >> "$LOG""#;
    let holder = setup.hold(&["job"]);
    let copies: Vec<_> = (0..50)
        .map(|copy| {
            let copy = copy.to_string();
            let mut run = setup.run(&["job", "--wait", "5m", "--", "sh", "-c", script, "sh", &copy]);
            let mut run = run.env("LOG", &log).spawn().unwrap();
            // When the run prints this line, it has a queue position behind all runs that were started before.
            let mut line = String::new();
            let mut stderr = BufReader::new(run.stderr.take().unwrap());
            stderr.read_line(&mut line).unwrap();
            assert!(line.contains("waiting for job"), "{line}");
            (run, stderr)
        })
        .collect();
    assert_eq!(holder.end(), Some(0));
    for (mut run, _stderr) in copies {
        assert!(run.wait().unwrap().success());
    }
    let expected: Vec<String> = (0..50).flat_map(|copy| [format!("begin {copy}"), format!("end {copy}")]).collect();
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_lock_is_held_for_at_least_min_hold() {
    let setup = Setup::with_file();
    let started_at = Instant::now();
    let run = setup.start_script(&["a", "--min-hold", "1500ms"], "echo $$; exit 3");
    wait_until_gone(&run.first_line);
    assert!(!setup.is_free("a") || started_at.elapsed() >= Duration::from_millis(1500));
    assert_eq!(run.exit_code(), Some(3));
    assert!(started_at.elapsed() >= Duration::from_millis(1500));
}

#[test]
fn a_signal_ends_min_hold_and_keeps_the_exit_code() {
    let setup = Setup::with_file();
    let mut run = setup.start_script(&["a", "--min-hold", "5m"], "echo $$; exit 3");
    wait_until_gone(&run.first_line);
    assert!(!setup.is_free("a"));
    // A signal that arrives while the command dies goes to the command, so one signal may not be enough.
    eventually("the run ends", || {
        run.signal("TERM");
        run.child.try_wait().unwrap().is_some()
    });
    assert_eq!(run.exit_code(), Some(3));
    assert!(setup.is_free("a"));
}

#[test]
fn the_result_can_be_printed_as_json() {
    let setup = Setup::with_file();
    let path = setup.user.home.path().join("result.json");
    let file = path.to_str().unwrap();
    let read_result = || serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let script = "echo $QUORLOCK_FENCE; echo $QUORLOCK_LEASE; exit 4";
    let output = setup.run(&["a", "--result-file", file, "--json", "--", "sh", "-c", script]).output().unwrap();
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    let result = read_result();
    assert_eq!(serde_json::from_str::<Value>(lines[2]).unwrap(), result, "--json and the result file differ");
    assert_eq!(result["fence"].to_string(), lines[0]);
    assert!(!result.to_string().contains(lines[1]), "the result must not contain the lease id");
    let expected = [("v", "1"), ("name", "\"a\""), ("exit", "4"), ("outcome", "\"done\""), ("lost", "false")];
    for (key, value) in expected {
        assert_eq!(result[key].to_string(), value, "{key} of {result}");
    }
    assert!(result["waited_ms"].is_u64() && result["held_ms"].is_u64(), "{result}");
    let holder = setup.hold(&["a"]);
    for (flags, outcome, exit) in [(&["-E", "9"][..], "held", 9), (&["--if-held", "skip"], "skipped", 0)] {
        let output = setup.run(&[&["a", "--result-file", file], flags, &["--", "true"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(exit));
        let result = read_result();
        assert_eq!((&result["outcome"], &result["exit"]), (&outcome.into(), &exit.into()));
        let reason = result["reason"].as_str().unwrap();
        assert!(reason.starts_with("a is held") && !reason.contains('\n'), "{result}");
    }
    let names = std::fs::read_dir(setup.user.home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.filter(|name| name.to_str().unwrap().contains("result")).count() == 1, "a temporary file is left");
    drop(holder);
}

#[test]
fn quiet_and_verbose_select_the_messages() {
    let setup = Setup::with_file();
    let run = |flag: &[&str]| stderr(&setup.run(&[&["a"], flag, &["--", "true"]].concat()).output().unwrap());
    assert_eq!(run(&[]), "");
    assert!(run(&["-v"]).contains("\nquorlock: acquired a with fence "), "{}", run(&["-v"]));
    let _holder = setup.hold(&["a"]);
    assert_ne!(run(&["-q"]), "", "-q hides an error");
}

#[test]
fn without_a_quorum_a_run_names_every_node() {
    let setup = Setup::with_three_servers();
    let start_waiter = |setup: &Setup| {
        let mut run = setup.run(&["a", "--wait", "5m", "--", "echo", "at last"]).spawn().unwrap();
        let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
        (lines.next().unwrap().unwrap(), run)
    };
    setup.servers[0].freeze();
    setup.servers[2].freeze();
    let output = setup.run(&["a", "--", "true"]).output().unwrap();
    assert_fails(&output, 69, "no quorum for a");
    for server in &setup.servers {
        assert!(stderr(&output).contains(&format!("  redis://{}", server.addr())), "{}", stderr(&output));
    }
    let waited = setup.run(&["a", "--wait", "2s", "--", "true"]).output().unwrap();
    assert_fails(&waited, 69, "no quorum for a");
    assert_eq!(silent_node_count(&waited), 3, "{}", stderr(&waited));
    let (line, run) = start_waiter(&setup);
    assert!(line.contains("waiting for a: no quorum yet; redis://"), "{line}");
    setup.servers[0].thaw();
    setup.servers[2].thaw();
    eventually("the nodes vote again", || setup.is_free("another"));
    assert_eq!(stdout(&run.wait_with_output().unwrap()), "at last\n");
}

/// Returns the number of nodes that are listed with the duration of their silence.
fn silent_node_count(output: &Output) -> usize {
    let text = stderr(output);
    let listed = text.lines().skip_while(|line| !line.contains("no quorum for ")).skip(1);
    listed.filter(|line| line.starts_with("  redis://") && line.contains("; no vote in the last ")).count()
}
