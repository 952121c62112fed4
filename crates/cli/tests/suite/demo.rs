//! `quorlock demo`.

use std::process::Output;

use crate::common::pty::Pty;
use crate::common::{User, assert_fails, stdout};
use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    User::new().run(&[&["demo"], arguments].concat())
}

fn demo_on_terminal(arguments: &[&str]) -> Pty {
    Pty::spawn(&User::new().quorlock(&[&["demo"], arguments].concat()))
}

#[test]
fn without_a_terminal_the_demo_prints_lines_and_ends_with_the_verdict() {
    let output = demo(&["--seconds", "5", "--seed", "7"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    for line in ["crashed", "is back, empty: in quarantine", "has deploy with fence", "releases report"] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let last_line = text.lines().last().unwrap();
    assert!(last_line.starts_with("✓ ") && last_line.contains(" 0 overlaps, fences increasing"), "{last_line}");
}

#[test]
fn json_output_is_one_object_and_the_seed_decides_the_plan() {
    let read = |seed: &str| {
        let output = demo(&["--seconds", "3", "--seed", seed, "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let (first_report, second_report, other_report) = (read("7"), read("7"), read("8"));
    assert_eq!(
        (&first_report["v"], &first_report["seed"], &first_report["seconds"]),
        (&1.into(), &7.into(), &3.into())
    );
    assert_eq!((&first_report["nodes"], &first_report["workers"]), (&5.into(), &12.into()));
    assert_eq!((&first_report["overlaps"], &first_report["fences_increasing"]), (&0.into(), &true.into()));
    assert!(first_report["grants"].as_u64() > Some(0), "{first_report}");
    let grants = first_report["names"].as_array().unwrap().iter().map(|name| name["grants"].as_u64().unwrap());
    assert_eq!((grants.len(), grants.sum::<u64>()), (3, first_report["grants"].as_u64().unwrap()));
    assert_eq!(first_report["violations"], Value::Array(vec![]));
    assert_eq!(first_report["plan"][0]["fault"], "crash");
    assert_eq!(first_report["plan"], second_report["plan"]);
    assert_ne!(first_report["plan"], other_report["plan"]);
}

#[test]
fn a_length_of_zero_seconds_is_refused() {
    assert_fails(&demo(&["--seconds", "0"]), 64, "--seconds");
}

#[test]
fn on_a_terminal_the_demo_shows_holders_waiters_a_quarantine_and_the_verdict() {
    let mut pty = demo_on_terminal(&["--seconds", "8", "--seed", "7"]);
    pty.wait_until("a holder and its waiters", |text| {
        let row = text.lines().find(|line| line.starts_with("│ deploy"));
        let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        // The frame, the name, the holder, a fence, the number of leases, the bar, and a waiter.
        matches!(&words[..], [_, _, holder, fence, _, _, waiter, ..]
            if holder.starts_with('w') && fence.parse::<u64>().is_ok() && waiter.starts_with('w'))
    });
    pty.wait_for_text("│ node 1   down");
    pty.wait_for_text("node 1 crashed");
    pty.wait_for_text("│ node 1   quarantine");
    pty.wait_for_text("│ node 3   frozen");
    let text = pty.text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let boxes: Vec<&str> = text.lines().filter(|line| line.starts_with('│')).collect();
    assert!(boxes.len() > 10 && boxes.iter().all(|line| line.ends_with('│')), "{text}");
    assert!(pty.wait().success());
    // After the picture of the cluster, the demo prints its report.
    pty.wait_for_text("LAST FENCE");
    pty.wait_for_text(" 0 overlaps, fences increasing");
    assert!(pty.is_restored(), "{}", pty.text());
}

#[test]
fn q_ends_the_demo_with_the_verdict() {
    let mut pty = demo_on_terminal(&["--seconds", "600"]);
    pty.wait_for_text("queue");
    pty.type_keys(b"xq");
    assert!(pty.wait().success());
    // After the picture of the cluster, the demo prints its report.
    pty.wait_for_text("LAST FENCE");
    pty.wait_for_text(" 0 overlaps, fences increasing");
    assert!(pty.is_restored(), "{}", pty.text());
}

#[test]
fn an_interrupt_restores_the_terminal() {
    let mut pty = demo_on_terminal(&["--seconds", "600"]);
    pty.wait_for_text("queue");
    assert!(!pty.is_restored());
    pty.type_keys(b"\x03");
    assert_eq!(pty.wait().code(), Some(130));
    // After the picture of the cluster, the demo prints its report.
    pty.wait_for_text("LAST FENCE");
    pty.wait_for_text(" 0 overlaps, fences increasing");
    assert!(pty.is_restored(), "{}", pty.text());
}
