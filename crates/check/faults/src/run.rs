//! Episode after episode, until the time is over.

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

/// How long faults are inflicted in one episode.
pub const EPISODE: Duration = Duration::from_secs(18);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Ways {
    /// Who is judged.
    pub subjects: Vec<Subject>,
    /// The kinds of episodes. Only quorlock is put through those that are not [shared](Series::SHARED).
    pub series: Vec<Series>,
    /// The seed of the first episode; each round has the next one.
    pub seed: u64,
    /// No episode begins later.
    pub length: Duration,
    /// Where the histories go: one file for each episode.
    pub histories: PathBuf,
}

/// A run, and what came of it so far.
#[derive(Debug)]
pub struct Run {
    ways: Ways,
    programs: Vec<Program>,
    /// The processes of `quorlock run`, if a series needs them.
    fleet: Option<Programs>,
    rows: Vec<Row>,
    took: Duration,
}

impl Run {
    /// Makes all subjects ready. `this` is the harness.
    ///
    /// # Errors
    /// When a subject cannot be made ready.
    pub fn new(ways: Ways, this: &std::path::Path) -> Result<Self, Failure> {
        let prepare = |subject: &Subject| Program::prepare(*subject, this.into());
        let programs = ways.subjects.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let of_subject = |subject: &Subject| {
            let series = ways.series.iter().filter(|series| !subject.is_control() || Series::SHARED.contains(series));
            series.map(|series| Row::new(*subject, *series)).collect::<Vec<_>>()
        };
        let rows = ways.subjects.iter().flat_map(of_subject).collect();
        let needs_fleet = ways.series.iter().any(|series| series.runs_commands());
        let fleet = needs_fleet.then(|| Programs::beside(this)).transpose()?;
        Ok(Self { ways, programs, fleet, rows, took: Duration::ZERO })
    }

    /// Plays episodes until the time is over. A round has quorlock, in the shared series and one of the others in turn, and
    /// one of the other subjects.
    ///
    /// # Errors
    /// When an episode cannot be played.
    ///
    /// # Panics
    /// When a server cannot be brought back, or does not obey.
    pub fn play(mut self, interrupt: &Interrupt, mut tell: impl FnMut(&Row)) -> Result<Self, Failure> {
        let started = Instant::now();
        'rounds: for seed in self.ways.seed.. {
            for (program, series) in self.round((seed - self.ways.seed) as usize) {
                if started.elapsed() >= self.ways.length || interrupt.is_set() {
                    break 'rounds;
                }
                let episode = self.episode(&program, seed, series, interrupt)?;
                if interrupt.is_set() {
                    // Nobody could finish: it shows nothing.
                    break 'rounds;
                }
                tell(&episode);
                let is_its = |row: &&mut Row| (row.subject, row.series) == (program.subject, series);
                if let Some(row) = self.rows.iter_mut().find(is_its) {
                    row.add(episode.took, episode.found);
                }
            }
        }
        self.took = started.elapsed();
        Ok(self)
    }

    /// What came of it, subject by subject.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How long it took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Each subject with its version.
    pub fn versions(&self) -> Vec<(Subject, String)> {
        self.programs.iter().map(|program| (program.subject, program.version.clone())).collect()
    }

    /// What must not be: something that quorlock violates, one who was never granted a lease or sent all of its requests
    /// alone, or others in which nothing is found.
    pub fn complaints(&self) -> Vec<String> {
        let own = self.rows.iter().filter(|row| !row.subject.is_control() && row.is_violated());
        let mut complaints: Vec<String> =
            own.map(|row| format!("{} violates what it promises: {}", row.subject, row.series)).collect();
        for subject in &self.ways.subjects {
            let its = || self.rows.iter().filter(|row| row.subject == *subject);
            let was_there = !subject.is_control() || its().any(|row| row.episodes > 0);
            if was_there && its().all(|row| row.found.grants == 0) {
                complaints.push(format!("{subject} was granted no lease: this run proves nothing"));
            } else if !subject.is_control()
                && its().any(|row| row.episodes > 0 && Series::SHARED.contains(&row.series))
                && its().all(|row| row.found.together == 0)
            {
                complaints.push(format!("nothing of {subject} went to a server together with other requests"));
            }
        }
        let mut others = self.rows.iter().filter(|row| row.subject.is_control() && row.episodes > 0).peekable();
        if others.peek().is_some() && others.all(|row| row.found.overlaps == 0) {
            complaints
                .push("nothing was found in the others either: this run proves nothing, let it run longer".into());
        }
        complaints
    }

    fn round(&self, number: usize) -> Vec<(Program, Series)> {
        let (others, own): (Vec<&Program>, Vec<&Program>) =
            self.programs.iter().partition(|program| program.subject.is_control());
        let other = others.get(number % others.len().max(1));
        let (shared, apart): (Vec<Series>, Vec<Series>) =
            self.ways.series.iter().partition(|series| Series::SHARED.contains(series));
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
        let path = self.ways.histories.join(format!("{}-{series}-{seed}.jsonl", program.subject));
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
        for story in &mut found.told {
            story.insert_str(0, &format!("seed {seed}: "));
        }
        let mut row = Row::new(program.subject, series);
        row.add(begun.elapsed(), found);
        Ok(row)
    }
}
