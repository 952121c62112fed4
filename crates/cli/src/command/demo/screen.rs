//! The picture: names and their holders, nodes and their votes, the latest events, and the verdict so far.

use quorlock::Silence;

use super::checker::Findings;
use super::plan::Fault;
use super::scene::{NodeRow, Scene, worker_title};
use super::{NAMES, NODES, QUARANTINE, TTL, WORKERS};
use crate::output::{Output, Paint};
use crate::table::{cut_painted, width_painted};

/// A distinct colour for each worker.
const COLORS: [&str; WORKERS] = [
    "38;5;39", "38;5;208", "38;5;77", "38;5;213", "38;5;220", "38;5;51", "38;5;203", "38;5;147", "38;5;118",
    "38;5;180", "38;5;45", "38;5;170",
];
/// The column in which a node's votes begin.
const VOTES_COLUMN: usize = 36;
/// The widths of a name and of a bar, in columns.
const NAME_WIDTH: usize = 13;
const BAR_WIDTH: usize = 8;
/// The largest number of waiters that are shown by their titles.
const WAITERS_MAX: usize = 5;
/// The smallest terminal, in columns and rows.
const SIZE_MIN: (usize, usize) = (60, 20);

/// Returns the rows of one frame. The frame fits on 80 columns and 24 rows, and fills a larger terminal.
pub(super) fn picture(scene: &Scene, output: Output, (width, height): (usize, usize)) -> Vec<String> {
    if width < SIZE_MIN.0 || height < SIZE_MIN.1 {
        return vec!["the picture needs 80 x 24".into()];
    }
    let dim = |text: String| output.paint(Paint::DIM, text);
    let about = dim(format!("   {WORKERS} workers compete for {} names on {NODES} nodes", NAMES.len()));
    let heading = format!("{}{about}", output.paint(Paint::BOLD, " quorlock demo"));
    let left = scene.length.saturating_sub(scene.age()).as_secs_f64();
    let mut rows = vec![spread_row(width, &heading, &dim(format!("seed {}   {left:.0} s left ", scene.seed)))];
    rows.extend(framed(output, width, "names", name_rows(scene, output)));
    rows.extend(framed(output, width, "nodes, and their votes", node_rows(scene, output)));
    // The frame of the box takes two rows, and the footer takes one row.
    let log = log_rows(scene, output, height.saturating_sub(rows.len() + 3));
    rows.extend(framed(output, width, "events", log));
    rows.push(spread_row(width, &format!(" {}", verdict(output, &scene.findings())), &dim("q quits ".into())));
    rows
}

/// Returns the result of the checker.
pub(super) fn verdict(output: Output, findings: &Findings) -> String {
    if findings.violations.is_empty() {
        output.paint(Paint::GOOD, format_args!("✓ {findings}"))
    } else {
        output.paint(Paint::BAD, format_args!("✗ VIOLATED: {findings}"))
    }
}

/// Cuts or pads a row to exactly this width.
fn fit(text: &str, width: usize) -> String {
    let text = cut_painted(text, width);
    format!("{text}{}", " ".repeat(width - width_painted(&text)))
}

/// Returns a row with one text at its left end and one at its right end.
fn spread_row(width: usize, left: &str, right: &str) -> String {
    fit(left, width.saturating_sub(width_painted(right))) + right
}

/// Returns the rows in a frame with a title.
fn framed(output: Output, width: usize, title: &str, rows: Vec<String>) -> Vec<String> {
    let dim = |text: String| output.paint(Paint::DIM, text);
    let title = format!(" {title} ");
    let rest = "─".repeat(width.saturating_sub(title.chars().count() + 3));
    let top = format!("{}{}{}", dim("╭─".into()), output.paint(Paint::BOLD, title), dim(format!("{rest}╮")));
    let bottom = dim(format!("╰{}╯", "─".repeat(width - 2)));
    let side = dim("│".into());
    let inner = rows.into_iter().map(|row| format!("{side}{}{side}", fit(&row, width - 2)));
    std::iter::once(top).chain(inner).chain([bottom]).collect()
}

