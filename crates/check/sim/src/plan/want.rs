//! The jobs of the library's users.

use quorlock_core::rng::Seeded;
use std::time::Duration;

/// Separates the generator of retirements from others of the same seed.
const RETIREMENTS: u64 = 0x0072_6574_6972_6564;

/// How a name is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Exclusively; some clients may use plain locks.
    Exclusive,
    /// By readers and writers.
    Shared,
    /// By owners, which may reenter.
    Reentrant,
    /// A semaphore with this many slots.
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

/// The goal of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The exclusive lock.
    Alone,
    /// The plain lock.
    Plain,
    /// The shared lock.
    Read,
    /// The exclusive lock among readers.
    Write,
    /// The reentrant lock.
    Enter {
        /// Whether to enter once more before leaving.
        again: bool,
    },
    /// The reentrant lock, as the owner that is retired in this run.
    Owned,
    /// The retirement of that owner from one of its names.
    Retire {
        /// The delay before it.
        after: Duration,
    },
    /// One of the slots.
    Slot(u32),
    /// All names at once, if all are exclusive.
    All,
    /// A break of the current lease.
    Break {
        /// Whether to break it now, which breaks an assumption.
        now: bool,
    },
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// One attempt.
    Once,
    /// Without a limit.
    Endless,
    /// For at most this long.
    Within(Duration),
}

/// When the caller cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Before the future is polled this often.
    Looks(u32),
    /// After this time.
    After(Duration),
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is released.
    Release,
    /// It is dropped.
    Drop,
    /// It is kept until it is lost, or dropped in the end.
    UntilLost,
    /// It is detached and passed to a client, which extends and releases it.
    HandOver {
        /// The receiving client.
        client: usize,
        /// The number of extensions.
        extensions: u32,
    },
}

/// One job of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The pause before it.
    pub rest: Duration,
    /// The index of the name.
    pub name: usize,
    /// The goal.
    pub want: Want,
    /// How long to wait.
    pub patience: Patience,
    /// When the caller cancels, if it does.
    pub cancel: Option<Cancel>,
    /// Whether leases are renewed.
    pub renews: bool,
    /// How long it works.
    pub works: Duration,
    /// The number of steps of the work.
    pub steps: u32,
    /// Whether it extends the lease once.
    pub extends: bool,
    /// How the lease ends.
    pub ending: Ending,
}

pub(super) fn jobs(rng: &mut Seeded, names: &[Kind], ttl: u64, is_beyond: bool) -> Vec<Job> {
    (0..rng.range(1, 3)).map(|_| job(rng, names, ttl, is_beyond)).collect()
}

fn job(rng: &mut Seeded, names: &[Kind], ttl: u64, is_beyond: bool) -> Job {
    let name = rng.index(names.len());
    let want = match names[name] {
        _ if rng.percent(4) => Want::Break { now: is_beyond && rng.percent(50) },
        Kind::Exclusive if rng.percent(15) => Want::Plain,
        Kind::Exclusive if names.len() > 1 && names.iter().all(|kind| *kind == Kind::Exclusive) && rng.percent(40) => {
            Want::All
        }
        Kind::Exclusive => Want::Alone,
        Kind::Shared if rng.percent(60) => Want::Read,
        Kind::Shared => Want::Write,
        Kind::Reentrant => Want::Enter { again: rng.percent(50) },
        Kind::Semaphore(permits) => Want::Slot(permits),
    };
    wanted(rng, name, want, ttl)
}

/// In some runs, the tasks of an owner that enters two names and is retired from the first, each with its client. They
/// have their own generator, so that the rest of a plan does not depend on them.
pub(super) fn retirement(seed: u64, names: usize, clients: usize, ttl: u64, horizon: u64) -> Vec<(usize, Vec<Job>)> {
    let rng = &mut Seeded::new(seed ^ RETIREMENTS);
    if !rng.percent(10) {
        return Vec::new();
    }
    let after = Duration::from_nanos(rng.below(horizon));
    let retires = wanted(rng, names, Want::Retire { after }, ttl);
    let mut tasks = vec![(rng.index(clients), vec![retires])];
    for _ in 0..rng.range(2, 4) {
        let client = rng.index(clients);
        let jobs = (0..rng.range(1, 4)).map(|_| {
            let name = names + rng.index(2);
            Job { cancel: None, ..wanted(rng, name, Want::Owned, ttl) }
        });
        tasks.push((client, jobs.collect()));
    }
    if rng.percent(50) {
        let rival = wanted(rng, names, Want::Enter { again: false }, ttl);
        tasks.push((rng.index(clients), vec![rival]));
    }
    tasks
}

fn wanted(rng: &mut Seeded, name: usize, want: Want, ttl: u64) -> Job {
    Job {
        rest: if rng.percent(50) { Duration::ZERO } else { rng.millis(0, ttl * 2) },
        name,
        want,
        patience: match rng.below(10) {
            0..3 => Patience::Once,
            3..5 => Patience::Within(rng.millis(1, ttl * 3)),
            _ => Patience::Endless,
        },
        cancel: match rng.below(10) {
            0 => Some(Cancel::Looks(rng.below(3) as u32)),
            1 => Some(Cancel::After(rng.millis(0, ttl / 8))),
            2 => Some(Cancel::After(rng.millis(0, ttl * 2))),
            _ => None,
        },
        renews: rng.percent(70),
        works: match rng.below(10) {
            0..3 => Duration::ZERO,
            3..7 => rng.millis(0, ttl / 2),
            _ => rng.millis(ttl / 2, ttl * 3 / 2),
        },
        steps: rng.range(1, 4) as u32,
        extends: rng.percent(10),
        ending: match rng.below(10) {
            0..5 => Ending::Release,
            5..8 => Ending::Drop,
            8 => Ending::UntilLost,
            _ => Ending::HandOver { client: rng.index(4), extensions: rng.below(4) as u32 },
        },
    }
}
