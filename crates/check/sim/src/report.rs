//! Figures of many runs, and the page that shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use quorlock::Rule;
use quorlock_model::run_info::RunInfo;

use crate::kept::{self, Kept};
use crate::run::{Breach, Counts, Options, Outcome, run};

/// The results of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    runs: u64,
    beyond: u64,
    steps: u64,
    within_counts: Counts,
    beyond_counts: Counts,
    lasted: Duration,
    /// The number of faults of each kind.
    faults: BTreeMap<&'static str, u64>,
    /// The processor time, if it was measured.
    pub took: Duration,
    /// The first run that failed.
    pub first: Option<(u64, Breach)>,
}

impl Sweep {
    /// Adds a run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.runs += 1;
        self.beyond += u64::from(outcome.is_beyond);
        self.steps += outcome.steps;
        self.lasted += outcome.lasted;
        let counts = if outcome.is_beyond { &mut self.beyond_counts } else { &mut self.within_counts };
        counts.add(&outcome.counts);
        for fault in &outcome.faults {
            *self.faults.entry(fault.page_label()).or_default() += 1;
        }
        if self.first.is_none() {
            self.first = outcome.breach.clone().map(|breach| (seed, breach));
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    fn rows(&self) -> [(&'static str, u64, &Counts); 2] {
        [("within", self.runs - self.beyond, &self.within_counts), ("beyond", self.beyond, &self.beyond_counts)]
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (which, runs, counts) in self.rows() {
            let Counts { leases, overlaps, writes, refused, .. } = counts;
            writeln!(
                f,
                "{which} the assumptions: {runs} runs, {leases} leases, {overlaps} overlaps; a store that checks fences accepted \
                 {writes} writes, and refused {refused} late ones"
            )?;
        }
        if !self.took.is_zero() {
            let pace = self.runs as f64 / self.took.as_secs_f64();
            writeln!(f, "{:.0?} of virtual time in {:.1?} of a core: {pace:.0} runs a second", self.lasted, self.took)?;
        }
        match &self.first {
            Some((seed, breach)) => write!(f, "seed {seed}: {breach}"),
            None => f.write_str("no violation"),
        }
    }
}

/// The results of runs without a rule.
pub struct Hunt {
    /// The name of the rule.
    name: &'static str,
    /// The number of runs with fresh seeds.
    runs: u64,
    found: u64,
    /// A run that fails without the rule: with the stored seed or, if that passes, with a fresh one.
    pub first: Option<(u64, Breach)>,
}

/// The number of failures after which the average is precise.
const FAILURES_MAX: u64 = 50;
/// How long to continue after the first failure, for an average.
const HUNT_MAX: Duration = Duration::from_secs(60);
/// A rule counts as not needed after this many runs without a failure: ten times the average of the rule that is needed
/// least often.
const HUNTED_MAX: u64 = 400_000;

impl Hunt {
    /// Makes runs without this rule: the stored seed, and `runs` seeds from `base` on for an average. Continues until
    /// one fails.
    pub fn of(rule: Rule, base: u64, runs: u64) -> Self {
        let mut hunt = Self::kept(rule);
        let began = Instant::now();
        while hunt.first.is_none() && hunt.runs < HUNTED_MAX
            || hunt.runs < runs && hunt.found < FAILURES_MAX && began.elapsed() < HUNT_MAX
        {
            hunt.look(rule, base.wrapping_add(hunt.runs));
        }
        hunt
    }

    /// Makes runs without this rule until one fails: the stored seed, then fresh ones.
    pub fn once(rule: Rule, base: u64) -> Self {
        Self::of(rule, base, 0)
    }

    fn kept(rule: Rule) -> Self {
        let name = Rule::ALL.iter().find(|(_, other)| *other == rule).map_or("", |(name, _)| name);
        let seed = kept::MISSED.iter().find(|(other, _)| *other == name).map(|(_, seed)| *seed);
        let first = seed.and_then(|seed| Some((seed, missed(rule, seed)?)));
        Self { name, runs: 0, found: 0, first }
    }

    fn look(&mut self, rule: Rule, seed: u64) {
        self.runs += 1;
        if let Some(breach) = missed(rule, seed) {
            self.found += 1;
            self.first.get_or_insert((seed, breach));
        }
    }

    /// Whether the stored seed no longer fails.
    fn is_new(&self) -> bool {
        self.first.as_ref().is_some_and(|(seed, _)| !kept::MISSED.contains(&(self.name, *seed)))
    }

    fn average(&self) -> Option<f64> {
        (self.found > 0).then(|| self.runs as f64 / self.found as f64)
    }
}

/// The violation in the run of a seed without a rule.
fn missed(rule: Rule, seed: u64) -> Option<Breach> {
    run(seed, Options { without: Some(rule), ..Options::default() }).breach
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, runs, found, .. } = self;
        write!(f, "without {name}: ")?;
        match runs {
            0 => f.write_str("missed")?,
            _ => write!(f, "{found} of {runs} runs failed")?,
        }
        if let Some(average) = self.average() {
            write!(f, ", one in {average:.0}")?;
        }
        if let Some((seed, breach)) = &self.first {
            write!(f, "; seed {seed}: {breach}")?;
        }
        if self.is_new() {
            f.write_str(" (the stored seed no longer fails: store this one in kept.rs)")?;
        }
        Ok(())
    }
}

