//! The picture: names and their holders, nodes and their votes, what happened last, and what the checker says so far.

use std::time::Duration;

use quorlock::Silence;

use super::ink::{Ink, Row};
use super::plan::Act;
use super::scene::{NodeView, Scene, Tone};
use super::world::title;
use super::{NAMES, NODES, QUARANTINE, TTL, WORKERS};

/// One colour for each worker, so that it can be followed.
const COLORS: [u8; WORKERS] = [39, 208, 77, 213, 220, 51, 203, 147, 118, 180, 45, 170];
/// The column in which a node's votes begin.
const VOTES: usize = 36;
const NAME: usize = 13;
const BAR: usize = 8;
/// How many of those who wait are shown by name.
const LINE: usize = 5;
/// Less than this and the picture is cut off.
const SIZE_MIN: (usize, usize) = (60, 20);

/// What does not change while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Titles {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
}

/// The rows of one frame. 80 columns and 24 rows are enough; more are used.
pub(crate) fn picture(scene: &Scene, titles: Titles, age: Duration, (width, height): (usize, usize)) -> Vec<Row> {
    if width < SIZE_MIN.0 || height < SIZE_MIN.1 {
        let mut row = Row::new();
        row.add(Ink::PLAIN, "the picture needs 80 x 24");
        return vec![row];
    }
    let mut rows = vec![ends(width, heading(), clock(titles, age))];
    rows.extend(boxed(width, "names", name_rows(scene)));
    rows.extend(boxed(width, "nodes, and whom they voted for", node_rows(scene)));
    // The box's own two lines, and the foot.
    let log = height.saturating_sub(rows.len() + 3);
    rows.extend(boxed(width, "what happened", log_rows(scene, log)));
    let mut quit = Row::new();
    quit.add(Ink::DIM, "q ends it ");
    rows.push(ends(width, so_far(scene), quit));
    rows
}

/// A row with something at either end.
fn ends(width: usize, mut left: Row, right: Row) -> Row {
    let room = width.saturating_sub(right.width());
    left.cut(room.saturating_sub(1)).pad(room).append(right);
    left
}

fn boxed(width: usize, title: &str, rows: Vec<Row>) -> Vec<Row> {
    let line = |begin: &str, title: &str, end: &str| {
        let mut row = Row::new();
        row.add(Ink::DIM, begin).add(Ink::BOLD, title);
        let rest = width.saturating_sub(row.width() + 1);
        row.add(Ink::DIM, "─".repeat(rest)).add(Ink::DIM, end);
        row
    };
    let framed = rows.into_iter().map(|mut inner| {
        let mut row = Row::new();
        row.add(Ink::DIM, "│");
        inner.cut(width - 2).pad(width - 2);
        row.append(inner).add(Ink::DIM, "│");
        row
    });
    let top = line("╭─", &format!(" {title} "), "╮");
    std::iter::once(top).chain(framed).chain([line("╰", "", "╯")]).collect()
}

fn heading() -> Row {
    let mut row = Row::new();
    row.add(Ink::BOLD, " quorlock demo");
    row.add(Ink::DIM, format!("   {WORKERS} workers want {} names on {NODES} nodes", NAMES.len()));
    row
}

fn clock(titles: Titles, age: Duration) -> Row {
    let left = titles.length.saturating_sub(age).as_secs_f64();
    let mut row = Row::new();
    row.add(Ink::DIM, format!("seed {}   {left:.0} s left ", titles.seed));
    row
}

