//! Figures, and the page that shows them.

use std::fmt;
use std::time::{Duration, Instant};

use quorlock::Rule;

use crate::kept;
use crate::run::{Breach, Counts, Options, Outcome, run};

/// What came of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    runs: u64,
    beyond: u64,
    steps: u64,
    within_counts: Counts,
    beyond_counts: Counts,
    lasted: Duration,
    /// How long it took, if that was measured.
    pub took: Duration,
    /// The first run that broke something.
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
        if self.first.is_none() {
            self.first = outcome.breach.clone().map(|breach| (seed, breach));
        }
    }

    fn rows(&self) -> [(&'static str, u64, &Counts); 2] {
        [("within", self.runs - self.beyond, &self.within_counts), ("beyond", self.beyond, &self.beyond_counts)]
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (which, runs, counts) in self.rows() {
            let Counts { leases, overlaps, writes, refused } = counts;
            writeln!(
                f,
                "{which} what is assumed: {runs} runs, {leases} leases, {overlaps} overlaps; a store that checks fences took \
                 {writes} writes, and refused {refused} that came too late"
            )?;
        }
        if !self.took.is_zero() {
            let pace = self.runs as f64 / self.took.as_secs_f64();
            writeln!(f, "{:.0?} of virtual time in {:.1?}: {pace:.0} runs a second", self.lasted, self.took)?;
        }
        match &self.first {
            Some((seed, breach)) => write!(f, "seed {seed}: {breach}"),
            None => f.write_str("nothing was broken"),
        }
    }
}

/// What came of runs without a rule.
pub struct Hunt {
    /// Which rule.
    name: &'static str,
    runs: u64,
    found: u64,
    /// The first run that showed that it is missing.
    pub first: Option<(u64, Breach)>,
}

/// So many findings are enough for an average.
const ENOUGH: u64 = 50;
/// How long one rule is looked for at most.
const HUNT_MAX: Duration = Duration::from_secs(60);

impl Hunt {
    /// Makes runs without this rule, from this seed on, until it has been missed often enough.
    pub fn of(rule: Rule, base: u64, most: u64) -> Self {
        let name = Rule::ALL.iter().find(|(_, other)| *other == rule).map_or("", |(name, _)| name);
        let mut hunt = Self { name, runs: 0, found: 0, first: None };
        let began = Instant::now();
        while hunt.runs < most && hunt.found < ENOUGH && began.elapsed() < HUNT_MAX {
            hunt.look(rule, base + hunt.runs);
        }
        hunt
    }

    /// Makes runs without this rule, from this seed on, until it has been missed once.
    pub fn once(rule: Rule, base: u64, most: u64) -> Self {
        let mut hunt = Self { name: "", runs: 0, found: 0, first: None };
        while hunt.runs < most && hunt.found == 0 {
            hunt.look(rule, base + hunt.runs);
        }
        hunt
    }

    fn look(&mut self, rule: Rule, seed: u64) {
        self.runs += 1;
        if let Some(breach) = run(seed, Options { without: Some(rule), is_told: false }).breach {
            self.found += 1;
            self.first.get_or_insert((seed, breach));
        }
    }

    fn average(&self) -> Option<f64> {
        (self.found > 0).then(|| self.runs as f64 / self.found as f64)
    }
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, runs, found, .. } = self;
        match (&self.first, self.average()) {
            (Some((seed, breach)), Some(average)) => {
                write!(
                    f,
                    "without {name}: missed in {found} of {runs} runs, one in {average:.0}; seed {seed}: {breach}"
                )
            }
            _ => write!(f, "without {name}: not missed in {runs} runs"),
        }
    }
}

/// The page.
pub fn page(sweep: &Sweep, hunts: &[Hunt]) -> String {
    let mut page = String::from(include_str!("page.md"));
    let mut add = |line: String| {
        page.push_str(&line);
        page.push('\n');
    };
    add("| runs | | leases | overlaps | writes taken | writes refused |\n|---|---|---|---|---|---|".into());
    for (which, runs, counts) in sweep.rows() {
        let Counts { leases, overlaps, writes, refused } = counts;
        add(format!("| {runs} | {which} | {leases} | {overlaps} | {writes} | {refused} |"));
    }
    let pace = sweep.runs as f64 / sweep.took.as_secs_f64();
    let steps = sweep.steps / sweep.runs.max(1);
    add(format!(
        "\n{:.0?} of virtual time in {:.1?} on one core: {pace:.0} runs a second, of {steps} steps each (a message that \
         arrives, a sleeper that wakes, a task that runs).\n",
        sweep.lasted, sweep.took
    ));
    add("## Without a rule\n\n| rule | missed in one of | seed | what it shows |\n|---|---|---|---|".into());
    for hunt in hunts {
        let (seed, breach) = hunt
            .first
            .as_ref()
            .map_or((String::new(), String::new()), |(seed, breach)| (seed.to_string(), breach.to_string()));
        let average = hunt.average().map_or("none".into(), |average| format!("{average:.0} runs"));
        add(format!("| {} | {average} | {seed} | {breach} |", hunt.name));
    }
    add("\n## Seeds that are kept\n\n| seed | bug | what it was |\n|---|---|---|".into());
    for (name, seed, what) in kept::ALL {
        add(format!("| {seed} | {name} | {what} |"));
    }
    page
}
