use std::time::Duration;

use super::*;
use crate::cron::case::CASES;
use crate::host_runs::RunResult;
use crate::judge::Findings;

fn end(code: i32, messages: &str) -> RunResult {
    RunResult { client: 0, host: 0, code: Some(code), messages: messages.into() }
}

fn case(title: &str) -> &'static Case {
    CASES.iter().find(|case| case.title == title).expect("there is such a case")
}

fn environment() -> Environment {
    Environment { date: "2026-11-18".into(), commit: "abc".into(), server: "Redis".into(), system: "Linux".into() }
}

#[test]
fn a_case_passes_only_if_all_of_its_claims_are_true() {
    let results_of_runs = vec![end(0, ""), end(0, "")];
    let good = Outcome { results_of_runs, after: 1, ..Outcome::default() };
    let result = |outcome| CaseResult { case: case("backup of two nodes"), outcome };
    assert!(result(good.clone()).has_passed());
    let overlap = Findings { overlaps: 1, ..Findings::default() };
    let lost = Findings { runs: [(79, 1)].into(), ..Findings::default() };
    let killed = vec![end(79, "quorlock: lost")];
    for bad in [
        Outcome { findings: overlap, ..good.clone() },
        Outcome { findings: lost, ..good.clone() },
        Outcome { results_of_runs: killed, ..good.clone() },
        Outcome { after: 0, ..good },
    ] {
        assert!(!result(bad.clone()).has_passed(), "{bad:?}");
    }
}

#[test]
fn an_outage_must_not_be_answered_with_advice_to_discard_leases() {
    let outcome = |text| Outcome { results_of_runs: vec![end(69, text)], ..Outcome::default() };
    let result = |text| CaseResult { case: case("two of three nodes are unreachable"), outcome: outcome(text) };
    assert!(result("quorlock: 2 of 3 nodes are unreachable").has_passed());
    assert!(!result("quorlock: no quorum; try quorlock nodes init").has_passed());
}

#[test]
fn a_job_without_nodes_must_not_run() {
    let result = |code, after| CaseResult {
        case: case("empty settings"),
        outcome: Outcome { results_of_runs: vec![end(code, "")], after, ..Outcome::default() },
    };
    assert!(result(78, 0).has_passed());
    assert!(!result(0, 1).has_passed());
}

#[test]
fn the_page_shows_each_case_with_its_claims_and_messages() {
    let results_of_runs = vec![end(0, "skipped"), end(69, "quorlock: no quorum\n")];
    let takeover = Some(Duration::from_millis(1_250));
    let outcome =
        Outcome { cron_ticks: 3, results_of_runs, before: 1, after: 2, takeover, findings: Findings::default() };
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
