//! The cases: each has an operation, and claims about its outcome that must be true.

use std::fmt;
use std::time::{Duration, Instant};

use quorlock_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

use super::crontab::{Crontab, Outcome, SHORT, TTL};
use crate::Failure;
use crate::operation::{attach_replica, back_up};
use crate::series::{LOST, NO_QUORUM};

/// The exit code for an invalid configuration.
const CONFIG: i32 = 78;
/// A report that takes longer than a ttl.
const LONG: Duration = Duration::from_secs(9);
/// A report that does not end during a case.
const ENDLESS: Duration = Duration::from_secs(120);
/// How long a case waits for the first report.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the other hosts have to take over after an operation: several times the ttl and the quarantine.
const TAKEOVER: Duration = Duration::from_secs(40);

/// A case of the page.
pub struct Case {
    /// The heading of the case.
    pub title: &'static str,
    /// The operation, in one or two sentences.
    pub description: &'static str,
    /// Environment variables of the crontab.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// The ttl and the cluster's maximum ttl.
    pub(super) ttl: Duration,
    pub(super) play: fn(&mut Crontab<'_>) -> Result<(), Failure>,
    /// The claims that must be true.
    pub claims: &'static [Claim],
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}

/// A claim about the outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No two reports run at a time.
    NoOverlap,
    /// Later leases have higher fences.
    FencesIncrease,
    /// Every run exits with 0.
    AllSucceed,
    /// Reports continue after the operation.
    ReportsContinue,
    /// The next report begins within this time after the operation.
    NextReportWithin(Duration),
    /// Every report has run to its end.
    AllComplete,
    /// No report begins after the operation.
    NoReport,
    /// Every run that began after the operation exits with this code.
    AllExit(i32),
    /// No message recommends `nodes init`.
    NoInitAdvice,
}

impl Claim {
    /// Whether the claim is true of this outcome.
    pub fn is_true_of(self, outcome: &Outcome) -> bool {
        let Outcome { ends, found, after, takeover, .. } = outcome;
        match self {
            Self::NoOverlap => found.overlaps == 0,
            Self::FencesIncrease => found.disorder == 0,
            Self::AllSucceed => ends.iter().all(|end| end.code == Some(0)),
            Self::ReportsContinue => *after > 0,
            Self::NextReportWithin(limit) => takeover.is_some_and(|takeover| takeover < limit),
            Self::AllComplete => found.runs_with(LOST) == 0 && found.killed == 0 && found.broken == 0,
            Self::NoReport => *after == 0,
            Self::AllExit(code) => !ends.is_empty() && ends.iter().all(|end| end.code == Some(code)),
            Self::NoInitAdvice => !ends.iter().any(|end| end.messages.contains("nodes init")),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOverlap => "no two reports run at a time",
            Self::FencesIncrease => "a later report has a higher fence",
            Self::AllSucceed => "every run exits with 0",
            Self::ReportsContinue => "reports continue after the operation",
            Self::NextReportWithin(limit) => return write!(f, "the next report begins within {limit:?}"),
            Self::AllComplete => "every report runs to its end",
            Self::NoReport => "no report begins after the operation",
            Self::AllExit(code) => return write!(f, "every run exits with {code}"),
            Self::NoInitAdvice => "no message recommends `nodes init`",
        })
    }
}

const UNDISTURBED: &[Claim] =
    &[Claim::NoOverlap, Claim::FencesIncrease, Claim::AllSucceed, Claim::AllComplete, Claim::ReportsContinue];
const TAKEN_OVER: &[Claim] = &[Claim::NoOverlap, Claim::FencesIncrease, Claim::ReportsContinue];
/// The guard was stopped or killed, and the wrapper was not.
const GUARD_ONLY: &[Claim] = &[Claim::NoOverlap, Claim::FencesIncrease, Claim::AllSucceed, Claim::AllComplete];
/// No process is left that could stop the command: two reports may run at a time, but their fences differ.
const FENCED: &[Claim] = &[Claim::FencesIncrease, Claim::ReportsContinue];

macro_rules! case {
    ($title:literal, $description:literal, $claims:expr, $play:expr) => {
        Case { title: $title, description: $description, environment: &[], ttl: TTL, claims: $claims, play: $play }
    };
}

