//! What there is to see: the news so far, added up.

use std::collections::VecDeque;
use std::time::Duration;

use quorlock::Silence;

use super::checker::{End, Findings, Turn};
use super::plan::{Act, Deed};
use super::world::{News, NodeLook, title};
use super::{NAMES, NODES, WORKERS};

/// How many lines are kept for the screen.
const LOG_MAX: usize = 100;

/// Who has a name.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) worker: usize,
    pub(crate) left: Duration,
}

/// One name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameView {
    pub(crate) held: Option<Held>,
    /// The fence of its latest lease.
    pub(crate) fence: Option<u64>,
    pub(crate) leases: usize,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeView {
    /// What was done to it and not yet undone.
    pub(crate) out: Option<Act>,
    pub(crate) look: NodeLook,
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The usual: not worth a place on the screen.
    Usual,
    Good,
    Bad,
}

/// Something that happened, in words.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) names: [NameView; NAMES.len()],
    pub(crate) nodes: [NodeView; NODES],
    /// For what each worker waits, and where in the queue it stands.
    waits: [Option<(usize, Option<u32>)>; WORKERS],
    /// What mattered, the latest first.
    pub(crate) log: VecDeque<Line>,
    turns: Vec<Turn>,
    /// What was done to the nodes so far.
    pub(crate) deeds: Vec<Deed>,
    pub(crate) findings: Findings,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let mut scene = Self::default();
        scene.look_back();
        scene
    }

    /// Takes in what happened at this moment, and puts it into words if it is worth them.
    pub(crate) fn take(&mut self, news: News, now: Duration) -> Vec<Line> {
        let lines = self.tell(news, now);
        for line in lines.iter().filter(|line| line.tone != Tone::Usual) {
            self.log.push_front(line.clone());
        }
        self.log.truncate(LOG_MAX);
        lines
    }

    fn tell(&mut self, news: News, now: Duration) -> Vec<Line> {
        let line = |at, tone, text: String| vec![Line { at, tone, text }];
        match news {
            News::Waits { worker, name, place } => self.waits[worker] = Some((name, place)),
            News::Granted { worker, name, fence, at } => {
                self.waits[worker] = None;
                let view = &mut self.names[name];
                view.held = Some(Held { worker, left: super::TTL });
                view.fence = Some(fence);
                view.leases += 1;
                return line(at, Tone::Usual, format!("{} has {} with fence {fence}", title(worker), NAMES[name]));
            }
            News::Holds { name, left } => {
                if let Some(held) = &mut self.names[name].held {
                    held.left = left;
                }
            }
            News::Hangs { worker, name, at } => {
                let text = format!("{} hangs with {}: nothing renews its lease", title(worker), NAMES[name]);
                return line(at, Tone::Bad, text);
            }
            News::Ended { worker, name, turn } => {
                let (until, end) = (turn.until, turn.end);
                self.turns.push(turn);
                self.look_back();
                let held = &mut self.names[name].held;
                if held.as_ref().is_some_and(|held| held.worker == worker) {
                    *held = None;
                }
                let (worker, name) = (title(worker), NAMES[name]);
                return match end {
                    End::Released => line(until, Tone::Usual, format!("{worker} gives {name} back")),
                    End::Lost => line(until, Tone::Bad, format!("{worker} lost {name}, and knew it in time")),
                };
            }
            News::GaveUp { worker, name } => {
                self.waits[worker] = None;
                return line(now, Tone::Usual, format!("{} waited for {} in vain", title(worker), NAMES[name]));
            }
            News::Done(deed) => return self.done(deed),
            News::Looked(looks) => return self.looked(looks, now),
        }
        Vec::new()
    }

    fn done(&mut self, deed: Deed) -> Vec<Line> {
        self.deeds.push(deed);
        let Deed { at, node, act } = deed;
        let number = node + 1;
        let had_majority = self.has_majority();
        let (tone, text) = match act {
            Act::Freeze => (Tone::Bad, format!("node {number} is frozen")),
            Act::CutOff => (Tone::Bad, format!("node {number} is cut off")),
            Act::Crash => (Tone::Bad, format!("node {number} crashed, and its memory is gone")),
            Act::Thaw => (Tone::Good, format!("node {number} goes on where it stopped")),
            Act::Reconnect => (Tone::Good, format!("node {number} can be reached again")),
            Act::RestartEmpty => {
                (Tone::Bad, format!("node {number} is back, empty: in quarantine until what it forgot is over"))
            }
        };
        let ends = matches!(act, Act::Thaw | Act::Reconnect | Act::RestartEmpty);
        self.nodes[node].out = (!ends).then_some(act);
        let mut lines = vec![Line { at, tone, text }];
        match (had_majority, self.has_majority()) {
            (true, false) => {
                let text = "no majority is left: nobody gets in, and leases end unrenewed".to_owned();
                lines.push(Line { at, tone: Tone::Bad, text });
            }
            (false, true) => {
                lines.push(Line { at, tone: Tone::Good, text: "a majority is there again".to_owned() });
            }
            _ => {}
        }
        lines
    }

    fn looked(&mut self, looks: Vec<NodeLook>, at: Duration) -> Vec<Line> {
        let mut lines = Vec::new();
        for (node, (view, look)) in self.nodes.iter_mut().zip(looks).enumerate() {
            let was_in_quarantine = view.is_in_quarantine();
            view.look = look;
            if was_in_quarantine && view.look.trouble.is_none() {
                let text = format!("node {} is out of quarantine and votes again", node + 1);
                lines.push(Line { at, tone: Tone::Good, text });
            }
        }
        lines
    }

    fn has_majority(&self) -> bool {
        self.nodes.iter().filter(|node| node.out.is_none() && !node.is_in_quarantine()).count() > NODES / 2
    }

    fn look_back(&mut self) {
        self.findings = Findings::of(&NAMES, &self.turns);
    }

    /// Who waits for a name, first in the queue first.
    pub(crate) fn line(&self, name: usize) -> Vec<usize> {
        let waits = self.waits.iter().enumerate().filter_map(|(worker, wait)| Some((worker, (*wait)?)));
        let mut line: Vec<_> = waits.filter(|(_, (other, _))| *other == name).collect();
        line.sort_by_key(|(worker, (_, place))| (place.unwrap_or(u32::MAX), *worker));
        line.into_iter().map(|(worker, _)| worker).collect()
    }
}

impl NodeView {
    fn is_in_quarantine(&self) -> bool {
        self.look.trouble.as_ref().and_then(Silence::quarantine_left).is_some()
    }
}
