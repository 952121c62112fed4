//! The cases. Each case has an operation, for example a backup, and claims that must be true of its outcome.

use std::fmt;
use std::time::{Duration, Instant};

use quorlock_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

use super::crontab::{Crontab, Outcome, SHORT_REPORT, TTL};
use crate::Failure;
use crate::operation::{attach_replica, back_up};
use crate::series::{LOST, NO_QUORUM};

/// Exit code of `quorlock run` if its configuration is invalid.
const INVALID_CONFIG: i32 = 78;
/// A report that takes longer than a ttl.
const LONG_REPORT: Duration = Duration::from_secs(9);
/// A report that does not end during a case.
const ENDLESS_REPORT: Duration = Duration::from_secs(120);
/// How long a case waits until its first report starts.
const FIRST_REPORT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a case waits after its operation until the next report starts: several times the ttl and the quarantine.
const NEXT_REPORT_TIMEOUT: Duration = Duration::from_secs(40);

/// A case of the page.
pub struct Case {
    /// The heading of the case.
    pub title: &'static str,
    /// A description of the operation.
    pub description: &'static str,
    /// Environment variables of the crontab.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// The ttl and the cluster's maximum ttl.
    pub(super) ttl: Duration,
    pub(super) run: fn(&mut Crontab<'_>) -> Result<(), Failure>,
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
    ReportsComplete,
    /// No report begins after the operation.
    ReportsStop,
    /// Every run exits with this code.
    AllExitWith(i32),
    /// No message recommends `nodes init`.
    NoInitAdvice,
}

impl Claim {
    /// Whether the claim is true for this outcome.
    pub fn holds_for(self, outcome: &Outcome) -> bool {
        let Outcome { run_results, findings, reports_after, time_to_next_report, .. } = outcome;
        match self {
            Self::NoOverlap => findings.overlaps == 0,
            Self::FencesIncrease => findings.fences_out_of_order == 0,
            Self::AllSucceed => run_results.iter().all(|run_result| run_result.exit_code == Some(0)),
            Self::ReportsContinue => *reports_after > 0,
            Self::NextReportWithin(limit) => time_to_next_report.is_some_and(|time| time < limit),
            Self::ReportsComplete => {
                findings.runs_with(LOST) == 0 && findings.killed_clients == 0 && findings.broken_clients == 0
            }
            Self::ReportsStop => *reports_after == 0,
            Self::AllExitWith(code) => {
                !run_results.is_empty() && run_results.iter().all(|run_result| run_result.exit_code == Some(code))
            }
            Self::NoInitAdvice => !run_results.iter().any(|run_result| run_result.stderr.contains("nodes init")),
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
            Self::ReportsComplete => "every report runs to its end",
            Self::ReportsStop => "no report begins after the operation",
            Self::AllExitWith(code) => return write!(f, "every run exits with {code}"),
            Self::NoInitAdvice => "no message recommends `nodes init`",
        })
    }
}

/// For cases in which the operation must not disturb any run.
const CLAIMS_UNDISTURBED: &[Claim] =
    &[Claim::NoOverlap, Claim::FencesIncrease, Claim::AllSucceed, Claim::ReportsComplete, Claim::ReportsContinue];
/// For cases in which one run may fail, and a later run must get the lock.
const CLAIMS_TAKEN_OVER: &[Claim] = &[Claim::NoOverlap, Claim::FencesIncrease, Claim::ReportsContinue];
/// For cases in which the guard is stopped or killed, and the wrapper is not.
const CLAIMS_GUARD_ONLY: &[Claim] =
    &[Claim::NoOverlap, Claim::FencesIncrease, Claim::AllSucceed, Claim::ReportsComplete];
/// For cases in which no process can stop the command. Two reports may run at a time, but their fences differ.
const CLAIMS_FENCED: &[Claim] = &[Claim::FencesIncrease, Claim::ReportsContinue];

macro_rules! case {
    ($title:literal, $description:literal, $claims:expr, $run:expr) => {
        Case { title: $title, description: $description, environment: &[], ttl: TTL, claims: $claims, run: $run }
    };
}

