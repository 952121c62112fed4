use std::time::Duration;

use super::*;
use crate::cron::case::CASES;
use crate::host_runs::RunResult;
use crate::judge::Findings;

fn run_result(exit_code: i32, stderr: &str) -> RunResult {
    RunResult { client: 0, host: 0, exit_code: Some(exit_code), stderr: stderr.into() }
}

fn case(title: &str) -> &'static Case {
    CASES.iter().find(|case| case.title == title).expect("there is such a case")
}

fn environment() -> Environment {
    Environment { date: "2026-11-18".into(), commit: "abc".into(), server: "Redis".into(), system: "Linux".into() }
}

#[test]
fn a_case_passes_only_if_all_of_its_claims_are_true() {
    let run_results = vec![run_result(0, ""), run_result(0, "")];
    let good = Outcome { run_results, reports_after: 1, ..Outcome::default() };
    let result = |outcome| CaseResult { case: case("backup of two nodes"), outcome };
    assert!(result(good.clone()).has_passed());
    let overlap = Findings { overlaps: 1, ..Findings::default() };
    let loss = Findings { exit_codes: [(79, 1)].into(), ..Findings::default() };
    let failed_runs = vec![run_result(79, "quorlock: lost")];
    for bad in [
        Outcome { findings: overlap, ..good.clone() },
        Outcome { findings: loss, ..good.clone() },
        Outcome { run_results: failed_runs, ..good.clone() },
        Outcome { reports_after: 0, ..good },
    ] {
        assert!(!result(bad.clone()).has_passed(), "{bad:?}");
    }
}

#[test]
fn a_case_with_an_outage_fails_if_a_message_recommends_nodes_init() {
    let outcome = |stderr| Outcome { run_results: vec![run_result(69, stderr)], ..Outcome::default() };
    let result = |stderr| CaseResult { case: case("two of three nodes are unreachable"), outcome: outcome(stderr) };
    assert!(result("quorlock: 2 of 3 nodes are unreachable").has_passed());
    assert!(!result("quorlock: no quorum; try quorlock nodes init").has_passed());
}

#[test]
fn a_case_with_empty_settings_fails_if_a_report_runs() {
    let result = |exit_code, reports_after| CaseResult {
        case: case("empty settings"),
        outcome: Outcome { run_results: vec![run_result(exit_code, "")], reports_after, ..Outcome::default() },
    };
    assert!(result(78, 0).has_passed());
    assert!(!result(0, 1).has_passed());
}

#[test]
fn the_page_shows_each_case_with_its_claims_and_messages() {
    let run_results = vec![run_result(0, "skipped"), run_result(69, "quorlock: no quorum\n")];
    let time_to_next_report = Some(Duration::from_millis(1_250));
    let outcome = Outcome {
        cron_ticks: 3,
        run_results,
        reports_before: 1,
        reports_after: 2,
        time_to_next_report,
        findings: Findings::default(),
    };
    let text = page(&environment(), &[CaseResult { case: case("backup of two nodes"), outcome }]);
    for part in [
        "| backup of two nodes | **failed**: every run exits with 0 |",
        "## Backup of two nodes",
        "- no two reports run at a time: true",
        "- every run exits with 0: **false**",
        "started the line 3 times on each host: 1 run exited with 0, 1 run exited with 69.",
        "Reports that began: 1 before the operation, 2 after it.",
        "began 1.2 s after",
        "```\nquorlock: no quorum\n```",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("skipped"));
}
