//! `quorlock run`: runs a command while it holds a lock, and stops the command before anyone else can acquire the lock.
//!
//! This process is called the *wrapper* of the command. A second process, the *guard*, stops the command if the wrapper
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

use crate::context::{Context, FLUSH};
use crate::duration::{millis, parse_duration, show, show_exactly};
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::or_dash;
use crate::lock::LockArgs;
use crate::process::Process;
use crate::signals::{Signals, WHILE_RUNNING};
use guard::{Duty, Guard, boot_time};
use job::Job;
use limits::{Cause, Limits, OnLost};
use report::Report;
use supervise::{Run, Supervisor};
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

    /// Hold at least this long (for skewed clocks).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Duration of the command")]
    min_hold: Option<Duration>,

    /// Stop it after this long, and exit with 79.
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

/// What to do if the lock is held.
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
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// The hidden command that dies by a signal, so that the shell that runs a script notices the signal.
const DIE: &str = "__die";

/// Returns the program to put in front of a command, so that the command is killed as soon as this process ends for any
/// reason.
///
/// If `gate` is the reading end of a pipe, the command waits until something is written to that pipe.
pub(crate) fn mortal(gate: Option<RawFd>) -> Command {
    let mut program = hidden(job::COMMAND);
    // A dash means that there is no gate.
    program.arg(getpid().to_string()).arg(or_dash(gate));
    program
}

/// Returns this program, to be started with a hidden command.
fn hidden(command: &str) -> Command {
    // Not the program's path: a newer version may have been installed there.
    let mut program = Command::new("/proc/self/exe");
    program.arg0("quorlock").arg(command);
    program
}

/// Runs a hidden command, if this process was started for one.
///
/// Must be called before everything else: every `quorlock run` starts hidden commands, so they must start fast.
pub(crate) fn hidden_command() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let command = arguments.nth(1)?;
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    match command.to_str()? {
        guard::COMMAND => Some(guard::stand()),
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
    context.outlasts("run")?;
    let ttl = context.ttl(args.lock.ttl)?;
    let grace = args.kill_grace.unwrap_or_else(|| context.settings.duration("kill_grace"));
    check(&args, ttl, grace)?;
    let mut report = Report::new(&args.lock.name, args.lock.kind());
    let limits = Limits { on_lost: args.on_lost, grace, max_hold: args.max_hold };
    let exit = match attempt(context, &args, ttl, limits, &mut report).await {
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
    let exit = tell(context, &args, &report, exit);
    if let Some(signal) = report.signal.filter(|_| report.is_from_terminal) {
        // If this process handled the interrupt and exited, the shell would continue its script. Die by the signal
        // instead.
        let _ = hidden(DIE).arg(signal.to_string()).exec();
    }
    exit
}

fn tell(context: &Context, args: &RunArgs, report: &Report, exit: Exit) -> Outcome {
    if context.output.json {
        context.output.json(report)?;
    }
    let written = args.result_file.as_ref().map_or(Ok(()), |path| report.write(path));
    let exit_of_report = written.map_or_else(|failure| failure.report(), |()| Exit::OK);
    // The exit code of the command takes precedence over a failure to write the report.
    Ok(if exit == Exit::OK { exit_of_report } else { exit })
}

fn check(args: &RunArgs, ttl: Duration, grace: Duration) -> Outcome<()> {
    let least = (grace + Duration::from_secs(1)) * 3;
    if ttl < least {
        let shorter = (ttl / 3).saturating_sub(Duration::from_secs(1)).as_millis();
        let shorter = if shorter == 0 { String::new() } else { format!(", or --kill-grace {shorter}ms") };
        let [ttl, grace, least] = [ttl, grace, least].map(show_exactly);
        return Err(Failure::usage(format_args!(
            "a ttl of {ttl} leaves no time to end the command before the lock is lost: with a kill grace of {grace} it must \
             be at least {least}\n  use --ttl {least}{shorter}"
        )));
    }
    if args.lock.no_wait && args.if_held == Some(IfHeld::Wait) {
        return Err(Failure::usage("--no-wait and --if-held wait contradict each other"));
    }
    if let (Some(least), Some(most)) = (args.min_hold, args.max_hold)
        && least > most
    {
        let [least, most] = [least, most].map(show);
        return Err(Failure::usage(format_args!("--min-hold {least} is longer than --max-hold {most}")));
    }
    if let Some(folder) = args.result_file.as_ref().and_then(|path| path.parent())
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        return Err(Failure::usage(format_args!("--result-file: there is no folder {}", folder.display())));
    }
    Ok(())
}

