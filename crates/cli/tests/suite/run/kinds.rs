//! Shared locks, slots, and nested runs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use quorlock_testkit::eventually;

use super::{Running, Setup};
use crate::common::{assert_fails, stderr, stdout};

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");

#[test]
fn shared_runs_are_compatible_and_exclude_exclusive_runs() {
    Setup::on_both(|setup| {
        let (one, other) = (setup.hold(&["a", "--shared"]), setup.hold(&["a", "--shared"]));
        assert!(!setup.is_free("a"));
        assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
        let exclusive = setup.hold(&["a"]);
        assert_fails(&setup.run(&["a", "--shared", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_eq!(exclusive.end(), Some(0));
    });
}

#[test]
fn at_most_as_many_commands_run_as_there_are_slots() {
    Setup::on_both(|setup| {
        let start = |name: &str| setup.script(&[name, "--slots", "2"], "echo $QUORLOCK_SLOT; exec sleep 1000");
        let (one, other) = (start("a"), start("a"));
        let mut slots = [one.first.clone(), other.first.clone()];
        slots.sort();
        assert_eq!(slots, ["0", "1"]);
        assert_fails(&setup.run(&["a", "--slots", "2", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_fails(&setup.run(&["a", "--slots", "3", "--", "true"]).output().unwrap(), 64, "2 permits, not 3");
        one.signal("TERM");
        assert_eq!(one.code(), Some(143));
        assert!(setup.run(&["a", "--slots", "2", "--", "true"]).status().unwrap().success());
        other.signal("TERM");
        assert_eq!(other.code(), Some(143));
    });
}

#[test]
fn a_nested_run_of_the_same_name_enters_the_lock_again() {
    Setup::on_both(|setup| {
        let inner = r#"echo "$QUORLOCK_FENCE"; "$Q" run a -- sh -c 'echo "$QUORLOCK_FENCE"'; "$Q" run b -- "$Q" run a --shared -- echo deep"#;
        let after = r#"; env -u QUORLOCK_OUTER "$Q" run a -- echo never; echo $?"#;
        let mut run = setup.run(&["a", "--", "sh", "-c", &format!("{inner}{after}")]);
        let output = run.env("Q", QUORLOCK).output().unwrap();
        let text = stdout(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], lines[1], "the nested run has another fence: {}", stderr(&output));
        assert_eq!(
            lines[2..],
            ["deep", "75"],
            "a nested run has released the lock of its outer run: {}",
            stderr(&output)
        );
        assert!(setup.is_free("a") && setup.is_free("b"));
    });
}

#[test]
fn a_nested_run_may_list_the_same_nodes_in_another_order() {
    let setup = Setup::servers();
    let other: Vec<String> = setup.servers.iter().rev().map(|server| format!("redis://{}/0", server.addr())).collect();
    let inner = [QUORLOCK, "--nodes", &other.join(","), "run", "a", "--", "echo", "in"];
    let output = setup.run(&[&["a", "--"], &inner[..]].concat()).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

#[test]
fn a_nested_run_on_other_nodes_is_independent() {
    let setup = Setup::file();
    let other = format!("sqlite:{}", setup.user.home.path().join("other.db").display());
    let run = ["a", "--", QUORLOCK, "--nodes", &other, "run", "a", "--slots", "2", "--", "echo", "in"];
    let output = setup.run(&run).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

/// Returns the environment of a run's command after the run has ended, for a process that outlives the run.
fn environment_after_run(setup: &Setup, flags: &[&str]) -> Vec<(String, String)> {
    let output = setup.run(&[&["a"], flags, &["--", "env"]].concat()).output().unwrap();
    let text = stdout(&output);
    let ours = text.lines().filter(|line| line.starts_with("QUORLOCK_")).filter_map(|line| line.split_once('='));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_process_that_outlives_its_run_cannot_enter_the_lock_again() {
    Setup::on_both(|setup| {
        let variables = environment_after_run(setup, &[]);
        let mut run = setup.run(&["a", "--", "sh", "-c", "echo begun; exec sleep 1000"]);
        let holder = Running::start(run.envs(variables.clone()));
        let output = setup.run(&["a", "--", "echo", "never"]).envs(variables).output().unwrap();
        assert_fails(&output, 75, "a is held");
        holder.signal("TERM");
        assert_eq!(holder.code(), Some(143));
        // The mode in which the ended run held the lock must not matter.
        let output =
            setup.run(&["a", "--", "echo", "in"]).envs(environment_after_run(setup, &["--shared"])).output().unwrap();
        assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
    });
}

#[test]
fn processes_that_outlive_their_run_exclude_each_other_after_an_outage() {
    let setup = Setup::servers();
    let variables = environment_after_run(&setup, &[]);
    let exclusion = setup.user.home.path().join("exclusion");
    for server in &setup.servers[..2] {
        server.freeze();
    }
    let script = r#"mkdir "$EXCLUSION" || echo two holders; read _; rmdir "$EXCLUSION"; echo done"#;
    let start = || {
        let mut run = setup.run(&["a", "--wait", "5m", "--", "sh", "-c", script]);
        let mut child = run.envs(variables.clone()).env("EXCLUSION", &exclusion).stdin(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty(), "the run did not print that it waits for the nodes");
        child
    };
    let mut runs = [start(), start()];
    for server in &setup.servers[..2] {
        server.thaw();
    }
    eventually("one run holds the lock, and the other run waits", || {
        let status = setup.quorlock(&["status", "a", "--json"]).output().unwrap();
        let lock: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        exclusion.exists() && lock["waiting"] == 1
    });
    for run in &mut runs {
        run.stdin = None;
    }
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    }
}

#[test]
fn concurrent_nested_runs_exclude_each_other() {
    let setup = Setup::file();
    let script = r#"
        mkfifo "$FOLDER/in" "$FOLDER/out"
        "$Q" run b -- sh -c 'echo in > "$FOLDER/in"; read _ < "$FOLDER/out"' &
        read _ < "$FOLDER/in"
        "$Q" run b -- echo never
        echo $?
        echo > "$FOLDER/out"
        wait"#;
    let mut run = setup.run(&["a", "--", "sh", "-c", script]);
    let output = run.env("Q", QUORLOCK).env("FOLDER", setup.user.home.path()).output().unwrap();
    assert_eq!(stdout(&output), "75\n", "{}", stderr(&output));
}

#[test]
fn the_environment_has_the_owner_and_the_slot() {
    let setup = Setup::file();
    for (flags, expected) in
        [(&[][..], "owner  exclusive"), (&["--shared"], "owner  shared"), (&["--slots", "1"], " 0 slots")]
    {
        let script = r#"echo "${QUORLOCK_OWNER+owner} ${QUORLOCK_SLOT-} $QUORLOCK_KIND""#;
        let run = [&["a"], flags, &["--", "sh", "-c", script]].concat();
        assert_eq!(stdout(&setup.run(&run).output().unwrap()).trim_end(), expected);
    }
    // Nested runs have the same owner.
    let same = r#"mine=$QUORLOCK_OWNER "$Q" run a --shared -- sh -c '[ "$mine" = "$QUORLOCK_OWNER" ]'"#;
    let mut run = setup.run(&["a", "--shared", "--", "sh", "-c", same]);
    let output = run.env("Q", QUORLOCK).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_nested_run_that_would_deadlock_is_refused() {
    let setup = Setup::file();
    for (outer, inner, message) in [
        (&["--shared"][..], &[][..], "holds a shared lock on a: a nested run that asks for an exclusive lock"),
        (&["--shared"], &["--slots", "2"], "that asks for a slot"),
        (&[], &["--slots", "2"], "an outer run holds an exclusive lock on a"),
    ] {
        let run = [&["a"], outer, &["--", QUORLOCK, "run", "a", "--wait", "5m"], inner, &["--", "true"]].concat();
        assert_fails(&setup.run(&run).output().unwrap(), 64, message);
    }
    // The nested run must not wait for the slot that its outer run holds.
    let run = ["a", "--slots", "1", "--", QUORLOCK, "run", "a", "--slots", "1", "--wait", "5m", "--", "true"];
    assert_fails(&setup.run(&run).output().unwrap(), 75, "a is held");
    let run = ["a", "--shared", "--", QUORLOCK, "run", "a", "--shared", "--wait", "5m", "--", "true"];
    assert!(setup.run(&run).status().unwrap().success());
}
