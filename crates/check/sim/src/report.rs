//! The results of many runs, and the page that shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use quorlock::Rule;
use quorlock_model::run_info::RunInfo;

use crate::past_bugs::{self, PastBug};
use crate::run::{Counts, Options, Outcome, Violation, run};

/// The results of many runs.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    runs: u64,
    runs_beyond_assumptions: u64,
    steps: u64,
    counts_within_assumptions: Counts,
    counts_beyond_assumptions: Counts,
    virtual_time: Duration,
    /// The number of faults of each kind.
    faults: BTreeMap<&'static str, u64>,
    /// The processor time of the runs, if it was measured.
    pub processor_time: Duration,
    /// The seed of the first run that failed, and its violation.
    pub first_failure: Option<(u64, Violation)>,
}

impl RunResults {
    /// Adds a run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.runs += 1;
        self.runs_beyond_assumptions += u64::from(outcome.is_beyond_assumptions);
        self.steps += outcome.steps;
        self.virtual_time += outcome.virtual_time;
        let counts = if outcome.is_beyond_assumptions {
            &mut self.counts_beyond_assumptions
        } else {
            &mut self.counts_within_assumptions
        };
        counts.add(&outcome.counts);
        for fault in &outcome.faults {
            *self.faults.entry(fault.page_label()).or_default() += 1;
        }
        if self.first_failure.is_none() {
            self.first_failure = outcome.violation.clone().map(|violation| (seed, violation));
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The number of runs and their counts, within and beyond the assumptions.
    fn rows(&self) -> [(&'static str, u64, &Counts); 2] {
        [
            ("within", self.runs - self.runs_beyond_assumptions, &self.counts_within_assumptions),
            ("beyond", self.runs_beyond_assumptions, &self.counts_beyond_assumptions),
        ]
    }
}

impl fmt::Display for RunResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (assumptions, runs, counts) in self.rows() {
            let Counts { leases, overlaps, accepted_writes, refused_writes, .. } = counts;
            writeln!(
                f,
                "{assumptions} the assumptions: {runs} runs, {leases} leases, {overlaps} overlaps; a store that checks fences accepted \
                 {accepted_writes} writes, and refused {refused_writes} late writes"
            )?;
        }
        if !self.processor_time.is_zero() {
            let runs_per_second = self.runs as f64 / self.processor_time.as_secs_f64();
            writeln!(
                f,
                "{:.0?} of virtual time in {:.1?} of a core: {runs_per_second:.0} runs per second",
                self.virtual_time, self.processor_time
            )?;
        }
        match &self.first_failure {
            Some((seed, violation)) => write!(f, "seed {seed}: {violation}"),
            None => f.write_str("no violation"),
        }
    }
}

/// The results of runs without one rule.
pub struct MutantRuns {
    /// The name of the rule.
    name: &'static str,
    /// The number of runs with fresh seeds.
    runs: u64,
    /// The number of failed runs with fresh seeds.
    failures: u64,
    /// A seed whose run fails without the rule, and the violation. The seed is the stored seed or, if that run passes,
    /// a fresh seed.
    pub first_failure: Option<(u64, Violation)>,
}

/// The number of failed runs that is enough for a precise average.
const FAILURES_MAX: u64 = 50;
/// The time after which no more runs are made for a precise average.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The number of runs without a failure after which a rule counts as not needed. This is ten times the average number of
/// runs per failure of the rule that is needed least often.
const RUNS_MAX: u64 = 400_000;

impl MutantRuns {
    /// Makes runs without this rule: one with the stored seed and, to compute an average, at most `runs` runs with the
    /// seeds from `first_seed` on. If none of them fails, makes more runs until one fails.
    pub fn of(rule: Rule, first_seed: u64, runs: u64) -> Self {
        let mut mutant = Self::of_stored_seed(rule);
        let started = Instant::now();
        while mutant.first_failure.is_none() && mutant.runs < RUNS_MAX
            || mutant.runs < runs && mutant.failures < FAILURES_MAX && started.elapsed() < TIME_MAX
        {
            mutant.add(rule, first_seed.wrapping_add(mutant.runs));
        }
        mutant
    }

    /// Makes runs without this rule until one fails: first with the stored seed, then with fresh seeds.
    pub fn until_failure(rule: Rule, first_seed: u64) -> Self {
        Self::of(rule, first_seed, 0)
    }

    /// Runs the stored seed without this rule.
    fn of_stored_seed(rule: Rule) -> Self {
        let name = Rule::ALL.iter().find(|(_, other)| *other == rule).map_or("", |(name, _)| name);
        let seed = past_bugs::SEEDS_WITHOUT_RULE.iter().find(|(other, _)| *other == name).map(|(_, seed)| *seed);
        let first_failure = seed.and_then(|seed| Some((seed, violation_without(rule, seed)?)));
        Self { name, runs: 0, failures: 0, first_failure }
    }