pub(super) static CASES: [Case; 17] = [
    case!(
        "no operation",
        "Nothing disturbs the crontab line. Below, *the operation* means the moment before cron starts the line for the third time.",
        CLAIMS_UNDISTURBED,
        |crontab| {
            crontab.tick_times(2, SHORT_REPORT)?;
            crontab.mark_operation();
            crontab.tick_times(2, SHORT_REPORT)
        }
    ),
    case!(
        "backup of two nodes",
        "`redis-cli --rdb` backs up two of three nodes while a report runs.",
        CLAIMS_UNDISTURBED,
        |crontab| {
            start_report(crontab, LONG_REPORT)?;
            crontab.mark_operation();
            crontab.servers[..2].iter().for_each(back_up);
            crontab.tick_times(8, SHORT_REPORT)
        }
    ),
    case!(
        "first replica",
        "While a report runs, two of three nodes get a replica each. They had no replica before.",
        CLAIMS_UNDISTURBED,
        |crontab| {
            start_report(crontab, LONG_REPORT)?;
            crontab.mark_operation();
            let replicas: Vec<_> = crontab.servers[..2].iter().map(attach_replica).collect();
            crontab.tick_times(8, SHORT_REPORT)?;
            drop(replicas);
            Ok(())
        }
    ),
    case!(
        "restart of two nodes, with short reports only",
        "Two of three nodes restart and load their append-only files. All reports are short, so no run stays connected to the nodes \
         until their quarantine ends.",
        CLAIMS_TAKEN_OVER,
        |crontab| {
            crontab.tick_times(2, SHORT_REPORT)?;
            crontab.mark_operation();
            crontab.servers[..2].iter().for_each(RedisServer::restart);
            crontab.tick_until_next_report(NEXT_REPORT_TIMEOUT)
        }
    ),
    case!(
        "two nodes lose all their data",
        "Two of three nodes restart without their files. No majority belongs to the cluster any more, so an operator has to \
         initialize it again.",
        &[Claim::NoOverlap, Claim::FencesIncrease, Claim::ReportsStop],
        |crontab| {
            crontab.tick_times(2, SHORT_REPORT)?;
            crontab.mark_operation();
            crontab.servers[..2].iter().for_each(RedisServer::restart_empty);
            crontab.tick_times(5, SHORT_REPORT)
        }
    ),
    case!("kill -STOP of the wrapper", "The wrapper of a running report is stopped.", CLAIMS_TAKEN_OVER, |crontab| {
        signal(crontab, Signal::STOP, true, false)
    }),
    case!("kill -9 of the wrapper", "The wrapper of a running report is killed.", CLAIMS_TAKEN_OVER, |crontab| {
        signal(crontab, Signal::KILL, true, false)
    }),
    case!("kill -STOP of the guard", "The guard of a running report is stopped.", CLAIMS_GUARD_ONLY, |crontab| {
        signal(crontab, Signal::STOP, false, true)
    }),
    case!("kill -9 of the guard", "The guard of a running report is killed.", CLAIMS_GUARD_ONLY, |crontab| {
        signal(crontab, Signal::KILL, false, true)
    }),
    case!(
        "kill -9 of the guard, then of the wrapper",
        "The guard of a running report is killed. Its wrapper is killed a second later.",
        CLAIMS_TAKEN_OVER,
        |crontab| {
            let (client, guard, _) = start_report(crontab, ENDLESS_REPORT)?;
            crontab.mark_operation();
            let _ = kill_process(guard, Signal::KILL);
            crontab.wait(Duration::from_secs(1))?;
            crontab.host_runs.kill(client)?;
            crontab.tick_until_next_report(NEXT_REPORT_TIMEOUT)
        }
    ),
    case!(
        "kill -STOP of both",
        "The wrapper and the guard of a running report are stopped together. This breaks assumption A2: no process is left \
         that could stop the command.",
        CLAIMS_FENCED,
        |crontab| signal(crontab, Signal::STOP, true, true)
    ),
    case!(
        "kill -9 of both",
        "The wrapper and the guard of a running report are killed together. The kernel kills the command itself, but no \
         process is left that could stop the command's own children.",
        CLAIMS_FENCED,
        |crontab| signal(crontab, Signal::KILL, true, true)
    ),
    Case {
        title: "empty settings",
        description: "The crontab sets `QUORLOCK_NODES=\" \"`.",
        environment: &[("QUORLOCK_NODES", " ")],
        ttl: TTL,
        claims: &[Claim::AllExitWith(INVALID_CONFIG), Claim::ReportsStop],
        run: |crontab| {
            crontab.mark_operation();
            crontab.tick_times(1, SHORT_REPORT)
        },
    },
    case!(
        "a node is unreachable",
        "One of three nodes is down while a report runs, and stays down.",
        CLAIMS_UNDISTURBED,
        |crontab| {
            start_report(crontab, LONG_REPORT)?;
            crontab.mark_operation();
            crontab.servers[0].kill();
            crontab.tick_times(7, SHORT_REPORT)
        }
    ),
    case!(
        "two of three nodes are unreachable",
        "Two of three nodes are down, and stay down.",
        &[Claim::AllExitWith(NO_QUORUM), Claim::ReportsStop, Claim::NoInitAdvice],
        |crontab| {
            crontab.mark_operation();
            crontab.servers[..2].iter().for_each(RedisServer::kill);
            crontab.tick_times(2, SHORT_REPORT)
        }
    ),
    case!(
        "a dashboard that subscribes to all channels",
        "A dashboard subscribes to all channels (`PSUBSCRIBE *`) of every node.",
        CLAIMS_UNDISTURBED,
        |crontab| {
            crontab.subscribe_to_all_channels()?;
            crontab.tick_times(2, SHORT_REPORT)?;
            crontab.mark_operation();
            crontab.tick_times(2, SHORT_REPORT)
        }
    ),
    Case {
        title: "a dashboard, and a waiter that died",
        description: "A dashboard subscribes to all channels of every node. The ttl is 20 s. While a report runs, the test \
                      starts two more runs, with `--wait 1m` instead of `--if-held skip`. Both wait. The test kills the \
                      first waiter. Then the report ends, and the second waiter must get the lock. Below, *the operation* \
                      means the end of the report.",
        environment: &[],
        ttl: Duration::from_secs(20),
        claims: &[Claim::NoOverlap, Claim::FencesIncrease, Claim::NextReportWithin(Duration::from_secs(10))],
        run: |crontab| {
            let line_that_waits = ["run", "nightly-report", "--wait", "1m"];
            crontab.subscribe_to_all_channels()?;
            let begun = Instant::now();
            start_report(crontab, LONG_REPORT)?;
            let first_waiter = crontab.host_runs.start(1, &line_that_waits, true, SHORT_REPORT)?;
            crontab.wait(Duration::from_secs(2))?;
            crontab.host_runs.start(2, &line_that_waits, true, SHORT_REPORT)?;
            // The waiter is killed shortly before the report ends, so that its queue position still exists at the end.
            crontab.wait(LONG_REPORT.saturating_sub(SHORT_REPORT + begun.elapsed()))?;
            crontab.host_runs.kill(first_waiter)?;
            crontab.wait_until(LONG_REPORT * 2, |crontab| crontab.host_runs.holder().is_none())?;
            crontab.mark_operation();
            crontab.wait_until(NEXT_REPORT_TIMEOUT, |crontab| crontab.host_runs.grants() > 1).map(drop)
        },
    },
];