/// Returns a heading, and a row for each name.
fn name_rows(scene: &Scene, output: Output) -> Vec<String> {
    let head =
        format!(" {:NAME_WIDTH$} {:7} {:17} {:>6}  {:BAR_WIDTH$}  queue", "", "holder", "fence", "leases", "lease");
    let mut rows = vec![output.paint(Paint::DIM, head)];
    for (name, row) in scene.names.iter().enumerate() {
        let holder = row.holder.map_or_else(|| "·".into(), |worker| paint_worker(output, worker));
        let fence = row.fence.map_or_else(|| "·".into(), |fence| fence.to_string());
        let left = row.holder.map_or(0.0, |_| row.left.as_secs_f64() / TTL.as_secs_f64());
        let bar = bar(output, left, if left > 0.4 { Paint::GOOD } else { Paint::WARN });
        let queue = scene.queue(name);
        let first: Vec<_> = queue.iter().take(WAITERS_MAX).map(|worker| paint_worker(output, *worker)).collect();
        let more = match queue.len().saturating_sub(WAITERS_MAX) {
            0 => String::new(),
            hidden => output.paint(Paint::DIM, format_args!(" +{hidden}")),
        };
        rows.push(format!(
            " {} {}{fence:17} {:>6}  {bar}  {}{more}",
            output.paint(Paint::BOLD, format_args!("{:NAME_WIDTH$}", NAMES[name])),
            fit(&holder, 8),
            row.leases,
            first.join(" "),
        ));
    }
    rows
}

fn paint_worker(output: Output, worker: usize) -> String {
    output.paint(Paint(COLORS[worker]), worker_title(worker))
}

/// Returns a heading, and a row for each node.
fn node_rows(scene: &Scene, output: Output) -> Vec<String> {
    let names = NAMES.map(|name| format!("{name:NAME_WIDTH$}")).concat();
    let mut rows = vec![format!("{}{}", " ".repeat(VOTES_COLUMN), output.paint(Paint::DIM, names))];
    for (node, row) in scene.nodes.iter().enumerate() {
        let title = output.paint(Paint::BOLD, format_args!(" node {}   ", node + 1));
        let mut text = fit(&format!("{title}{}", state_text(output, row)), VOTES_COLUMN);
        for vote in &row.votes {
            // A node with a fault may still store votes, but does not answer.
            let vote = vote.as_ref().filter(|_| row.fault.is_none());
            let worker = vote.and_then(|vote| (0..WORKERS).find(|worker| worker_title(*worker) == *vote));
            text += &fit(&worker.map_or_else(|| "·".into(), |worker| paint_worker(output, worker)), NAME_WIDTH);
        }
        rows.push(text);
    }
    rows
}

/// Returns the fault of a node, or its state as a client sees it.
fn state_text(output: Output, row: &NodeRow) -> String {
    match (row.fault, &row.trouble) {
        (Some(Fault::Freeze), _) => output.paint(Paint::BAD, "frozen"),
        (Some(Fault::Cut), _) => output.paint(Paint::BAD, "cut off"),
        (Some(Fault::Crash), _) => output.paint(Paint::BAD, "down"),
        (None, Some(Silence::Quarantined(left) | Silence::Founding(left))) => {
            let bar = bar(output, 1.0 - left.as_secs_f64() / QUARANTINE.as_secs_f64(), Paint::WARN);
            let left = output.paint(Paint::WARN, format_args!(" {:.1}s", left.as_secs_f64()));
            format!("{}{bar}{left}", output.paint(Paint::WARN, "quarantine "))
        }
        (None, Some(_)) => output.paint(Paint::DIM, "reconnecting"),
        (None, None) => output.paint(Paint::GOOD, "votes"),
    }
}

/// Returns a bar of which this fraction is filled.
fn bar(output: Output, fraction: f64, paint: Paint) -> String {
    let full = (fraction.clamp(0.0, 1.0) * BAR_WIDTH as f64).round() as usize;
    output.paint(paint, "█".repeat(full)) + &output.paint(Paint::DIM, "░".repeat(BAR_WIDTH - full))
}

/// Returns exactly `count` rows: the events with a colour, latest first, and blank rows below.
fn log_rows(scene: &Scene, output: Output, count: usize) -> Vec<String> {
    let rows = scene.log.iter().rev().filter_map(|line| {
        let at = output.paint(Paint::DIM, format_args!(" {:>6.1}  ", line.at.as_secs_f64()));
        Some(at + &output.paint(line.paint?, &line.text))
    });
    rows.chain(std::iter::repeat_with(String::new)).take(count).collect()
}

#[cfg(test)]
mod tests;
