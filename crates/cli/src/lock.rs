//! The options of a lock, and acquiring it with a progress display.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use quorlock::{AcquireError, Client, Lease, Mode, Owner, Progress, Renewals};
use tokio::sync::watch;

use crate::context::{Context, unrecorded_reason};
use crate::duration::parse_duration;
use crate::exit::{Details, Failure, Outcome};
use crate::wait_display::{Display, inspect_hold};

/// The options of `run` and `acquire`.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// The lock.
    #[arg(hide_short_help = true, long_help = "The lock")]
    pub(crate) name: String,

    /// Wait at most this long: 500ms, 30s, 5m, 2h [default: forever on a terminal, else do not wait].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait", help_heading = "Waiting")]
    wait: Option<Duration>,

    /// Do not wait: exit with 75 if the lock is held.
    #[arg(short, long, help_heading = "Waiting")]
    pub(crate) no_wait: bool,

    /// Free the lock this long after its host dies, or after the last renewal [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Holding")]
    pub(crate) ttl: Option<Duration>,

    /// Take a shared (read) lock.
    #[arg(long, conflicts_with = "slots", help_heading = "Sharing")]
    pub(crate) shared: bool,

    /// Allow N holders; every user of NAME must pass the same N.
    #[arg(long, value_name = "N", help_heading = "Sharing")]
    pub(crate) slots: Option<u32>,

    /// Show this text to waiters [default: the program's name].
    #[arg(long, value_name = "TEXT", help_heading = "Holding")]
    pub(crate) label: Option<String>,
}

impl LockArgs {
    /// Returns the longest time to wait for the lock. Without `--wait`, `waits_forever` decides whether to wait at all;
    /// if it is `None`, the terminal and `--no-wait` decide.
    pub(crate) fn max_wait(&self, waits_forever: Option<bool>) -> Duration {
        let waits_forever = waits_forever.unwrap_or_else(|| std::io::stderr().is_terminal() && !self.no_wait);
        self.wait.unwrap_or(if waits_forever { Duration::MAX } else { Duration::ZERO })
    }

    /// Returns the mode in which to acquire the lock. `owner` matters only for a shared lock.
    pub(crate) fn mode(&self, owner: Owner) -> Mode {
        match self.slots {
            Some(permits) => Mode::Slot { permits, slot: 0 },
            None if self.shared => Mode::Shared { owner, reenters: true },
            None => Mode::EXCLUSIVE,
        }
    }

    /// Returns the mode in one word: `exclusive`, `shared` or `slots`.
    pub(crate) fn kind(&self) -> &'static str {
        self.mode(Owner::from_bits(0)).as_str()
    }

    /// Acquires the lock in this mode, waiting at most `max_wait`, and shows the progress of the wait. `program` is the
    /// default label.
    pub(crate) async fn acquire(
        &self,
        context: &Context,
        client: &Client,
        (mode, max_wait): (Mode, Duration),
        renewals: Renewals,
        program: &str,
    ) -> Outcome<Lease> {
        let label = self.label.as_deref().or(context.settings.text("label")).unwrap_or(program);
        let lock = client.lock_as(&self.name, mode).ttl(context.ttl(self.ttl)?).label(label).renewals(renewals);
        let (sender, waits) = watch::channel(None);
        let lock = lock.observe(move |progress: &Progress| {
            if let Progress::Waiting(wait) = progress {
                sender.send_replace(Some(wait.clone()));
            }
        });
        let error = tokio::select! {
            acquired = lock.acquire_within(max_wait) => match acquired {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            },
            never = Display::new(context.output, client, &self.name, waits).run() => match never {},
        };
        let is_held = matches!(error, AcquireError::Held(_) | AcquireError::WaitTimeout(_));
        let hold = if is_held { inspect_hold(client, &self.name).await } else { None };
        let held_for = hold.and_then(|(held_since, _)| held_since?.elapsed().ok());
        let silent_for = client.node_stats().into_iter().map(|node| node.silent_for).collect();
        let waited = (!max_wait.is_zero()).then_some(max_wait);
        let details = Details { waited, held_for, silent_for, unrecorded: unrecorded_reason(client) };
        Err(Failure::not_acquired(error, &details))
    }
}
