//! Runs episodes until the time is over.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::episode::play;
use crate::fleet::Programs;
use crate::interrupt::Interrupt;
use crate::judge::Findings;
use crate::plan::Plan;
use crate::report::Row;
use crate::series::Series;
use crate::subject::{Program, Subject};
use crate::trial;

/// How long each episode injects faults.
pub const EPISODE: Duration = Duration::from_secs(18);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The libraries to judge.
    pub subjects: Vec<Subject>,
    /// The kinds of episodes. Controls run only the [shared](Series::SHARED) kinds.
    pub series: Vec<Series>,
    /// The seed of the first round. Each round has the next seed.
    pub seed: u64,
    /// No episode begins after this time.
    pub length: Duration,
    /// The folder for the histories, one file for each episode.
    pub histories: PathBuf,
}

/// A run and its findings so far.
#[derive(Debug)]
pub struct Run {
    options: RunOptions,
    programs: Vec<Program>,
    /// The processes of `quorlock run`, if a series needs them.
    fleet: Option<Programs>,
    rows: Vec<Row>,
    took: Duration,
}

impl Run {
    /// Prepares all subjects. `this` is the harness.
    ///
    /// # Errors
    /// When a subject cannot be prepared.
    pub fn new(options: RunOptions, this: &std::path::Path) -> Result<Self, Failure> {
        let prepare = |subject: &Subject| Program::prepare(*subject, this.into());
        let programs = options.subjects.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let of_subject = |subject: &Subject| {
            let series =
                options.series.iter().filter(|series| !subject.is_control() || Series::SHARED.contains(series));
            series.map(|series| Row::new(*subject, *series)).collect::<Vec<_>>()
        };
        let rows = options.subjects.iter().flat_map(of_subject).collect();
        let needs_fleet = options.series.iter().any(|series| series.runs_commands());
        let fleet = needs_fleet.then(|| Programs::beside(this)).transpose()?;
        Ok(Self { options, programs, fleet, rows, took: Duration::ZERO })
    }

    /// Runs episodes until the time is over. In each round, quorlock runs the shared series and the next of the other
    /// series, and the next control runs the shared series.
    ///
    /// # Errors
    /// When an episode cannot be played.
    ///
    /// # Panics
    /// When a server cannot be restarted or refuses a command.
    pub fn play(mut self, interrupt: &Interrupt, mut tell: impl FnMut(&Row)) -> Result<Self, Failure> {
        let started = Instant::now();
        'rounds: for seed in self.options.seed.. {
            for (program, series) in self.round((seed - self.options.seed) as usize) {
                if started.elapsed() >= self.options.length || interrupt.is_set() {
                    break 'rounds;
                }
                let episode = self.episode(&program, seed, series, interrupt)?;
                if interrupt.is_set() {
                    // An interrupted episode shows nothing: its clients could not finish.
                    break 'rounds;
                }
                tell(&episode);
                let is_row = |row: &&mut Row| (row.subject, row.series) == (program.subject, series);
                if let Some(row) = self.rows.iter_mut().find(is_row) {
                    row.add(episode.took, episode.found);
                }
            }
        }
        self.took = started.elapsed();
        Ok(self)
    }

    /// The findings, one row for each subject and series.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The duration of the run.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Each subject with its version.
    pub fn versions(&self) -> Vec<(Subject, String)> {
        self.programs.iter().map(|program| (program.subject, program.version.clone())).collect()
    }

    /// The reasons why this run fails: quorlock violated a guarantee, a library got no lease, quorlock never batched a
    /// request, or the judge found nothing in the controls.
    pub fn failures(&self) -> Vec<String> {
        let own = self.rows.iter().filter(|row| !row.subject.is_control() && row.is_violated());
        let mut failures: Vec<String> =
            own.map(|row| format!("{} violates its guarantees in series: {}", row.subject, row.series)).collect();
        for subject in &self.options.subjects {
            let its = || self.rows.iter().filter(|row| row.subject == *subject);
            let has_run = !subject.is_control() || its().any(|row| row.episodes > 0);
            if has_run && its().all(|row| row.found.grants == 0) {
                failures.push(format!("{subject} was granted no lease, so this run proves nothing"));
            } else if !subject.is_control()
                && its().any(|row| row.episodes > 0 && Series::SHARED.contains(&row.series))
                && its().all(|row| row.found.together == 0)
            {
                failures
                    .push(format!("{subject} never sent a batch: none of its requests shared a command with another"));
            }
        }
        let mut others = self.rows.iter().filter(|row| row.subject.is_control() && row.episodes > 0).peekable();
        if others.peek().is_some() && others.all(|row| row.found.overlaps == 0) {
            failures
                .push("the judge found nothing in the controls, so this run proves nothing: run it for longer".into());
        }
        failures
    }

    fn round(&self, number: usize) -> Vec<(Program, Series)> {
        let (others, own): (Vec<&Program>, Vec<&Program>) =
            self.programs.iter().partition(|program| program.subject.is_control());
        let other = others.get(number % others.len().max(1));
        let (shared, apart): (Vec<Series>, Vec<Series>) =
            self.options.series.iter().partition(|series| Series::SHARED.contains(series));
        let turn = apart.get(number % apart.len().max(1));
        let mut round = Vec::new();
        for program in own {
            round.extend(shared.iter().chain(turn).map(|series| (program.clone(), *series)));
        }
        if let Some(program) = other {
            round.extend(shared.iter().map(|series| ((*program).clone(), *series)));
        }
        round
    }

    fn episode(&self, program: &Program, seed: u64, series: Series, interrupt: &Interrupt) -> Result<Row, Failure> {
        let path = self.options.histories.join(format!("{}-{series}-{seed}.jsonl", program.subject));
        let begun = Instant::now();
        let plan = Plan::of(series, seed, EPISODE);
        let records = match &self.fleet {
            Some(programs) if series.runs_commands() => trial::play(series, &plan, programs, &path, interrupt)?,
            _ if series == Series::Sentinel => trial::play_sentinel(&plan, program, &path, interrupt)?,
            _ => play(&plan, program, &path, interrupt)?,
        };
        let mut found = match series {
            Series::Sentinel => Findings::of_failover(&records, trial::HEARTBEAT),
            _ => Findings::of(series.bound(), &records),
        };
        for story in &mut found.messages {
            story.insert_str(0, &format!("seed {seed}: "));
        }
        let mut row = Row::new(program.subject, series);
        row.add(begun.elapsed(), found);
        Ok(row)
    }
}