pub(super) static CASES: [Case; 17] = [
    case!(
        "no operation",
        "Nothing disturbs the crontab line. The middle of the case counts as the operation.",
        UNDISTURBED,
        |crontab| {
            crontab.ticks(2, SHORT)?;
            crontab.mark();
            crontab.ticks(2, SHORT)
        }
    ),
    case!(
        "backup of two nodes",
        "`redis-cli --rdb` backs up two of three nodes while a report runs.",
        UNDISTURBED,
        |crontab| {
            begin(crontab, LONG)?;
            crontab.mark();
            crontab.servers[..2].iter().for_each(back_up);
            crontab.ticks(8, SHORT)
        }
    ),
    case!(
        "first replica",
        "A first replica attaches to two of three nodes while a report runs.",
        UNDISTURBED,
        |crontab| {
            begin(crontab, LONG)?;
            crontab.mark();
            let replicas: Vec<_> = crontab.servers[..2].iter().map(attach_replica).collect();
            crontab.ticks(8, SHORT)?;
            drop(replicas);
            Ok(())
        }
    ),
    case!(
        "restart of two nodes, with short reports only",
        "Two of three nodes restart and load their append-only files. All reports are short, so no client stays connected.",
        TAKEN_OVER,
        |crontab| {
            crontab.ticks(2, SHORT)?;
            crontab.mark();
            crontab.servers[..2].iter().for_each(RedisServer::restart);
            crontab.tick_until_next(TAKEOVER)
        }
    ),
    case!(
        "two nodes lose all their data",
        "Two of three nodes restart without their files. No majority belongs to the cluster any more, so an operator has to \
         initialize it again.",
        &[Claim::NoOverlap, Claim::FencesIncrease, Claim::NoReport],
        |crontab| {
            crontab.ticks(2, SHORT)?;
            crontab.mark();
            crontab.servers[..2].iter().for_each(RedisServer::restart_empty);
            crontab.ticks(5, SHORT)
        }
    ),
    case!("kill -STOP of the wrapper", "The wrapper of a running report is stopped.", TAKEN_OVER, |crontab| {
        signal(crontab, Signal::STOP, true, false)
    }),
    case!("kill -9 of the wrapper", "The wrapper of a running report is killed.", TAKEN_OVER, |crontab| {
        signal(crontab, Signal::KILL, true, false)
    }),
    case!("kill -STOP of the guard", "The guard of a running report is stopped.", GUARD_ONLY, |crontab| {
        signal(crontab, Signal::STOP, false, true)
    }),
    case!("kill -9 of the guard", "The guard of a running report is killed.", GUARD_ONLY, |crontab| {
        signal(crontab, Signal::KILL, false, true)
    }),
    case!(
        "kill -9 of the guard, then of the wrapper",
        "The guard of a running report is killed. Its wrapper is killed a second later.",
        TAKEN_OVER,
        |crontab| {
            let (client, guard, _) = begin(crontab, ENDLESS)?;
            crontab.mark();
            let _ = kill_process(guard, Signal::KILL);
            crontab.wait(Duration::from_secs(1))?;
            crontab.fleet.kill(client)?;
            crontab.tick_until_next(TAKEOVER)
        }
    ),
    case!(
        "kill -STOP of both",
        "The wrapper and the guard of a running report are stopped together. This breaks assumption A2: no process is left \
         that could stop the command.",
        FENCED,
        |crontab| signal(crontab, Signal::STOP, true, true)
    ),
    case!(
        "kill -9 of both",
        "The wrapper and the guard of a running report are killed together. The kernel kills the command itself, but no \
         process is left that could stop the command's own children.",
        FENCED,
        |crontab| signal(crontab, Signal::KILL, true, true)
    ),
    Case {
        title: "empty settings",
        description: "The crontab sets `QUORLOCK_NODES=\" \"`.",
        environment: &[("QUORLOCK_NODES", " ")],
        ttl: TTL,
        claims: &[Claim::AllExit(CONFIG), Claim::NoReport],
        play: |crontab| {
            crontab.mark();
            crontab.ticks(1, SHORT)
        },
    },
    case!(
        "a node is unreachable",
        "One of three nodes is down while a report runs, and stays down.",
        UNDISTURBED,
        |crontab| {
            begin(crontab, LONG)?;
            crontab.mark();
            crontab.servers[0].kill();
            crontab.ticks(7, SHORT)
        }
    ),
    case!(
        "two of three nodes are unreachable",
        "Two of three nodes are down, and stay down.",
        &[Claim::AllExit(NO_QUORUM), Claim::NoReport, Claim::NoInitAdvice],
        |crontab| {
            crontab.mark();
            crontab.servers[..2].iter().for_each(RedisServer::kill);
            crontab.ticks(2, SHORT)
        }
    ),
    case!(
        "a dashboard that subscribes to all channels",
        "A dashboard subscribes to all channels (`PSUBSCRIBE *`) of every node.",
        UNDISTURBED,
        |crontab| {
            crontab.subscribe_to_all_channels()?;
            crontab.ticks(2, SHORT)?;
            crontab.mark();
            crontab.ticks(2, SHORT)
        }
    ),
    Case {
        title: "a dashboard, and a waiter that died",
        description: "As in the case before, but with a ttl of 20 s and `--wait 1m` instead of `--if-held skip`. The first \
                      waiter is killed. Then the report ends, and the second waiter must get the lock.",
        environment: &[],
        ttl: Duration::from_secs(20),
        claims: &[Claim::NoOverlap, Claim::FencesIncrease, Claim::NextReportWithin(Duration::from_secs(10))],
        play: |crontab| {
            let waiting = ["run", "nightly-report", "--wait", "1m"];
            crontab.subscribe_to_all_channels()?;
            let begun = Instant::now();
            begin(crontab, LONG)?;
            let dead = crontab.fleet.start(1, &waiting, true, SHORT)?;
            crontab.wait(Duration::from_secs(2))?;
            crontab.fleet.start(2, &waiting, true, SHORT)?;
            // Late enough that the queue position of the killed waiter outlives the report.
            crontab.wait(LONG.saturating_sub(SHORT + begun.elapsed()))?;
            crontab.fleet.kill(dead)?;
            crontab.until(LONG * 2, |crontab| crontab.fleet.holder().is_none())?;
            crontab.mark();
            crontab.until(TAKEOVER, |crontab| crontab.fleet.grants() > 1).map(drop)
        },
    },
];