    /// Runs a fresh seed without this rule.
    fn add(&mut self, rule: Rule, seed: u64) {
        self.runs += 1;
        if let Some(violation) = violation_without(rule, seed) {
            self.failures += 1;
            self.first_failure.get_or_insert((seed, violation));
        }
    }

    /// Whether the run of the stored seed passes, but the run of a fresh seed fails.
    fn needs_new_seed(&self) -> bool {
        self.first_failure
            .as_ref()
            .is_some_and(|(seed, _)| !past_bugs::SEEDS_WITHOUT_RULE.contains(&(self.name, *seed)))
    }

    /// The average number of runs per failure.
    fn runs_per_failure(&self) -> Option<f64> {
        (self.failures > 0).then(|| self.runs as f64 / self.failures as f64)
    }
}

/// The violation in the run of a seed without a rule.
fn violation_without(rule: Rule, seed: u64) -> Option<Violation> {
    run(seed, Options { without: Some(rule), ..Options::default() }).violation
}

impl fmt::Display for MutantRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, runs, failures, .. } = self;
        write!(f, "without {name}: ")?;
        match runs {
            0 => f.write_str("a run with the stored seed")?,
            _ => write!(f, "{failures} of {runs} runs failed")?,
        }
        if let Some(runs_per_failure) = self.runs_per_failure() {
            write!(f, ", one in {runs_per_failure:.0}")?;
        }
        if let Some((seed, violation)) = &self.first_failure {
            write!(f, "; seed {seed}: {violation}")?;
        }
        if self.needs_new_seed() {
            f.write_str(" (the stored seed no longer fails: store this seed in past_bugs.rs)")?;
        }
        Ok(())
    }
}

/// The page about the runs with seeds from `first_seed` on, in Markdown.
pub fn page(run_info: &RunInfo, first_seed: u64, results: &RunResults, mutants: &[MutantRuns]) -> String {
    let mut page = String::from("# Simulation of the whole library\n\n");
    let mut add = |line: String| {
        page.push_str(&line);
        page.push('\n');
    };
    add(include_str!("page/readers.md").into());
    add(run_info.line());
    add(include_str!("page.md").trim_end().into());
    add(String::new());
    add(figures(first_seed, results));
    add("| assumptions | runs | leases | overlaps | writes accepted | writes refused | ended early |\n|---|---|---|---|---|---|---|"
        .into());
    for (assumptions, runs, counts) in results.rows() {
        let Counts { leases, overlaps, accepted_writes, refused_writes, ended_early } = counts;
        add(format!(
            "| {assumptions} | {runs} | {leases} | {overlaps} | {accepted_writes} | {refused_writes} | {ended_early} |"
        ));
    }
    add(format!("\n{}\n\n| fault | number |\n|---|---|", include_str!("page/columns.md").trim_end()));
    for (kind, count) in &results.faults {
        add(format!("| {kind} | {count} |"));
    }
    add(format!(
        "\n{}\n\n| rule | failed | seed | violation |\n|---|---|---|---|",
        include_str!("page/mutants.md").trim_end()
    ));
    for mutant in mutants {
        let (seed, violation) = mutant
            .first_failure
            .as_ref()
            .map_or((String::new(), "none".into()), |(seed, violation)| (seed.to_string(), violation.to_string()));
        add(format!("| `{}` | {} of {} runs | {seed} | {violation} |", mutant.name, mutant.failures, mutant.runs));
    }
    add(format!("\n{}\n\n| bug | seed | description |\n|---|---|---|", include_str!("page/past_bugs.md").trim_end()));
    for PastBug { name, seed, description, .. } in past_bugs::ALL {
        add(format!("| {name} | {seed} | {description} |"));
    }
    page
}

fn figures(first_seed: u64, results: &RunResults) -> String {
    let RunResults { runs, virtual_time, processor_time, .. } = results;
    let runs_per_second = *runs as f64 / processor_time.as_secs_f64();
    let steps = results.steps / (*runs).max(1);
    let hours = virtual_time.as_secs_f64() / 3600.0;
    format!(
        "`./x sim --seed {first_seed} --runs {runs}` repeats these {runs} runs: {hours:.0} hours of virtual time in {:.0} \
         seconds of one core, {runs_per_second:.0} runs per second. A run has {steps} steps on average. A step is an arriving message or a wake-up.\n",
        processor_time.as_secs_f64()
    )
}
