//! `quorlock doctor`: finds problems with the nodes, and says how to fix them.

use std::time::Duration;

use quorlock::{Examination, Finding, NodeState, Severity, Topic};
use serde_json::{Value, json};

use super::nodes::{examination_json, state_color};
use crate::context::Context;
use crate::exit::{Exit, Outcome, counted};
use crate::output::{Output, Paint};

/// How long the nodes' clocks are observed.
const CLOCK_OBSERVATION: Duration = Duration::from_secs(1);

pub(crate) async fn doctor(context: &Context) -> Outcome {
    let examination = context.builder_without_lock()?.examine(CLOCK_OBSERVATION).await;
    let output = context.output;
    if output.json {
        output.json(&report(&examination))?;
    } else {
        for node in &examination.nodes {
            let state = output.paint(state_color(&node.state), &node.state);
            let heading = format!("{}  {state}", output.paint(Paint::BOLD, &node.title));
            print_findings(output, &heading, &node.findings)?;
        }
        print_findings(output, &output.paint(Paint::BOLD, "all nodes"), &examination.findings)?;
        if !output.quiet {
            let count =
                |severity, what| match examination.all().filter(|(_, finding)| finding.severity == severity).count() {
                    0 => format!("no {what}s"),
                    count => counted(count, what),
                };
            let (errors, warnings) = (count(Severity::Error, "error"), count(Severity::Warning, "warning"));
            output.line(format_args!("\n{errors}, {warnings}"))?;
        }
    }
    Ok(exit_code(&examination))
}

/// Prints the findings below their heading. If the output is quiet, prints only errors and warnings, and nothing if
/// there are none.
fn print_findings(output: Output, heading: &str, findings: &[Finding]) -> Outcome<()> {
    let is_printed = |finding: &&Finding| !output.quiet || finding.severity >= Severity::Warning;
    if !output.quiet || findings.iter().any(|finding| is_printed(&finding)) {
        output.line(heading)?;
    }
    for finding in findings.iter().filter(is_printed) {
        let color = match finding.severity {
            Severity::Ok => Paint::GOOD,
            Severity::Note => Paint::DIM,
            Severity::Warning => Paint::WARN,
            _ => Paint::BAD,
        };
        output.line(format!("  {}  {}", output.paint(color, format!("{:7}", finding.severity)), finding.text))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("           {} {advice}", output.paint(Paint::DIM, "->")))?;
        }
    }
    Ok(())
}

/// Returns the output of `--json`: the nodes as `quorlock nodes` prints them, and the findings.
fn report(examination: &Examination) -> Value {
    let mut report = examination_json(examination);
    for (index, node) in examination.nodes.iter().enumerate() {
        report["nodes"][index]["clock_rate_ppm"] = json!(node.rate_ppm);
        report["nodes"][index]["findings"] = json!(node.findings);
    }
    report["worst"] = json!(examination.worst());
    report["findings"] = json!(examination.findings);
    report
}

/// Returns the exit code of the most important error. Denied access comes first, because it hides all other errors;
/// then too few nodes that answer; then a wrong configuration.
fn exit_code(examination: &Examination) -> Exit {
    if examination.worst() < Severity::Error {
        return Exit::OK;
    }
    let has_error_about = |is_topic: fn(Topic) -> bool| {
        examination.all().any(|(_, finding)| finding.severity == Severity::Error && is_topic(finding.topic))
    };
    let answering = examination.nodes.iter().filter(|node| !matches!(node.state, NodeState::Unreachable(_))).count();
    let has_majority = answering >= examination.majority;
    if has_error_about(|topic| topic == Topic::Access) {
        Exit::DENIED
    } else if has_majority && has_error_about(|topic| !matches!(topic, Topic::Reach | Topic::Quorum)) {
        Exit::CONFIG
    } else {
        Exit::NO_QUORUM
    }
}
