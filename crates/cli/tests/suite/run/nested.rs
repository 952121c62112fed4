//! Nested runs: the command of an outer run starts another run. Also tests runs with shared locks and slots.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use quorlock_testkit::eventually;

use super::{Setup, StartedRun};
use crate::common::{assert_fails, stderr, stdout};

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");

#[test]
fn shared_runs_are_compatible_and_exclude_exclusive_runs() {
    Setup::on_file_and_servers(|setup| {
        let (first_holder, second_holder) = (setup.hold(&["a", "--shared"]), setup.hold(&["a", "--shared"]));
        assert!(!setup.is_free("a"));
        assert_eq!((first_holder.end(), second_holder.end()), (Some(0), Some(0)));
        let exclusive_holder = setup.hold(&["a"]);
        assert_fails(&setup.run(&["a", "--shared", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_eq!(exclusive_holder.end(), Some(0));
    });
}

#[test]
fn at_most_as_many_commands_run_as_there_are_slots() {
    Setup::on_file_and_servers(|setup| {
        let start = |name: &str| setup.start_script(&[name, "--slots", "2"], "echo $QUORLOCK_SLOT; exec sleep 1000");
        let (first_run, second_run) = (start("a"), start("a"));
        let mut slots = [first_run.first_line.clone(), second_run.first_line.clone()];
        slots.sort();
        assert_eq!(slots, ["0", "1"]);
        assert_fails(&setup.run(&["a", "--slots", "2", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_fails(&setup.run(&["a", "--slots", "3", "--", "true"]).output().unwrap(), 64, "2 permits, not 3");
        first_run.signal("TERM");
        assert_eq!(first_run.exit_code(), Some(143));
        assert!(setup.run(&["a", "--slots", "2", "--", "true"]).status().unwrap().success());
        second_run.signal("TERM");
        assert_eq!(second_run.exit_code(), Some(143));
    });
}

#[test]
fn a_nested_run_of_the_same_name_enters_the_lock_again() {
    Setup::on_file_and_servers(|setup| {
        let nested_runs = r#"echo "$QUORLOCK_FENCE"; "$Q" run a -- sh -c 'echo "$QUORLOCK_FENCE"'; "$Q" run b -- "$Q" run a --shared -- echo deep"#;
        let run_without_owner = r#"; env -u QUORLOCK_OUTER "$Q" run a -- echo never; echo $?"#;
        let mut run = setup.run(&["a", "--", "sh", "-c", &format!("{nested_runs}{run_without_owner}")]);
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
    let setup = Setup::with_three_servers();
    let reversed_nodes: Vec<String> =
        setup.servers.iter().rev().map(|server| format!("redis://{}/0", server.addr())).collect();
    let nested_run = [QUORLOCK, "--nodes", &reversed_nodes.join(","), "run", "a", "--", "echo", "in"];
    let output = setup.run(&[&["a", "--"], &nested_run[..]].concat()).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

#[test]
fn a_nested_run_on_other_nodes_is_independent() {
    let setup = Setup::with_file();
    let other_nodes = format!("sqlite:{}", setup.user.home.path().join("other.db").display());
    let run = ["a", "--", QUORLOCK, "--nodes", &other_nodes, "run", "a", "--slots", "2", "--", "echo", "in"];
    let output = setup.run(&run).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

/// Returns the variables that the command of a run got. The run has ended, so a process with these variables is like
/// one that outlives the run.
fn environment_of_ended_run(setup: &Setup, flags: &[&str]) -> Vec<(String, String)> {
    let output = setup.run(&[&["a"], flags, &["--", "env"]].concat()).output().unwrap();
    let text = stdout(&output);
    let variables = text.lines().filter(|line| line.starts_with("QUORLOCK_")).filter_map(|line| line.split_once('='));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_process_that_outlives_its_run_cannot_enter_the_lock_again() {
    Setup::on_file_and_servers(|setup| {
        let variables = environment_of_ended_run(setup, &[]);
        let mut run = setup.run(&["a", "--", "sh", "-c", "echo begun; exec sleep 1000"]);
        let holder = StartedRun::start(run.envs(variables.clone()));
        let output = setup.run(&["a", "--", "echo", "never"]).envs(variables).output().unwrap();
        assert_fails(&output, 75, "a is held");
        holder.signal("TERM");
        assert_eq!(holder.exit_code(), Some(143));
        // The ended run held the lock shared. This must not refuse an exclusive lock, as it would in a nested run.
        let output = setup
            .run(&["a", "--", "echo", "in"])
            .envs(environment_of_ended_run(setup, &["--shared"]))
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
    });
}

#[test]
fn processes_that_outlive_their_run_exclude_each_other_after_an_outage() {
    let setup = Setup::with_three_servers();
    let variables = environment_of_ended_run(&setup, &[]);
    let marker_folder = setup.user.home.path().join("held");
    for server in &setup.servers[..2] {
        server.freeze();
    }
    // The holder creates a folder, which no other run can create while it exists.
    let script = r#"mkdir "$MARKER" || echo two holders; read _; rmdir "$MARKER"; echo done"#;
    let start = || {
        let mut run = setup.run(&["a", "--wait", "5m", "--", "sh", "-c", script]);
        let mut child =
            run.envs(variables.clone()).env("MARKER", &marker_folder).stdin(Stdio::piped()).spawn().unwrap();
        let mut first_line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut first_line).unwrap();
        assert!(!first_line.is_empty(), "the run did not print that it waits for the nodes");
        child
    };
    let mut runs = [start(), start()];
    for server in &setup.servers[..2] {
        server.thaw();
    }
    eventually("one run holds the lock, and the other run waits", || {
        let status = setup.quorlock(&["status", "a", "--json"]).output().unwrap();
        let lock: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        marker_folder.exists() && lock["waiting"] == 1
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
    let setup = Setup::with_file();
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
    let setup = Setup::with_file();
    for (flags, expected) in
        [(&[][..], "owner  exclusive"), (&["--shared"], "owner  shared"), (&["--slots", "1"], " 0 slots")]
    {
        let script = r#"echo "${QUORLOCK_OWNER+owner} ${QUORLOCK_SLOT-} $QUORLOCK_KIND""#;
        let run = [&["a"], flags, &["--", "sh", "-c", script]].concat();
        assert_eq!(stdout(&setup.run(&run).output().unwrap()).trim_end(), expected);
    }
    // A nested run has the owner of its outer run.
    let nested_script = r#"mine=$QUORLOCK_OWNER "$Q" run a --shared -- sh -c '[ "$mine" = "$QUORLOCK_OWNER" ]'"#;
    let mut run = setup.run(&["a", "--shared", "--", "sh", "-c", nested_script]);
    let output = run.env("Q", QUORLOCK).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_nested_run_that_would_wait_for_its_outer_run_is_refused() {
    let setup = Setup::with_file();
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