fn name_rows(scene: &Scene) -> Vec<Row> {
    let mut head = Row::new();
    head.add(Ink::DIM, format!(" {:NAME$} {:7} {:17} {:>6}  ", "", "holder", "fence", "leases"));
    head.add(Ink::DIM, format!("{:BAR$}  queue", "lease"));
    let mut rows = vec![head];
    for (name, view) in scene.names.iter().enumerate() {
        let mut row = Row::new();
        row.add(Ink::BOLD, format!(" {:NAME$} ", NAMES[name]));
        match &view.held {
            Some(held) => row.add(worker_ink(held.worker).inverse().bold(), format!(" {} ", title(held.worker))),
            None => row.add(Ink::DIM, " ·"),
        };
        let fence = view.fence.map_or_else(|| "·".into(), |fence| fence.to_string());
        row.pad(NAME + 10).add(Ink::PLAIN, format!("{fence:17} {:>6}  ", view.leases));
        let left = view.held.as_ref().map_or(0.0, |held| held.left.as_secs_f64() / TTL.as_secs_f64());
        row.append(bar(left, if left > 0.4 { Ink::GREEN } else { Ink::YELLOW })).add(Ink::PLAIN, "  ");
        let line = scene.line(name);
        for &worker in line.iter().take(LINE) {
            row.add(worker_ink(worker), format!("{} ", title(worker)));
        }
        if line.len() > LINE {
            row.add(Ink::DIM, format!("+{}", line.len() - LINE));
        }
        rows.push(row);
    }
    rows
}

fn worker_ink(worker: usize) -> Ink {
    Ink::of(COLORS[worker])
}

fn node_rows(scene: &Scene) -> Vec<Row> {
    let mut head = Row::new();
    head.pad(VOTES);
    for name in NAMES {
        head.add(Ink::DIM, format!("{name:NAME$}"));
    }
    let mut rows = vec![head];
    for (node, view) in scene.nodes.iter().enumerate() {
        let mut row = Row::new();
        row.add(Ink::BOLD, format!(" node {}   ", node + 1)).append(state(view)).pad(VOTES);
        // A node that is out may still carry votes, but says nothing of them.
        let votes = view.look.votes.as_ref().filter(|_| view.out.is_none());
        for name in 0..NAMES.len() {
            let vote = votes.and_then(|votes| votes[name].clone());
            let worker = vote.as_ref().and_then(|vote| (0..WORKERS).find(|worker| title(*worker) == *vote));
            row.add(worker.map_or(Ink::DIM, worker_ink), format!("{:NAME$}", vote.unwrap_or_else(|| "·".into())));
        }
        rows.push(row);
    }
    rows
}

/// How a node stands: what was done to it, or else how it looks from outside.
fn state(view: &NodeView) -> Row {
    let mut row = Row::new();
    match (view.out, &view.look.trouble) {
        (Some(Act::Freeze), _) => row.add(Ink::CYAN.bold(), "frozen"),
        (Some(Act::CutOff), _) => row.add(Ink::MAGENTA.bold(), "cut off"),
        (Some(_), _) => row.add(Ink::RED.bold(), "down"),
        (None, Some(Silence::Quarantined(left) | Silence::Founding(left))) => {
            let share = 1.0 - left.as_secs_f64() / QUARANTINE.as_secs_f64();
            row.add(Ink::YELLOW.bold(), "quarantine ").append(bar(share, Ink::YELLOW));
            row.add(Ink::YELLOW, format!(" {:.1}s", left.as_secs_f64()))
        }
        (None, Some(_)) => row.add(Ink::DIM, "is being found again"),
        (None, None) => row.add(Ink::GREEN, "votes"),
    };
    row
}

fn bar(share: f64, ink: Ink) -> Row {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let mut row = Row::new();
    row.add(ink, "█".repeat(full)).add(Ink::DIM, "░".repeat(BAR - full));
    row
}

/// The latest first, and blank rows below.
fn log_rows(scene: &Scene, count: usize) -> Vec<Row> {
    let told = scene.log.iter().map(|line| {
        let mut row = Row::new();
        row.add(Ink::DIM, format!(" {:>6.1}  ", line.at.as_secs_f64()));
        row.add(if line.tone == Tone::Bad { Ink::RED } else { Ink::GREEN }, line.text.as_str());
        row
    });
    told.chain(std::iter::repeat_with(Row::new)).take(count).collect()
}

fn so_far(scene: &Scene) -> Row {
    let found = &scene.findings;
    let (mark, ink) = if found.is_good() { ("✓", Ink::GREEN) } else { ("✗", Ink::RED) };
    let mut row = Row::new();
    row.add(ink.bold(), format!(" {mark} {found}"));
    row
}

#[cfg(test)]
mod tests;
