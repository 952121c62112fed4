//! `quorlock acquire`: a lease for scripts, which somebody else extends and releases.

mod keeper;

use std::io::{IsTerminal, Write};
use std::os::unix::process::parent_id;
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorlock::{AcquireError, Client, HandedLease, Lease, Progress, Renewals, Wait};
use serde::Serialize;
use tokio::sync::watch;

use crate::context::Context;
use crate::duration::{millis, parse_duration};
use crate::exit::{Exit, Failure};
use crate::process::Process;
use crate::signals::Signals;
use crate::waiting::{Display, held_since};

/// Acquire a lock in a script, and print the lease.
///
/// The lease ends with its ttl unless `quorlock extend` is called, or --keep-while-pid keeps it. It can be extended,
/// checked and released by any process on any host that reaches the same nodes. Whoever has it can release the lock: do
/// not log it.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct AcquireArgs {
    /// What to lock.
    name: String,

    /// How long to wait for the lock [default: for ever on a terminal, else not at all].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait: if the lock is held, exit with 75.
    #[arg(short, long)]
    no_wait: bool,

    /// How long the lease lasts, and how long from each extension [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,

    /// Share the lock with others who do; whoever does not excludes them.
    #[arg(long, conflicts_with = "slots")]
    shared: bool,

    /// Let so many have it at a time. All who use the name have to agree on the number.
    #[arg(long, value_name = "N")]
    slots: Option<u32>,

    /// Shown to whoever finds the lock held [default: the name of the program that called].
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// What to print: the lease alone, lines for eval, or one JSON object.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Stay in the background and extend the lease for as long as this process lives, then release it.
    #[arg(long, value_name = "PID")]
    keep_while_pid: Option<u32>,
}

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The lease, and nothing else.
    Text,
    /// Assignments for a shell, or (exit CODE) when there is no lease.
    Sh,
    /// One object.
    Json,
}

const NOTES: &str = "\
Exit codes:
  0 acquired   64 usage   69 no quorum   75 held   77 access denied   78 configuration
  130/143 interrupted while waiting
With --format sh, eval gives the same code: when there is no lease, (exit CODE) is printed.

Example:
  eval \"$(quorlock acquire deploy --format sh --keep-while-pid $$)\" || exit
  ./deploy.sh --fence \"$QUORLOCK_FENCE\"
  quorlock release";

/// How long to wait for the nodes to hear of what a majority has not acknowledged.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);

impl AcquireArgs {
    /// Whether a shell takes what is printed for its own commands: then it has to hear of a failure, too.
    pub(crate) fn is_for_eval(&self) -> bool {
        self.format == Format::Sh
    }
}

/// Lets a shell that evaluates what is printed come to the same code: of nothing at all it would make a success.
pub(crate) fn pass_on(exit: Exit) {
    if exit != Exit::OK {
        // A shell that does not read this does not evaluate it either.
        let _ = writeln!(std::io::stdout(), "(exit {})", exit.0);
    }
}

/// Acquires, prints, and leaves.
pub(crate) async fn acquire(context: &Context, args: AcquireArgs) -> crate::Outcome {
    if context.settings.nodes().iter().any(|url| url.starts_with("memory:")) {
        return Err(Failure::Config("memory: is gone with the process, and the lease with it: not for acquire".into()));
    }
    let ttl = args.ttl.or(context.settings.duration("ttl")).unwrap_or_default();
    if let Some(pid) = args.keep_while_pid.filter(|_| keeper::is_keeper()) {
        return keeper::keep(context, pid).await;
    }
    let kept = args.keep_while_pid.map(Process::find).transpose()?;
    let mut signals = Signals::listen().map_err(|error| Failure::Internal(format!("no signals: {error}")))?;
    let mut builder = context.builder()?.outlived_by_leases();
    if let Some(kept) = kept {
        builder = builder.also_alive_with(kept.pid);
    }
    let client = tokio::select! {
        client = builder.connect() => client?,
        signal = signals.next_fatal() => return Ok(Exit::signal(signal.as_raw())),
    };
    let lease = tokio::select! {
        lease = wait_for(context, &client, &args, ttl) => lease?,
        signal = signals.next_fatal() => {
            // Dropping the attempt gave everything back; what is left is to deliver it.
            let _ = client.close(FLUSH).await;
            return Ok(Exit::signal(signal.as_raw()));
        }
    };
    let valid = lease.validity();
    let lease = lease.hand_over().map_err(Failure::Lost)?;
    let told = match kept {
        Some(kept) => keeper::start(&lease, kept).await,
        None => Ok(()),
    };
    let told = told.and_then(|()| tell(context, &args, &lease, valid));
    if told.is_err()
        && let Err(error) = client.release(&lease).await
    {
        // Nobody has the lease who could release it.
        context.output.note(error);
    }
    if let Err(error) = client.close(FLUSH).await {
        context.output.detail(error);
    }
    told.map(|()| Exit::OK)
}