async fn attempt(context: &Context, args: &RunArgs, ttl: Duration, limits: Limits, report: &mut Report) -> Outcome {
    // The command cannot be watched without a /proc that shows our processes: fail before acquiring the lock.
    Process::find(std::process::id())?;
    let outer = nesting::inherited();
    context.name_nodes()?;
    let mut signals = Signals::listen()?;
    let mut guard = Guard::post().map_err(Failure::cannot("start a guard"))?;
    let mut access = context.access()?;
    access.ttl = ttl;
    let mut builder = access.builder();
    if let Some(guard) = guard.id() {
        // A lock in a file is freed as soon as every process that keeps it alive is gone.
        builder = builder.also_alive_with(guard);
    }
    let begun = Instant::now();
    let client = tokio::select! {
        client = context.open(builder) => client?,
        signal = signals.next_fatal() => return Ok(interrupted(report, signal)),
    };
    let lease = tokio::select! {
        lease = acquire(context, args, &outer, &client) => lease,
        signal = signals.next_fatal() => {
            // Dropping the attempt releases all its grants in the background. Wait for these releases.
            let _ = client.close(FLUSH).await;
            report.waited_ms = millis(begun.elapsed());
            return Ok(interrupted(report, signal));
        }
    };
    report.waited_ms = millis(begun.elapsed());
    let lease = lease?;
    let held = Instant::now();
    let hold_until = args.min_hold.map(|least| boot_time() + least);
    let duty = Duty { access, lease: lease.as_detached().reveal(), hold_until };
    guard.entrust(duty).map_err(Failure::cannot("start a guard"))?;
    report.fence = lease.fence().ok().map(quorlock::Fence::get);
    report.slot = lease.slot();
    if let Some(fence) = report.fence {
        let (name, waited) = (&args.lock.name, show(begun.elapsed()));
        context.output.detail(format!("{name} is ours with fence {fence}, after {waited}"));
    }
    let environment = environment::of(context, args, &lease, &outer)?;
    // Listen before the command starts, so that its end is not missed.
    signals.listen_for(&WHILE_RUNNING)?;
    let job = Job::prepare(&args.command, &environment)?;
    let run = Supervisor::start(context.output, &lease, limits, &mut signals, &mut guard, job)?.watch(&client).await;
    guard.command_is_over();
    if let Some(least) = args.min_hold {
        let _ = tokio::time::timeout(least.saturating_sub(held.elapsed()), signals.next_fatal()).await;
    }
    report.held_ms = Some(millis(held.elapsed()));
    release(context, lease, client).await;
    guard.dismiss();
    conclude(report, run)
}

/// Acquires the lock, or enters it again if an outer run holds it.
async fn acquire(context: &Context, args: &RunArgs, outer: &[DetachedLease], client: &Client) -> Outcome<Lease> {
    let around = nesting::find(outer, &args.lock.name, client).await;
    let lease = enter(context, args, around, client).await?;
    let owner = lease.as_detached().owner();
    let Some(around) = around.filter(|around| owner.is_some() && around.owner() == owner) else { return Ok(lease) };
    // The outer run may have ended before we entered its lock. Then other processes may have entered it with the same
    // owner.
    let is_held = loop {
        match nesting::is_held(around, client).await {
            Ok(is_held) => break is_held,
            // Meanwhile, the client renews our own entry. The loop ends if our own entry ends.
            Err(_) if !lease.validity().is_zero() => tokio::time::sleep(ASK_AGAIN).await,
            Err(error) => {
                release(context, lease, client.clone()).await;
                return Err(error.into());
            }
        }
    };
    if is_held {
        return Ok(lease);
    }
    context.output.detail_of(lease.release().await);
    enter(context, args, None, client).await
}

/// Acquires the lock, or enters the lock of an outer run.
async fn enter(context: &Context, args: &RunArgs, around: Option<&DetachedLease>, client: &Client) -> Outcome<Lease> {
    let how = nesting::mode(args, around, client)?;
    let program = args.command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    // A command may run for any length of time.
    let renewals = Renewals::Watchdog { every: None, lifetime: Duration::MAX };
    args.lock.acquire(context, client, how, renewals, &program.to_string_lossy()).await
}

/// Reports a signal that ended the wait. All grants were released before.
fn interrupted(report: &mut Report, signal: Signal) -> Exit {
    report.outcome = "interrupted";
    report.signal = Some(signal.as_raw());
    let is_key = [Signal::INT, Signal::QUIT].contains(&signal);
    report.is_from_terminal = is_key && Terminal::open().is_some_and(|terminal| terminal.is_ours());
    Exit::signal(signal.as_raw())
}

/// Releases the lease, and also waits for the reachable nodes beyond the majority.
async fn release(context: &Context, lease: Lease, client: Client) {
    context.output.detail_of(lease.release().await);
    context.output.detail_of(client.close(FLUSH).await);
}

/// Returns the outcome of the run. The command's own code counts only if the lock was provably held throughout.
fn conclude(report: &mut Report, run: Run) -> Outcome {
    report.signal = run.status.terminating_signal();
    report.lost = run.lost.is_some();
    if let Some(lost) = run.lost {
        report.outcome = "lost";
        return Err(lost.into());
    }
    if let Some(cause) = run.cut {
        report.outcome = match cause {
            Cause::MaxHold => "max-hold",
            Cause::Unguarded => "unguarded",
            // The lock was not lost after all, but the command may have stopped early because we asked it to end.
            Cause::Loss | Cause::Broken => "asked-to-end",
        };
        return Ok(Exit::LOST);
    }
    report.outcome = "done";
    if run.interrupted
        && let Some(signal) = report.signal.and_then(Signal::from_named_raw)
    {
        report.is_from_terminal = true;
        // If the command had run without us, the terminal would also have sent the signal to the shell that runs the
        // script.
        let _ = kill_current_process_group(signal);
    }
    Ok(match (run.status.exit_status(), report.signal) {
        (_, Some(signal)) => Exit::signal(signal),
        (code, None) => Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::INTERNAL.0)),
    })
}
