//! `quorlock run`: runs a command while holding a lock. If the lock may be lost, this process stops the command before
//! anyone else can acquire the lock.
//!
//! This process is the *wrapper* of the command. A second process, the *guard*, kills the command if the wrapper
//! cannot.

mod environment;
mod guard;
mod job;
mod limits;
mod nesting;
mod report;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use quorlock::{Client, DetachedLease, Lease, Renewals};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group, kill_process};

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::duration::{millis, parse_duration, show, show_exactly};
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::or_dash;
use crate::lock::LockArgs;
use crate::process::Process;
use crate::signals::{SIGNALS_WHILE_RUNNING, Signals};
use guard::{Guard, LeaseToRelease, boot_time};
use job::Job;
use limits::{Cause, Limits, OnLost};
use report::Report;
use supervise::{RunEnd, Supervisor};
use terminal::Terminal;

/// Run a command while holding a lock.
#[derive(Args, Debug)]
#[command(before_help = DESCRIPTION, after_help = NOTES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    lock: LockArgs,

    /// If held, after --wait: fail (75), skip (0) or wait [default: wait on a terminal, else fail].
    #[arg(long, value_name = "ACTION", hide_possible_values = true, help_heading = "Waiting")]
    if_held: Option<IfHeld>,

    /// Hold at least this long, so that a host with a slow clock does not run the job again.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Duration of the command")]
    min_hold: Option<Duration>,

    /// Stop the command after this long; exit with 79.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Duration of the command")]
    max_hold: Option<Duration>,

    /// Wait this long before SIGKILL [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Duration of the command")]
    kill_grace: Option<Duration>,

    /// If the lock may be lost: stop (SIGTERM, then SIGKILL), kill (SIGKILL) or ignore (then check the fence).
    #[arg(long, value_name = "ACTION", default_value = "stop", hide_possible_values = true, help_heading = "Holding")]
    on_lost: OnLost,

    /// If held, exit with N [default: 75].
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "N", help_heading = "Result")]
    held_code: Option<u8>,

    /// Write the result to FILE, as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    result_file: Option<PathBuf>,

    /// The command and its arguments.
    #[arg(last = true, required = true, hide_short_help = true, long_help = "The command and its arguments")]
    command: Vec<OsString>,
}

/// The action if the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IfHeld {
    /// Exit with 75.
    Fail,
    /// Exit with 0.
    Skip,
    /// Wait for the lock.
    Wait,
}

const DESCRIPTION: &str = "\
If the lock is held, wait for it (on a terminal) or exit with 75 (elsewhere); see --wait and --if-held. The command's \
exit code becomes ours. If the lock is lost, the command is stopped before anyone else can acquire it, and we exit \
with 79.";

const NOTES: &str = include_str!("run/notes.txt");

/// The interval at which a nested run checks whether the outer run still holds the lock.
const OUTER_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The hidden command that kills itself with a signal, so that the shell that runs the script learns of the signal.
const DIE: &str = "__die";

/// Returns a program that runs the command in its arguments. The command is killed as soon as this process ends for any
/// reason.
///
/// If `gate` is the reading end of a pipe, the command starts when something is written to that pipe.
pub(crate) fn bound_program(gate: Option<RawFd>) -> Command {
    let mut program = hidden_program(job::COMMAND);
    // A dash means that there is no gate.
    program.arg(getpid().to_string()).arg(or_dash(gate));
    program
}

/// Returns this program with a hidden command as its argument.
fn hidden_program(command: &str) -> Command {
    // The path of this program may already belong to a newer version.
    let mut program = Command::new("/proc/self/exe");
    program.arg0("quorlock").arg(command);
    program
}

/// Runs a hidden command, if this process was started for one.
///
/// Must be called before everything else: every `quorlock run` starts hidden commands, so they must start fast.
pub(crate) fn run_hidden_command() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let command = arguments.nth(1)?;
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    match command.to_str()? {
        guard::COMMAND => Some(guard::main()),
        job::COMMAND => {
            let (wrapper, gate) = (number().and_then(Pid::from_raw), number());
            Some(job::become_command(wrapper, gate, arguments).into())
        }
        DIE => Some(die(number().and_then(Signal::from_named_raw))),
        _ => None,
    }
}

/// Dies by this signal. Writes no core dump, because this process has no error.
fn die(signal: Option<Signal>) -> ExitCode {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    if let Some(signal) = signal {
        let _ = kill_process(getpid(), signal);
    }
    signal.map_or(Exit::INTERNAL, |signal| Exit::signal(signal.as_raw())).into()
}

