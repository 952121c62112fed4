//! Shared locks, slots, and nested runs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use quorlock_testkit::eventually;

use super::{Place, Running};
use crate::common::{assert_fails, stderr, stdout};

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");

#[test]
fn shares_are_compatible_and_exclude_exclusive_runs() {
    Place::on_both(|place| {
        let (one, other) = (place.hold(&["a", "--shared"]), place.hold(&["a", "--shared"]));
        assert!(!place.is_free("a"));
        assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
        let alone = place.hold(&["a"]);
        assert_fails(&place.run(&["a", "--shared", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_eq!(alone.end(), Some(0));
    });
}

#[test]
fn as_many_commands_run_as_there_are_slots() {
    Place::on_both(|place| {
        let slot = |name: &str| place.script(&[name, "--slots", "2"], "echo $QUORLOCK_SLOT; exec sleep 1000");
        let (one, other) = (slot("a"), slot("a"));
        let mut slots = [one.first.clone(), other.first.clone()];
        slots.sort();
        assert_eq!(slots, ["0", "1"]);
        assert_fails(&place.run(&["a", "--slots", "2", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_fails(&place.run(&["a", "--slots", "3", "--", "true"]).output().unwrap(), 64, "2 permits, not 3");
        one.signal("TERM");
        assert_eq!(one.code(), Some(143));
        assert!(place.run(&["a", "--slots", "2", "--", "true"]).status().unwrap().success());
        other.signal("TERM");
        assert_eq!(other.code(), Some(143));
    });
}

#[test]
fn a_nested_run_of_the_same_name_reenters() {
    Place::on_both(|place| {
        let inner = r#"echo "$QUORLOCK_FENCE"; "$Q" run a -- sh -c 'echo "$QUORLOCK_FENCE"'; "$Q" run b -- "$Q" run a --shared -- echo deep"#;
        let after = r#"; env -u QUORLOCK_OUTER "$Q" run a -- echo never; echo $?"#;
        let mut run = place.run(&["a", "--", "sh", "-c", &format!("{inner}{after}")]);
        let output = run.env("Q", QUORLOCK).output().unwrap();
        let text = stdout(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], lines[1], "one fence for all entries: {}", stderr(&output));
        assert_eq!(lines[2..], ["deep", "75"], "what the inner runs gave back was theirs: {}", stderr(&output));
        assert!(place.is_free("a") && place.is_free("b"));
    });
}

#[test]
fn a_nested_run_may_spell_its_nodes_differently() {
    let place = Place::servers();
    let other: Vec<String> = place.servers.iter().rev().map(|server| format!("redis://{}/0", server.addr())).collect();
    let inner = [QUORLOCK, "--nodes", &other.join(","), "run", "a", "--", "echo", "in"];
    let output = place.run(&[&["a", "--"], &inner[..]].concat()).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

#[test]
fn a_nested_run_on_other_nodes_is_independent() {
    let place = Place::file();
    let other = format!("sqlite:{}", place.user.home.path().join("other.db").display());
    let run = ["a", "--", QUORLOCK, "--nodes", &other, "run", "a", "--slots", "2", "--", "echo", "in"];
    let output = place.run(&run).output().unwrap();
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

/// The environment of a run's command, for a process that outlives both.
fn left_over(place: &Place, flags: &[&str]) -> Vec<(String, String)> {
    let output = place.run(&[&["a"], flags, &["--", "env"]].concat()).output().unwrap();
    let text = stdout(&output);
    let ours = text.lines().filter(|line| line.starts_with("QUORLOCK_")).filter_map(|line| line.split_once('='));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_process_that_outlives_its_run_cannot_reenter() {
    Place::on_both(|place| {
        let variables = left_over(place, &[]);
        let mut run = place.run(&["a", "--", "sh", "-c", "echo begun; exec sleep 1000"]);
        let holder = Running::start(run.envs(variables.clone()));
        let output = place.run(&["a", "--", "echo", "never"]).envs(variables).output().unwrap();
        assert_fails(&output, 75, "a is held");
        holder.signal("TERM");
        assert_eq!(holder.code(), Some(143));
        // It must not be refused because of how that run held the lock.
        let output = place.run(&["a", "--", "echo", "in"]).envs(left_over(place, &["--shared"])).output().unwrap();
        assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
    });
}

#[test]
fn a_process_that_outlives_its_run_cannot_reenter_after_an_outage() {
    let place = Place::servers();
    let variables = left_over(&place, &[]);
    let alone = place.user.home.path().join("alone");
    for server in &place.servers[..2] {
        server.freeze();
    }
    let script = r#"mkdir "$ALONE" || echo two holders; read _; rmdir "$ALONE"; echo done"#;
    let start = || {
        let mut run = place.run(&["a", "--wait", "5m", "--", "sh", "-c", script]);
        let mut child = run.envs(variables.clone()).env("ALONE", &alone).stdin(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty(), "it waits for the nodes");
        child
    };
    let mut runs = [start(), start()];
    for server in &place.servers[..2] {
        server.thaw();
    }
    eventually("one of them holds the lock, and the other waits for it", || {
        let status = place.quorlock(&["status", "a", "--json"]).output().unwrap();
        let look: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        alone.exists() && look["waiting"] == 1
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
    let place = Place::file();
    let script = r#"
        mkfifo "$FOLDER/in" "$FOLDER/out"
        "$Q" run b -- sh -c 'echo in > "$FOLDER/in"; read _ < "$FOLDER/out"' &
        read _ < "$FOLDER/in"
        "$Q" run b -- echo never
        echo $?
        echo > "$FOLDER/out"
        wait"#;
    let mut run = place.run(&["a", "--", "sh", "-c", script]);
    let output = run.env("Q", QUORLOCK).env("FOLDER", place.user.home.path()).output().unwrap();
    assert_eq!(stdout(&output), "75\n", "{}", stderr(&output));
}

#[test]
fn the_environment_has_the_owner_and_the_slot() {
    let place = Place::file();
    for (flags, expected) in
        [(&[][..], "owner  exclusive"), (&["--shared"], "owner  shared"), (&["--slots", "1"], " 0 slots")]
    {
        let script = r#"echo "${QUORLOCK_OWNER+owner} ${QUORLOCK_SLOT-} $QUORLOCK_KIND""#;
        let run = [&["a"], flags, &["--", "sh", "-c", script]].concat();
        assert_eq!(stdout(&place.run(&run).output().unwrap()).trim_end(), expected);
    }
    // Nested runs have the same owner.
    let same = r#"mine=$QUORLOCK_OWNER "$Q" run a --shared -- sh -c '[ "$mine" = "$QUORLOCK_OWNER" ]'"#;
    let mut run = place.run(&["a", "--shared", "--", "sh", "-c", same]);
    let output = run.env("Q", QUORLOCK).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_nested_run_that_would_deadlock_is_refused() {
    let place = Place::file();
    for (outer, inner, says) in [
        (&["--shared"][..], &[][..], "with --shared: asked for alone"),
        (&["--shared"], &["--slots", "2"], "asked for with --slots"),
        (&[], &["--slots", "2"], "held by the run around this one, alone"),
    ] {
        let run = [&["a"], outer, &["--", QUORLOCK, "run", "a", "--wait", "5m"], inner, &["--", "true"]].concat();
        assert_fails(&place.run(&run).output().unwrap(), 64, says);
    }
    // It must not wait for a lock that the outer run holds.
    let run = ["a", "--slots", "1", "--", QUORLOCK, "run", "a", "--slots", "1", "--wait", "5m", "--", "true"];
    assert_fails(&place.run(&run).output().unwrap(), 75, "a is held");
    let run = ["a", "--shared", "--", QUORLOCK, "run", "a", "--shared", "--wait", "5m", "--", "true"];
    assert!(place.run(&run).status().unwrap().success());
}