/// Waits for the lock as long as was asked, and shows how that goes.
async fn wait_for(context: &Context, client: &Client, args: &AcquireArgs, ttl: Duration) -> Result<Lease, Failure> {
    let (news, heard) = watch::channel(None);
    let mut display = Display::new(context.output, client, &args.name, heard);
    let lease = tokio::select! {
        lease = ask(context, client, args, ttl, news) => lease,
        never = display.show() => match never {},
    };
    drop(display);
    match lease.map_err(Failure::from) {
        Err(Failure::Held { error, .. }) => {
            let since = held_since(client, &args.name).await;
            Err(Failure::Held { error, since: since.and_then(|since| since.elapsed().ok()) })
        }
        other => other,
    }
}

async fn ask(
    context: &Context,
    client: &Client,
    args: &AcquireArgs,
    ttl: Duration,
    news: watch::Sender<Option<Wait>>,
) -> Result<Lease, AcquireError> {
    let observer = move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            news.send_replace(Some(wait.clone()));
        }
    };
    let label = args.label.clone().or_else(|| context.settings.text("label").map(ToOwned::to_owned));
    let label = label.unwrap_or_else(|| caller(args.keep_while_pid));
    let is_patient = std::io::stderr().is_terminal() && !args.no_wait;
    let wait = args.wait.or((!is_patient).then_some(Duration::ZERO));
    let (name, off) = (&args.name, Renewals::Off);
    match (args.slots, wait) {
        (Some(permits), wait) => {
            let lock = client.semaphore(name, permits).ttl(ttl).label(&label).renewals(off).observe(observer);
            match wait {
                Some(wait) => lock.acquire_within(wait).await,
                None => lock.acquire().await,
            }
        }
        (None, wait) if args.shared => {
            let lock = client.rw(name).ttl(ttl).label(&label).renewals(off).observe(observer);
            match wait {
                Some(wait) => lock.read_within(wait).await,
                None => lock.read().await,
            }
        }
        (None, wait) => {
            let lock = client.lock(name).ttl(ttl).label(&label).renewals(off).observe(observer);
            match wait {
                Some(wait) => lock.acquire_within(wait).await,
                None => lock.acquire().await,
            }
        }
    }
}

/// The program on whose behalf it is: this process is gone before anybody looks.
fn caller(keep_while_pid: Option<u32>) -> String {
    let pid = keep_while_pid.unwrap_or_else(parent_id);
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().to_owned()
}

#[derive(Serialize)]
struct Acquired<'a> {
    name: &'a str,
    lease: String,
    fence: Option<u64>,
    slot: Option<u32>,
    ttl_ms: u64,
    valid_ms: u64,
}

/// Prints the lease. Unlike elsewhere, that nobody reads it is an error: nobody could release it.
fn tell(context: &Context, args: &AcquireArgs, lease: &HandedLease, valid: Duration) -> Result<(), Failure> {
    let fence = lease.fence().map(quorlock::Fence::get);
    let (name, ttl_ms) = (lease.name().as_str(), millis(lease.ttl()));
    let text = match args.format {
        Format::Text if !context.output.json => lease.reveal(),
        Format::Sh => {
            let fence = fence.map(|fence| fence.to_string()).unwrap_or_default();
            let (lease, name) = (quoted(&lease.reveal()), quoted(name));
            format!(
                "export QUORLOCK_LEASE={lease} QUORLOCK_NAME={name} QUORLOCK_FENCE={fence} QUORLOCK_TTL_MS={ttl_ms}"
            )
        }
        Format::Text | Format::Json => {
            let (slot, valid_ms) = (lease.slot(), millis(valid));
            let acquired = Acquired { name, lease: lease.reveal(), fence, slot, ttl_ms, valid_ms };
            context.output.json_text(&acquired)?
        }
    };
    let mut stdout = std::io::stdout();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| Failure::Internal(format!("cannot print the lease: {error}; it is released")))
}

/// One word for a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in ["deploy", "two words", "it's", "$(rm -rf /)`x`\"\\", "two\nlines", ""] {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
