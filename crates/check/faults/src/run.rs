//! Runs episodes until the time limit.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::episode::run_episode;
use crate::host_runs::Programs;
use crate::interrupt::Interrupt;
use crate::judge::Findings;
use crate::plan::Plan;
use crate::report::Row;
use crate::series::Series;
use crate::subject::{Program, Subject};
use crate::trial;

/// How long each episode injects faults.
pub const EPISODE: Duration = Duration::from_secs(18);

/// The options of a run of the harness.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The libraries to judge.
    pub subjects: Vec<Subject>,
    /// The series to run. Controls run only the [shared](Series::SHARED) series.
    pub series: Vec<Series>,
    /// The seed of the first round. Each further round uses the next seed.
    pub seed: u64,
    /// The time after which no episode starts.
    pub time_limit: Duration,
    /// The folder for the histories, one file for each episode.
    pub histories: PathBuf,
}

/// A run of the harness, and its findings so far.
#[derive(Debug)]
pub struct Run {
    options: RunOptions,
    programs: Vec<Program>,
    /// The programs of the series with `quorlock run`, if there is such a series.
    host_programs: Option<Programs>,
    rows: Vec<Row>,
    duration: Duration,
}

impl Run {
    /// Prepares all subjects. `harness` is the program of the harness.
    ///
    /// # Errors
    /// When a subject cannot be prepared.
    pub fn new(options: RunOptions, harness: &std::path::Path) -> Result<Self, Failure> {
        let prepare = |subject: &Subject| Program::prepare(*subject, harness.into());
        let programs = options.subjects.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let rows_of = |subject: &Subject| {
            let series =
                options.series.iter().filter(|series| !subject.is_control() || Series::SHARED.contains(series));
            series.map(|series| Row::new(*subject, *series)).collect::<Vec<_>>()
        };
        let rows = options.subjects.iter().flat_map(rows_of).collect();
        let needs_host_programs = options.series.iter().any(|series| series.uses_quorlock_run());
        let host_programs = needs_host_programs.then(|| Programs::next_to(harness)).transpose()?;
        Ok(Self { options, programs, host_programs, rows, duration: Duration::ZERO })
    }

    /// Runs episodes until the time limit. In each round, quorlock runs the shared series and one of the other series, and
    /// one control runs the shared series. Calls `on_episode` after each episode.
    ///
    /// # Errors
    /// When an episode cannot be played.
    ///
    /// # Panics
    /// When a server cannot be restarted or refuses a command.
    pub fn play(mut self, interrupt: &Interrupt, mut on_episode: impl FnMut(&Row)) -> Result<Self, Failure> {
        let started = Instant::now();
        'rounds: for seed in self.options.seed.. {
            for (program, series) in self.episodes_of_round((seed - self.options.seed) as usize) {
                if started.elapsed() >= self.options.time_limit || interrupt.is_set() {
                    break 'rounds;
                }
                let episode = self.run_one_episode(&program, seed, series, interrupt)?;
                if interrupt.is_set() {
                    // The clients of an interrupted episode could not finish, so its findings mean nothing.
                    break 'rounds;
                }
                on_episode(&episode);
                let is_row = |row: &&mut Row| (row.subject, row.series) == (program.subject, series);
                if let Some(row) = self.rows.iter_mut().find(is_row) {
                    row.add(episode.duration, episode.findings);
                }
            }
        }
        self.duration = started.elapsed();
        Ok(self)
    }

    /// The findings, one row for each subject and series.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The duration of the run.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Each subject, and its name and version for the page.
    pub fn versions(&self) -> Vec<(Subject, String)> {
        self.programs.iter().map(|program| (program.subject, program.version.clone())).collect()
    }

    /// The reasons why this run fails: quorlock violated a guarantee, a library got no lease, none of quorlock's requests
    /// shared a command, or the judge found nothing in the controls.
    pub fn failures(&self) -> Vec<String> {
        let violated_rows = self.rows.iter().filter(|row| !row.subject.is_control() && row.is_violated());
        let mut failures: Vec<String> = violated_rows
            .map(|row| format!("{} violates its guarantees in series: {}", row.subject, row.series))
            .collect();
        for subject in &self.options.subjects {
            let rows_of_subject = || self.rows.iter().filter(|row| row.subject == *subject);
            let has_run = !subject.is_control() || rows_of_subject().any(|row| row.episodes > 0);
            if has_run && rows_of_subject().all(|row| row.findings.grants == 0) {
                failures.push(format!("{subject} was granted no lease, so this run proves nothing"));
            } else if !subject.is_control()
                && rows_of_subject().any(|row| row.episodes > 0 && Series::SHARED.contains(&row.series))
                && rows_of_subject().all(|row| row.findings.batched_requests == 0)
            {
                failures
                    .push(format!("{subject} never sent a batch: none of its requests shared a command with another"));
            }
        }
        let mut rows_of_controls =
            self.rows.iter().filter(|row| row.subject.is_control() && row.episodes > 0).peekable();
        if rows_of_controls.peek().is_some() && rows_of_controls.all(|row| row.findings.overlaps == 0) {
            failures
                .push("the judge found nothing in the controls, so this run proves nothing: run it for longer".into());
        }
        failures
    }

    fn episodes_of_round(&self, number: usize) -> Vec<(Program, Series)> {
        let (controls, quorlock): (Vec<&Program>, Vec<&Program>) =
            self.programs.iter().partition(|program| program.subject.is_control());
        let control = controls.get(number % controls.len().max(1));
        let (shared_series, other_series): (Vec<Series>, Vec<Series>) =
            self.options.series.iter().partition(|series| Series::SHARED.contains(series));
        let next_series = other_series.get(number % other_series.len().max(1));
        let mut round = Vec::new();
        for program in quorlock {
            round.extend(shared_series.iter().chain(next_series).map(|series| (program.clone(), *series)));
        }
        if let Some(program) = control {
            round.extend(shared_series.iter().map(|series| ((*program).clone(), *series)));
        }
        round
    }

    fn run_one_episode(
        &self,
        program: &Program,
        seed: u64,
        series: Series,
        interrupt: &Interrupt,
    ) -> Result<Row, Failure> {
        let path = self.options.histories.join(format!("{}-{series}-{seed}.jsonl", program.subject));
        let begun = Instant::now();
        let plan = Plan::of(series, seed, EPISODE);
        let records = match &self.host_programs {
            Some(programs) if series.uses_quorlock_run() => trial::play(series, &plan, programs, &path, interrupt)?,
            _ if series == Series::Sentinel => trial::play_sentinel(&plan, program, &path, interrupt)?,
            _ => run_episode(&plan, program, &path, interrupt)?,
        };
        let mut findings = match series {
            Series::Sentinel => Findings::of_failover(&records, trial::HEARTBEAT),
            _ => Findings::of(series.assumptions(), &records),
        };
        for message in &mut findings.messages {
            message.insert_str(0, &format!("seed {seed}: "));
        }
        let mut row = Row::new(program.subject, series);
        row.add(begun.elapsed(), findings);
        Ok(row)
    }
}
