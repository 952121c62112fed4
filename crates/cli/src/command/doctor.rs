//! `quorlock doctor`: what is wrong with the nodes, and what to do about it.

use std::time::Duration;

use clap::Args;
use quorlock::{Examination, ExaminedNode, Finding, NodeState, Severity, Topic};
use serde::Serialize;

use super::nodes::{ListedNode, paint};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, Paint};

/// For how long the nodes' clocks are watched.
const WATCH: Duration = Duration::from_secs(1);

/// Find what is wrong with the nodes, and say what to do about it.
///
/// Looks at every node and changes nothing: whether it answers and how fast, what it lets us do, whether it is independent of
/// the others, what it keeps over a restart, whether it may vote, its clock, and the constants of its cluster.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 nothing is wrong, though there may be warnings
  69 too few nodes answer or can vote   77 access denied   78 something is set up wrongly

Example:
  quorlock doctor --nodes redis://a,redis://b,redis://c")]
pub(crate) struct DoctorArgs {}

#[derive(Serialize)]
struct Report {
    worst: &'static str,
    majority: usize,
    voting: usize,
    nodes: Vec<NodeReport>,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct NodeReport {
    #[serde(flatten)]
    node: ListedNode,
    clock_rate_ppm: Option<i64>,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct Found {
    severity: &'static str,
    topic: &'static str,
    text: String,
    advice: Option<String>,
}

impl Found {
    fn all(findings: &[Finding]) -> Vec<Self> {
        let found = |finding: &Finding| Self {
            severity: finding.severity.as_str(),
            topic: finding.topic.as_str(),
            text: finding.text.clone(),
            advice: finding.advice.clone(),
        };
        findings.iter().map(found).collect()
    }
}

/// Looks, and tells.
pub(crate) async fn doctor(context: &Context) -> crate::Outcome {
    let found = context.operator()?.examine(WATCH).await;
    let output = context.output;
    if output.json {
        output.json(&report(&found))?;
    } else {
        for node in &found.nodes {
            let state = output.paint(paint(&node.state), &node.state);
            output.line(format!("{}  {state}", output.paint(Paint::Bold, &node.title)))?;
            tell(output, &node.findings)?;
        }
        output.line(output.paint(Paint::Bold, "all nodes"))?;
        tell(output, &found.findings)?;
        output.line(summary(&found))?;
    }
    Ok(exit(&found))
}

fn tell(output: Output, findings: &[Finding]) -> Result<(), crate::exit::Failure> {
    for finding in findings {
        if output.quiet && finding.severity < Severity::Warning {
            continue;
        }
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

fn summary(found: &Examination) -> String {
    let count = |severity| found.all().filter(|(_, finding)| finding.severity == severity).count();
    match (count(Severity::Wrong), count(Severity::Warning)) {
        (0, 0) => "\nnothing is wrong".into(),
        (0, warnings) => format!("\nnothing is wrong, {warnings} to look at"),
        (wrong, warnings) => format!("\n{wrong} wrong, {warnings} to look at"),
    }
}

fn report(found: &Examination) -> Report {
    let node = |node: &ExaminedNode| NodeReport {
        node: ListedNode::new(node),
        clock_rate_ppm: node.rate.map(|rate| rate.ppm),
        findings: Found::all(&node.findings),
    };
    Report {
        worst: found.worst().as_str(),
        majority: found.majority,
        voting: found.voting(),
        nodes: found.nodes.iter().map(node).collect(),
        findings: Found::all(&found.findings),
    }
}

/// Access first, since nothing else can be told without; then whether enough of them answer; then what is set up wrongly.
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