/// Acquires the lock, runs the command, releases the lock, and reports the result.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Outcome {
    context.refuse_memory_nodes("run")?;
    let ttl = context.ttl(args.lock.ttl)?;
    let grace = args.kill_grace.unwrap_or_else(|| context.settings.duration("kill_grace"));
    check_args(&args, ttl, grace)?;
    let mut report = Report::new(&args.lock.name, args.lock.kind());
    let limits = Limits { on_lost: args.on_lost, grace, max_hold: args.max_hold };
    let exit = match run_locked(context, &args, ttl, limits, &mut report).await {
        Ok(exit) => exit,
        Err(failure) if failure.exit == Exit::HELD => {
            // The report contains only the first line of the text. The other lines are advice for the user.
            let reason = failure.text.lines().next().unwrap_or_default();
            report.reason = Some(reason.to_owned());
            if args.if_held == Some(IfHeld::Skip) {
                report.outcome = "skipped";
                context.output.note(format!("skipped: {reason}"));
                Exit::OK
            } else {
                report.outcome = "held";
                failure.report();
                args.held_code.map_or(Exit::HELD, Exit)
            }
        }
        Err(failure) => {
            let exit = failure.report();
            report.reason = Some(failure.text);
            exit
        }
    };
    report.exit = exit.0;
    let exit = print_report(context, &args, &report, exit);
    if let Some(signal) = report.signal.filter(|_| report.is_from_terminal) {
        // If this process exited normally, the shell would continue its script. Die by the signal instead.
        let _ = hidden_program(DIE).arg(signal.to_string()).exec();
    }
    exit
}

/// Prints the report, and writes the result file, as far as the arguments ask for them. Returns the exit code.
fn print_report(context: &Context, args: &RunArgs, report: &Report, exit: Exit) -> Outcome {
    if context.output.json {
        context.output.json(report)?;
    }
    let written = args.result_file.as_ref().map_or(Ok(()), |path| report.write(path));
    let exit_of_report = written.map_or_else(|failure| failure.report(), |()| Exit::OK);
    // The exit code of the command takes precedence over a failure to write the report.
    Ok(if exit == Exit::OK { exit_of_report } else { exit })
}

/// Checks the arguments that parsing cannot check.
fn check_args(args: &RunArgs, ttl: Duration, grace: Duration) -> Outcome<()> {
    let min_ttl = (grace + Duration::from_secs(1)) * 3;
    if ttl < min_ttl {
        let max_grace = (ttl / 3).saturating_sub(Duration::from_secs(1)).as_millis();
        let grace_advice = if max_grace == 0 { String::new() } else { format!(", or --kill-grace {max_grace}ms") };
        let [ttl, grace, min_ttl] = [ttl, grace, min_ttl].map(show_exactly);
        return Err(Failure::usage(format_args!(
            "a ttl of {ttl} leaves no time to end the command before the lock is lost: with a kill grace of {grace}, the \
             ttl must be at least {min_ttl}\n  use --ttl {min_ttl}{grace_advice}"
        )));
    }
    if args.lock.no_wait && args.if_held == Some(IfHeld::Wait) {
        return Err(Failure::usage("--no-wait and --if-held wait contradict each other"));
    }
    if let (Some(min_hold), Some(max_hold)) = (args.min_hold, args.max_hold)
        && min_hold > max_hold
    {
        let [min_hold, max_hold] = [min_hold, max_hold].map(show);
        return Err(Failure::usage(format_args!("--min-hold {min_hold} is longer than --max-hold {max_hold}")));
    }
    if let Some(folder) = args.result_file.as_ref().and_then(|path| path.parent())
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        return Err(Failure::usage(format_args!("--result-file: there is no folder {}", folder.display())));
    }
    Ok(())
}

/// Acquires the lock, runs the command, and releases the lock. Fails if the command was not run.
async fn run_locked(context: &Context, args: &RunArgs, ttl: Duration, limits: Limits, report: &mut Report) -> Outcome {
    // The command cannot be watched without a /proc that shows our processes: fail before acquiring the lock.
    Process::find(std::process::id())?;
    let outer_leases = nesting::inherited();
    context.print_nodes()?;
    let mut signals = Signals::listen()?;
    let mut guard = Guard::start().map_err(Failure::cannot("start a guard"))?;
    let mut access = context.access()?;
    access.ttl = ttl;
    let mut builder = access.builder();
    if let Some(guard) = guard.id() {
        // A lock in a file is freed as soon as every process that keeps it alive is gone.
        builder = builder.add_holder_process(guard);
    }
    let started = Instant::now();
    let client = tokio::select! {
        client = context.connect_with(builder) => client?,
        signal = signals.next_fatal() => return Ok(interrupted_exit(report, signal)),
    };
    let lease = tokio::select! {
        lease = acquire(context, args, &outer_leases, &client) => lease,
        signal = signals.next_fatal() => {
            // Dropping the future of the acquire releases all grants in the background. Wait for these releases.
            let _ = client.close(FLUSH_TIMEOUT).await;
            report.waited_ms = millis(started.elapsed());
            return Ok(interrupted_exit(report, signal));
        }
    };
    report.waited_ms = millis(started.elapsed());
    let lease = lease?;
    let held_since = Instant::now();
    let hold_until = args.min_hold.map(|min_hold| boot_time() + min_hold);
    let lease_to_release = LeaseToRelease { access, lease: lease.as_detached().reveal(), hold_until };
    guard.set_lease(lease_to_release).map_err(Failure::cannot("start a guard"))?;
    report.fence = lease.fence().ok().map(quorlock::Fence::get);
    report.slot = lease.slot();
    if let Some(fence) = report.fence {
        let (name, waited) = (&args.lock.name, show(started.elapsed()));
        context.output.detail(format!("acquired {name} with fence {fence}, after {waited}"));
    }
    let environment = environment::build(context, args, &lease, &outer_leases)?;
    // Listen before the command starts, so that the end of a short command is noticed.
    signals.listen_for(&SIGNALS_WHILE_RUNNING)?;
    let job = Job::prepare(&args.command, &environment)?;
    let run_end =
        Supervisor::start(context.output, &lease, limits, &mut signals, &mut guard, job)?.watch(&client).await;
    guard.forget_command();
    if let Some(min_hold) = args.min_hold {
        let _ = tokio::time::timeout(min_hold.saturating_sub(held_since.elapsed()), signals.next_fatal()).await;
    }
    report.held_ms = Some(millis(held_since.elapsed()));
    release(context, lease, client).await;
    guard.dismiss();
    exit_code(report, run_end)
}

