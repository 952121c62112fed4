//! `quorlock doctor`: finds problems with the nodes, and says how to fix them.

use std::time::Duration;

use quorlock::{Examination, Finding, NodeState, Severity, Topic};
use serde_json::{Value, json};

use super::nodes::{json_of, paint};
use crate::context::Context;
use crate::exit::{Exit, Outcome, counted};
use crate::output::{Output, Paint};

/// How long the nodes' clocks are observed.
const OBSERVE: Duration = Duration::from_secs(1);

pub(crate) async fn doctor(context: &Context) -> Outcome {
    let found = context.operator()?.examine(OBSERVE).await;
    let output = context.output;
    if output.json {
        output.json(&report(&found))?;
    } else {
        for node in &found.nodes {
            let state = output.paint(paint(&node.state), &node.state);
            output.line(format!("{}  {state}", output.paint(Paint::BOLD, &node.title)))?;
            print(output, &node.findings)?;
        }
        output.line(output.paint(Paint::BOLD, "all nodes"))?;
        print(output, &found.findings)?;
        let count = |severity, what| match found.all().filter(|(_, finding)| finding.severity == severity).count() {
            0 => format!("no {what}s"),
            some => counted(some, what),
        };
        output.line(format_args!("\n{}, {}", count(Severity::Wrong, "error"), count(Severity::Warning, "warning")))?;
    }
    Ok(exit(&found))
}

fn print(output: Output, findings: &[Finding]) -> Outcome<()> {
    for finding in findings.iter().filter(|finding| !output.quiet || finding.severity >= Severity::Warning) {
        let paint = match finding.severity {
            Severity::Ok => Paint::GOOD,
            Severity::Note => Paint::DIM,
            Severity::Warning => Paint::WARN,
            _ => Paint::BAD,
        };
        output.line(format!("  {}  {}", output.paint(paint, format!("{:7}", finding.severity)), finding.text))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("           {} {advice}", output.paint(Paint::DIM, "->")))?;
        }
    }
    Ok(())
}

/// Returns the output of `--json`: the nodes as `quorlock nodes` prints them, and the findings.
fn report(found: &Examination) -> Value {
    let mut report = json_of(found);
    for (at, node) in found.nodes.iter().enumerate() {
        report["nodes"][at]["clock_rate_ppm"] = json!(node.rate_ppm);
        report["nodes"][at]["findings"] = json!(node.findings);
    }
    report["worst"] = json!(found.worst());
    report["findings"] = json!(found.findings);
    report
}

/// Returns the exit code of the most important problem. Denied access comes first, because it hides all other problems;
/// then too few nodes that answer; then a wrong configuration.
fn exit(found: &Examination) -> Exit {
    if found.worst() < Severity::Wrong {
        return Exit::OK;
    }
    let is_wrong = |topic: fn(Topic) -> bool| {
        found.all().any(|(_, finding)| finding.severity == Severity::Wrong && topic(finding.topic))
    };
    let answering = found.nodes.iter().filter(|node| !matches!(node.state, NodeState::Unreachable(_))).count();
    if is_wrong(|topic| topic == Topic::Access) {
        Exit::DENIED
    } else if answering >= found.majority && is_wrong(|topic| !matches!(topic, Topic::Reach | Topic::Quorum)) {
        Exit::CONFIG
    } else {
        Exit::NO_QUORUM
    }
}