/// The page about runs from this seed on, in Markdown.
pub fn page(run_info: &RunInfo, first: u64, sweep: &Sweep, hunts: &[Hunt]) -> String {
    let mut page = String::from("# Simulation of the whole library\n\n");
    let mut add = |line: String| {
        page.push_str(&line);
        page.push('\n');
    };
    add(run_info.line());
    add(include_str!("page.md").trim_end().into());
    add(String::new());
    add(figures(first, sweep));
    add("| assumptions | runs | leases | overlaps | writes accepted | writes refused | ended early |\n|---|---|---|---|---|---|---|"
        .into());
    for (which, runs, counts) in sweep.rows() {
        let Counts { leases, overlaps, writes, refused, forgotten } = counts;
        add(format!("| {which} | {runs} | {leases} | {overlaps} | {writes} | {refused} | {forgotten} |"));
    }
    add(format!("\n{}\n\n| fault | number |\n|---|---|", include_str!("page/columns.md").trim_end()));
    for (kind, count) in &sweep.faults {
        add(format!("| {kind} | {count} |"));
    }
    add(format!(
        "\n{}\n\n| rule | failed | seed | violation |\n|---|---|---|---|",
        include_str!("page/mutants.md").trim_end()
    ));
    for hunt in hunts {
        let (seed, breach) = hunt
            .first
            .as_ref()
            .map_or((String::new(), "none".into()), |(seed, breach)| (seed.to_string(), breach.to_string()));
        add(format!("| `{}` | {} of {} runs | {seed} | {breach} |", hunt.name, hunt.found, hunt.runs));
    }
    add(format!("\n{}\n\n| bug | seed | description |\n|---|---|---|", include_str!("page/kept.md").trim_end()));
    for Kept { name, seed, what, .. } in kept::ALL {
        add(format!("| {name} | {seed} | {what} |"));
    }
    page
}

fn figures(first: u64, sweep: &Sweep) -> String {
    let Sweep { runs, lasted, took, .. } = sweep;
    let pace = *runs as f64 / took.as_secs_f64();
    let steps = sweep.steps / (*runs).max(1);
    let hours = lasted.as_secs_f64() / 3600.0;
    format!(
        "`./x sim --seed {first} --runs {runs}` repeats these {runs} runs: {hours:.0} hours of virtual time in {:.0} \
         seconds of one core, {pace:.0} runs per second. A run has {steps} steps on average. A step is an arriving message or a wake-up.\n",
        took.as_secs_f64()
    )
}
