//! `quorlock doctor`: finds problems with the nodes, and says how to fix them.

use std::time::Duration;

use quorlock::{Examination, Finding, NodeState, Severity, Topic};
use serde_json::{Value, json};

use super::nodes::{json_of, paint};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Paint};

/// How long the nodes' clocks are observed.
const OBSERVE: Duration = Duration::from_secs(1);

pub(crate) async fn doctor(context: &Context) -> crate::Outcome {
    let found = context.operator()?.examine(OBSERVE).await;
    let output = context.output;
    if output.json {
        output.json(&report(&found))?;
    } else {
        for node in &found.nodes {
            let state = output.paint(paint(&node.state), &node.state);
            output.line(format!("{}  {state}", output.paint(Paint::Bold, &node.title)))?;
            print(output, &node.findings)?;
        }
        output.line(output.paint(Paint::Bold, "all nodes"))?;
        print(output, &found.findings)?;
        let count = |severity| found.all().filter(|(_, finding)| finding.severity == severity).count();
        let count_of = |count: usize, what: &str| match count {
            0 => format!("no {what}s"),
            1 => format!("1 {what}"),
            many => format!("{many} {what}s"),
        };
        let (errors, warnings) = (count(Severity::Wrong), count(Severity::Warning));
        output.line(format_args!("\n{}, {}", count_of(errors, "error"), count_of(warnings, "warning")))?;
    }
    Ok(exit(&found))
}

fn print(output: Output, findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings.iter().filter(|finding| !output.quiet || finding.severity >= Severity::Warning) {
        let paint = match finding.severity {
            Severity::Ok => Paint::Good,
            Severity::Note => Paint::Dim,
            Severity::Warning => Paint::Warn,
            _ => Paint::Bad,
        };
        output.line(format!("  {}  {}", output.paint(paint, format!("{:7}", finding.severity)), finding.text))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("           {} {advice}", output.paint(Paint::Dim, "->")))?;
        }
    }
    Ok(())
}

/// Returns the output of `--json`: the nodes as `quorlock nodes` prints them, and the findings.
fn report(found: &Examination) -> Value {
    let findings = |findings: &[Finding]| -> Vec<Value> {
        let one = |finding: &Finding| {
            json!({
                "severity": finding.severity.to_string(),
                "topic": finding.topic.to_string(),
                "text": finding.text,
                "advice": finding.advice,
            })
        };
        findings.iter().map(one).collect()
    };
    let mut report = json_of(found);
    for (at, node) in found.nodes.iter().enumerate() {
        report["nodes"][at]["clock_rate_ppm"] = json!(node.rate_ppm);
        report["nodes"][at]["findings"] = json!(findings(&node.findings));
    }
    report["worst"] = json!(found.worst().to_string());
    report["findings"] = json!(findings(&found.findings));
    report
}

/// Returns the exit code: access first, because without it nothing else is known; then whether enough nodes answer; then
/// the configuration.
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
    } else if answering < found.majority {
        Exit::NO_QUORUM
    } else if is_wrong(|topic| !matches!(topic, Topic::Reach | Topic::Quorum)) {
        Exit::CONFIG
    } else {
        Exit::NO_QUORUM
    }
}