/// Starts the job on every host. Returns the client number, the guard and the wrapper of the run that got the lock.
fn begin(crontab: &mut Crontab<'_>, busy: Duration) -> Result<(u32, Pid, Pid), Failure> {
    crontab.tick(busy)?;
    crontab.until(PATIENCE, |crontab| crontab.fleet.holder().is_some())?;
    let holder = crontab.fleet.holder().ok_or("no host got the lock")?;
    let guard = holder.guard().ok_or("the run has no guard")?;
    Ok((holder.client, guard, holder.wrapper()))
}

/// Sends a signal to the wrapper or the guard of a running report, or to both, and lets cron continue. A stopped
/// process is continued in the end.
fn signal(crontab: &mut Crontab<'_>, signal: Signal, to_wrapper: bool, to_guard: bool) -> Result<(), Failure> {
    let (client, guard, wrapper) = begin(crontab, if to_wrapper { ENDLESS } else { LONG })?;
    crontab.mark();
    if to_guard {
        kill_process(guard, signal)?;
    }
    if to_wrapper && signal == Signal::KILL {
        crontab.fleet.kill(client)?;
    } else if to_wrapper {
        kill_process(wrapper, signal)?;
    }
    if to_wrapper {
        crontab.tick_until_next(TAKEOVER)?;
        // Long enough for two reports to overlap.
        crontab.ticks(1, SHORT)?;
    } else {
        crontab.ticks(6, SHORT)?;
    }
    if signal == Signal::STOP {
        for process in [guard, wrapper] {
            // The process may have ended meanwhile.
            let _ = kill_process(process, Signal::CONT);
        }
        crontab.wait(Duration::from_secs(1))?;
    }
    Ok(())
}
