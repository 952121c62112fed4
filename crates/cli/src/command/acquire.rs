//! `quorlock acquire`: a lease for scripts, which other processes extend and release.

mod keeper;

use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorlock::{DetachedLease, Renewals};
use serde_json::json;

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::duration::millis;
use crate::exit::{Exit, Failure, Outcome};
use crate::lock::LockArgs;
use crate::output::{json_text, write_stdout};
use crate::process::Process;
use crate::signals::Signals;

/// Acquire a lock in a script, and print the lease.
#[derive(Args, Debug)]
#[command(before_help = DESCRIPTION, after_help = NOTES)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    lock: LockArgs,

    /// Print the lease as text, sh (for eval) or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true, help_heading = "Script")]
    pub(crate) format: Format,

    /// Renew the lease while PID lives, then release it.
    #[arg(long, value_name = "PID", help_heading = "Script")]
    keep_while_pid: Option<u32>,
}

/// The format in which the lease is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The lease, and nothing else.
    Text,
    /// Assignments for a shell; or `(exit CODE)`, if no lease was acquired.
    Sh,
    /// One JSON object.
    Json,
}

const DESCRIPTION: &str = "\
If the lock is held, wait for it (on a terminal) or exit with 75 (elsewhere). The lease ends after its ttl unless you \
call `quorlock extend` or pass --keep-while-pid. Any process on any host that reaches the same nodes can extend, check \
and release it. Anyone who has its text can release the lock: do not log it.";

const NOTES: &str = "\
Exit codes:
  0 acquired   64 usage   69 no quorum   75 held   77 access denied
  78 configuration   130, 143 interrupted while waiting
  With --format sh, eval returns the same code. If quorlock is missing or
  killed, eval would succeed: check its exit code first, as below.

Example:
  lease=$(quorlock acquire deploy --format sh --keep-while-pid $$) || exit
  eval \"$lease\"
  ./deploy.sh --fence \"$QUORLOCK_FENCE\"
  quorlock release";

/// Returns whether a shell may evaluate the output of this process, whose arguments could not be parsed.
///
/// If in doubt, the answer is yes, because a shell takes empty output for success: an unknown format is treated as
/// `sh`, and `--format sh` is also found after an unknown flag.
pub(crate) fn may_be_for_eval(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let words = arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    let mut words = words.skip_while(|word| word != "acquire").skip(1);
    let is_unknown = |format: &str| !["text", "json"].contains(&format);
    let mut follows_format = false;
    words.any(|word| {
        let (flag, value) = word.split_once('=').unwrap_or((&word, &word));
        let is_format = follows_format || (flag == "--format" && flag != value);
        follows_format = word == "--format";
        value == "sh" || is_format && is_unknown(value)
    })
}

/// Prints a command that makes a shell fail with this code when the shell evaluates our output. With empty output, the
/// shell would succeed.
pub(crate) fn print_failure_for_eval(exit: Exit) {
    if exit != Exit::OK {
        // If nobody reads the output, no shell evaluates it.
        let _ = write_stdout(&format!("(exit {})\n", exit.0));
    }
}

/// Acquires the lock, and prints the lease.
pub(crate) async fn acquire(context: &Context, args: AcquireArgs) -> Outcome {
    context.refuse_memory_nodes("acquire")?;
    if let Some(pid) = args.keep_while_pid.filter(|_| keeper::is_keeper()) {
        return keeper::keep(context, pid).await;
    }
    let watched = args.keep_while_pid.map(Process::find).transpose()?;
    let mut signals = Signals::listen()?;
    let mut builder = context.builder()?.ttl(context.ttl(args.lock.ttl)?).leases_outlive_process();
    if let Some(watched) = watched {
        builder = builder.add_holder_process(watched.pid);
    }
    let client = tokio::select! {
        client = context.connect_with(builder) => client?,
        signal = signals.next_fatal() => return Ok(Exit::signal(signal.as_raw())),
    };
    let (mode, max_wait) = (args.lock.mode(client.new_owner()), args.lock.max_wait(None));
    let caller = caller_name(args.keep_while_pid);
    let lease = tokio::select! {
        // Other processes renew the lease.
        lease = args.lock.acquire(context, &client, (mode, max_wait), Renewals::Off, &caller) => lease?,
        signal = signals.next_fatal() => {
            // Dropping the future of the acquire releases all grants in the background. Wait for these releases.
            let _ = client.close(FLUSH_TIMEOUT).await;
            return Ok(Exit::signal(signal.as_raw()));
        }
    };
    let validity = lease.validity();
    let lease = lease.detach()?;
    let keeper_started = match watched {
        Some(watched) => keeper::start(&lease, watched).await,
        None => Ok(()),
    };
    let printed = keeper_started.and_then(|()| print_lease(context, &args, &lease, validity));
    if printed.is_err()
        && let Err(error) = client.release(&lease).await
    {
        // Nobody has the text of the lease, so nobody could release it.
        context.output.note(error);
    }
    context.output.detail_error(client.close(FLUSH_TIMEOUT).await);
    printed.map(|()| Exit::OK)
}

/// Returns the label of the holder: the name of the program that called us, because our own process ends at once.
fn caller_name(keep_while_pid: Option<u32>) -> String {
    let pid = keep_while_pid.unwrap_or_else(parent_id);
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().to_owned()
}

/// Prints the lease. Fails if nobody reads the output, because then nobody could release the lease.
fn print_lease(context: &Context, args: &AcquireArgs, lease: &DetachedLease, validity: Duration) -> Outcome<()> {
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
            let (text, slot, valid_ms) = (lease.reveal(), lease.slot(), millis(validity));
            json_text(&json!({
                "name": name, "lease": text, "fence": fence, "slot": slot, "ttl_ms": ttl_ms, "valid_ms": valid_ms,
            }))?
        }
    };
    write_stdout(&format!("{text}\n"))
        .map_err(|error| Failure::internal(format!("cannot print the lease: {error}; it is released")))
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{may_be_for_eval, quoted};

    #[test]
    fn invalid_arguments_may_be_for_eval_unless_the_format_is_text_or_json() {
        let may_be = |line: &str| may_be_for_eval(line.split(' ').map(Into::into));
        for line in [
            "acquire a --format sh --bogus",
            "acquire a --bogus --format=sh",
            "--nodes x acquire --format sh",
            "acquire a --fromat sh",
            "acquire a --format bash",
            "acquire a --format=",
        ] {
            assert!(may_be(line), "{line}");
        }
        for line in [
            "acquire a --bogus",
            "acquire a --format json --bogus",
            "acquire a --format=text --bogus",
            "acquire a --bogus --format",
            "run a --bogus -- quorlock acquire b --format sh",
            "release a --format sh",
        ] {
            assert!(!may_be(line), "{line}");
        }
    }

    #[test]
    fn a_shell_reads_a_quoted_text_unchanged() {
        for text in ["deploy", "two words", "it's", "$(rm -rf /)`x`\"\\", "two\nlines", ""] {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