/// Acquires the lock, or enters the lock again if an outer run holds it.
async fn acquire(context: &Context, args: &RunArgs, outer_leases: &[DetachedLease], client: &Client) -> Outcome<Lease> {
    let outer = nesting::find_holder(outer_leases, &args.lock.name, client).await;
    let lease = enter(context, args, outer, client).await?;
    let owner = lease.as_detached().owner();
    let Some(outer) = outer.filter(|outer| owner.is_some() && outer.owner() == owner) else { return Ok(lease) };
    // The outer run may have ended before this run entered the lock. In that case, other processes may have entered the
    // lock with the same owner.
    let is_held = loop {
        match nesting::is_held(outer, client).await {
            Ok(is_held) => break is_held,
            // The client renews the lease of this run meanwhile. The loop ends if this lease is lost.
            Err(_) if !lease.validity().is_zero() => tokio::time::sleep(OUTER_CHECK_INTERVAL).await,
            Err(error) => {
                release(context, lease, client.clone()).await;
                return Err(error.into());
            }
        }
    };
    if is_held {
        return Ok(lease);
    }
    context.output.detail_error(lease.release().await);
    enter(context, args, None, client).await
}

/// Acquires the lock, or enters the lock of an outer run if `outer` is given.
async fn enter(context: &Context, args: &RunArgs, outer: Option<&DetachedLease>, client: &Client) -> Outcome<Lease> {
    let terms = nesting::lock_terms(args, outer, client)?;
    let program = args.command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    // A command may run for any length of time.
    let renewals = Renewals::Watchdog { every: None, lifetime: Duration::MAX };
    args.lock.acquire(context, client, terms, renewals, &program.to_string_lossy()).await
}

/// Records the signal that ended the wait, and returns the exit code.
fn interrupted_exit(report: &mut Report, signal: Signal) -> Exit {
    report.outcome = "interrupted";
    report.signal = Some(signal.as_raw());
    let has_key = [Signal::INT, Signal::QUIT].contains(&signal);
    report.is_from_terminal = has_key && Terminal::open().is_some_and(|terminal| terminal.is_in_foreground());
    Exit::signal(signal.as_raw())
}

/// Releases the lease, and also waits for the reachable nodes beyond the majority.
async fn release(context: &Context, lease: Lease, client: Client) {
    context.output.detail_error(lease.release().await);
    context.output.detail_error(client.close(FLUSH_TIMEOUT).await);
}

/// Records the outcome of the run, and returns the exit code. The code of the command counts only if the lock was
/// provably held throughout.
fn exit_code(report: &mut Report, run_end: RunEnd) -> Outcome {
    report.signal = run_end.status.terminating_signal();
    report.lost = run_end.lost.is_some();
    if let Some(lost) = run_end.lost {
        report.outcome = "lost";
        return Err(lost.into());
    }
    if let Some(cause) = run_end.end_cause {
        report.outcome = match cause {
            Cause::MaxHold => "max-hold",
            Cause::Unguarded => "unguarded",
            // The lock was not lost, but the command may have stopped early because it was asked to end.
            Cause::Loss | Cause::Broken => "asked-to-end",
        };
        return Ok(Exit::LOST);
    }
    report.outcome = "done";
    if run_end.is_interrupted
        && let Some(signal) = report.signal.and_then(Signal::from_named_raw)
    {
        report.is_from_terminal = true;
        // Without this process, the terminal would also have sent the signal to the shell that runs the script.
        let _ = kill_current_process_group(signal);
    }
    Ok(match (run_end.status.exit_status(), report.signal) {
        (_, Some(signal)) => Exit::signal(signal),
        (code, None) => Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::INTERNAL.0)),
    })
}
