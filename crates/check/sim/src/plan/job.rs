//! The jobs of the simulated tasks. A job acquires a lock, works and releases, or it retires an owner or breaks a lease.

use std::time::Duration;

use quorlock_core::rng::Seeded;

/// Combined with the seed of a run, gives the seed of the random generator for retirements.
const RETIREMENT_SALT: u64 = 0x0072_6574_6972_6564;

/// The kind of the locks with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Exclusive locks. Some clients use plain locks.
    Exclusive,
    /// Read locks and write locks.
    Shared,
    /// Reentrant locks.
    Reentrant,
    /// A semaphore with this number of slots.
    Semaphore(u32),
}

impl Kind {
    pub(super) fn draw(rng: &mut Seeded) -> Self {
        match rng.below(10) {
            0..5 => Self::Exclusive,
            5..7 => Self::Shared,
            7 => Self::Reentrant,
            _ => Self::Semaphore(rng.range(1, 3) as u32),
        }
    }
}

/// What a job acquires or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The exclusive lock.
    Alone,
    /// The plain lock.
    Plain,
    /// The read lock.
    Read,
    /// The write lock.
    Write,
    /// The reentrant lock.
    Enter {
        /// Whether the job enters once more before the release.
        enters_again: bool,
    },
    /// The reentrant lock, for the owner that is retired in this run.
    EnterAsRetiree,
    /// The retirement of an owner from one of its names.
    Retire {
        /// The delay before the retirement.
        delay: Duration,
    },
    /// One of the slots.
    Slot(u32),
    /// All names at once, if all are exclusive.
    All,
    /// A break of the current lease.
    Break {
        /// Whether the break frees the lock at once (`now`), which breaks an assumption.
        is_now: bool,
    },
}

/// How long a job waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// One attempt.
    Once,
    /// Without a limit.
    Endless,
    /// For at most this duration.
    Within(Duration),
}

/// When the caller cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// After this number of polls of the future.
    Polls(u32),
    /// After this duration.
    After(Duration),
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The job releases the lease.
    Release,
    /// The job drops the lease.
    Drop,
    /// The job keeps the lease until the lease is lost, for at most two ttls.
    UntilLost,
    /// The job detaches the lease and passes it to a client, which extends and releases the lease.
    Detach {
        /// The receiving client.
        client: usize,
        /// The number of extensions.
        extensions: u32,
    },
}

/// One job of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The pause before the job.
    pub rest_before: Duration,
    /// The index of the lock's name.
    pub name: usize,
    /// The goal.
    pub goal: Goal,
    /// How long the job waits for the lock.
    pub patience: Patience,
    /// When the caller cancels, if at all.
    pub cancel: Option<Cancel>,
    /// Whether the watchdog renews the lease.
    pub has_renewals: bool,
    /// How long the job works while it holds the lock.
    pub work_time: Duration,
    /// The number of steps of the work. Each step writes to the protected store.
    pub steps: u32,
    /// Whether the job extends the lease once.
    pub has_extension: bool,
    /// How the lease ends.
    pub ending: Ending,
}

/// Draws the jobs of a task.
pub(super) fn draw_jobs(rng: &mut Seeded, names: &[Kind], ttl_millis: u64, is_beyond_assumptions: bool) -> Vec<Job> {
    (0..rng.range(1, 3)).map(|_| draw_job(rng, names, ttl_millis, is_beyond_assumptions)).collect()
}

fn draw_job(rng: &mut Seeded, names: &[Kind], ttl_millis: u64, is_beyond_assumptions: bool) -> Job {
    let name = rng.index(names.len());
    let goal = match names[name] {
        _ if rng.percent(4) => Goal::Break { is_now: is_beyond_assumptions && rng.percent(50) },
        Kind::Exclusive if rng.percent(15) => Goal::Plain,
        Kind::Exclusive if names.len() > 1 && names.iter().all(|kind| *kind == Kind::Exclusive) && rng.percent(40) => {
            Goal::All
        }
        Kind::Exclusive => Goal::Alone,
        Kind::Shared if rng.percent(60) => Goal::Read,
        Kind::Shared => Goal::Write,
        Kind::Reentrant => Goal::Enter { enters_again: rng.percent(50) },
        Kind::Semaphore(permits) => Goal::Slot(permits),
    };
    draw_job_with_goal(rng, name, goal, ttl_millis)
}

/// In some runs, draws tasks in which an owner enters two locks and is retired from the first of them. Returns each task
/// with the index of its client. The tasks have their own random generator, so that the rest of a plan does not depend
/// on them.
pub(super) fn draw_retirement(
    seed: u64,
    names: usize,
    clients: usize,
    ttl_millis: u64,
    horizon_nanos: u64,
) -> Vec<(usize, Vec<Job>)> {
    let rng = &mut Seeded::new(seed ^ RETIREMENT_SALT);
    if !rng.percent(10) {
        return Vec::new();
    }
    let delay = Duration::from_nanos(rng.below(horizon_nanos));
    let retiring_job = draw_job_with_goal(rng, names, Goal::Retire { delay }, ttl_millis);
    let mut tasks = vec![(rng.index(clients), vec![retiring_job])];
    for _ in 0..rng.range(2, 4) {
        let client = rng.index(clients);
        let jobs = (0..rng.range(1, 4)).map(|_| {
            let name = names + rng.index(2);
            Job { cancel: None, ..draw_job_with_goal(rng, name, Goal::EnterAsRetiree, ttl_millis) }
        });
        tasks.push((client, jobs.collect()));
    }
    if rng.percent(50) {
        let other_owner = draw_job_with_goal(rng, names, Goal::Enter { enters_again: false }, ttl_millis);
        tasks.push((rng.index(clients), vec![other_owner]));
    }
    tasks
}

fn draw_job_with_goal(rng: &mut Seeded, name: usize, goal: Goal, ttl_millis: u64) -> Job {
    Job {
        rest_before: if rng.percent(50) { Duration::ZERO } else { rng.millis(0, ttl_millis * 2) },
        name,
        goal,
        patience: match rng.below(10) {
            0..3 => Patience::Once,
            3..5 => Patience::Within(rng.millis(1, ttl_millis * 3)),
            _ => Patience::Endless,
        },
        cancel: match rng.below(10) {
            0 => Some(Cancel::Polls(rng.below(3) as u32)),
            1 => Some(Cancel::After(rng.millis(0, ttl_millis / 8))),
            2 => Some(Cancel::After(rng.millis(0, ttl_millis * 2))),
            _ => None,
        },
        has_renewals: rng.percent(70),
        work_time: match rng.below(10) {
            0..3 => Duration::ZERO,
            3..7 => rng.millis(0, ttl_millis / 2),
            _ => rng.millis(ttl_millis / 2, ttl_millis * 3 / 2),
        },
        steps: rng.range(1, 4) as u32,
        has_extension: rng.percent(10),
        ending: match rng.below(10) {
            0..5 => Ending::Release,
            5..8 => Ending::Drop,
            8 => Ending::UntilLost,
            _ => Ending::Detach { client: rng.index(4), extensions: rng.below(4) as u32 },
        },
    }
}