/// Starts the line on every host. Returns the number, the guard and the wrapper of the run that got the lock.
fn start_report(crontab: &mut Crontab<'_>, busy: Duration) -> Result<(u32, Pid, Pid), Failure> {
    crontab.tick(busy)?;
    crontab.wait_until(FIRST_REPORT_TIMEOUT, |crontab| crontab.host_runs.holder().is_some())?;
    let holder = crontab.host_runs.holder().ok_or("no host got the lock")?;
    let guard = holder.guard().ok_or("the run has no guard")?;
    Ok((holder.client, guard, holder.wrapper()))
}

/// Sends a signal to the wrapper of a running report, to its guard, or to both, and lets cron continue. A stopped process
/// gets SIGCONT at the end of the case.
fn signal(crontab: &mut Crontab<'_>, signal: Signal, to_wrapper: bool, to_guard: bool) -> Result<(), Failure> {
    let (client, guard, wrapper) = start_report(crontab, if to_wrapper { ENDLESS_REPORT } else { LONG_REPORT })?;
    crontab.mark_operation();
    if to_guard {
        kill_process(guard, signal)?;
    }
    if to_wrapper && signal == Signal::KILL {
        crontab.host_runs.kill(client)?;
    } else if to_wrapper {
        kill_process(wrapper, signal)?;
    }
    if to_wrapper {
        crontab.tick_until_next_report(NEXT_REPORT_TIMEOUT)?;
        // If the old report still runs, it now runs at the same time as the next report.
        crontab.tick_times(1, SHORT_REPORT)?;
    } else {
        crontab.tick_times(6, SHORT_REPORT)?;
    }
    if signal == Signal::STOP {
        for process in [guard, wrapper] {
            // The process may have ended.
            let _ = kill_process(process, Signal::CONT);
        }
        crontab.wait(Duration::from_secs(1))?;
    }
    Ok(())
}
