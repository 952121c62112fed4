//! What all episodes together came to.

use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::seconds;
use crate::judge::Findings;
use crate::plan::Bound;
use crate::subject::Subject;

/// What came of one subject within the assumptions, or beyond them.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who.
    pub subject: Subject,
    /// Which assumptions held.
    pub bound: Bound,
    /// How many episodes there were.
    pub episodes: usize,
    /// How long they took together.
    pub took: Duration,
    /// All that was found.
    pub found: Findings,
}

impl Row {
    /// Nothing yet.
    pub fn new(subject: Subject, bound: Bound) -> Self {
        Self { subject, bound, episodes: 0, took: Duration::ZERO, found: Findings::default() }
    }

    /// Adds an episode.
    pub fn add(&mut self, took: Duration, found: Findings) {
        self.episodes += 1;
        self.took += took;
        self.found.add(found);
    }

    /// For a terminal.
    pub fn line(&self) -> String {
        let Findings { grants, losses, overlaps, disorder, starved, writes, .. } = &self.found;
        let Findings { late, refused, fenced_harmed, bare_harmed, broken, .. } = &self.found;
        let faults: usize = self.found.faults.values().sum();
        format!(
            "{} {}: {faults} faults, {grants} grants, {losses} lost, {overlaps} overlaps (longest {:.3} s), \
             {disorder} fences out of order, {starved} starved, {broken} broken; {writes} writes, {late} late, \
             {refused} refused, harmed: {fenced_harmed} fenced, {bare_harmed} bare; longest wait {:.1} s",
            self.subject.title(),
            self.bound,
            seconds(self.found.longest_overlap),
            seconds(self.found.longest_wait),
        )
    }

    /// What was found, in words: the first few.
    pub fn stories(&self, most: usize) -> String {
        let mut text = String::new();
        for story in self.found.told.iter().take(most) {
            let _ = writeln!(text, "  {story}");
        }
        text
    }
}
