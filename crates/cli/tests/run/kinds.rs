//! Shared, in slots, and again within itself.

use crate::Place;
use crate::common::{assert_fails, stderr, stdout};

const QUORLOCK: &str = env!("CARGO_BIN_EXE_quorlock");

#[test]
fn shares_go_together_and_exclude_whoever_wants_it_alone() {
    Place::both(|place| {
        let (one, other) = (place.hold(&["a", "--shared"]), place.hold(&["a", "--shared"]));
        assert!(!place.is_free("a"));
        assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
        let alone = place.hold(&["a"]);
        assert_fails(&place.run(&["a", "--shared", "--", "true"]).output().unwrap(), 75, "a is held");
        assert_eq!(alone.end(), Some(0));
    });
}

#[test]
fn so_many_run_as_there_are_slots() {
    Place::both(|place| {
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
fn a_run_within_a_run_of_the_same_name_enters_again() {
    Place::both(|place| {
        let inner = r#"echo "$QUORLOCK_FENCE"; "$Q" run a -- sh -c 'echo "$QUORLOCK_FENCE"'; "$Q" run b -- "$Q" run a --shared -- echo deep"#;
        let after = r#"; env -u QUORLOCK_OWNER -u QUORLOCK_NAME "$Q" run a -- echo never; echo $?"#;
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
fn runs_side_by_side_within_a_run_exclude_each_other() {
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
fn a_command_is_told_its_owner_and_one_with_a_slot_its_slot() {
    let place = Place::file();
    for (flags, expected) in
        [(&[][..], "owner  exclusive"), (&["--shared"], "owner  shared"), (&["--slots", "1"], " 0 slots")]
    {
        let script = r#"echo "${QUORLOCK_OWNER+owner} ${QUORLOCK_SLOT-} $QUORLOCK_KIND""#;
        let run = [&["a"], flags, &["--", "sh", "-c", script]].concat();
        assert_eq!(stdout(&place.run(&run).output().unwrap()).trim_end(), expected);
    }
    // Runs within it are the same party.
    let same = r#"mine=$QUORLOCK_OWNER "$Q" run a --shared -- sh -c '[ "$mine" = "$QUORLOCK_OWNER" ]'"#;
    let mut run = place.run(&["a", "--shared", "--", "sh", "-c", same]);
    let output = run.env("Q", QUORLOCK).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_run_that_would_wait_for_itself_is_refused() {
    let place = Place::file();
    for (outer, inner, says) in [
        (&["--shared"][..], &[][..], "with --shared: asked for alone"),
        (&["--shared"], &["--slots", "2"], "asked for with --slots"),
        (&[], &["--slots", "2"], "held by the run around this one, alone"),
    ] {
        let run = [&["a"], outer, &["--", QUORLOCK, "run", "a", "--wait", "5m"], inner, &["--", "true"]].concat();
        assert_fails(&place.run(&run).output().unwrap(), 64, says);
    }
    // It never waits for what the run around it may keep from becoming free.
    let run = ["a", "--slots", "1", "--", QUORLOCK, "run", "a", "--slots", "1", "--wait", "5m", "--", "true"];
    assert_fails(&place.run(&run).output().unwrap(), 75, "a is held");
    let run = ["a", "--shared", "--", QUORLOCK, "run", "a", "--shared", "--wait", "5m", "--", "true"];
    assert!(place.run(&run).status().unwrap().success());
}
