//! The options of a lock, and acquiring it with a progress display.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use quorlock::{AcquireError, Client, Lease, Mode, Owner, Progress, Renewals};
use tokio::sync::watch;

use crate::context::{Context, unrecorded};
use crate::duration::parse_duration;
use crate::exit::{Details, Failure, Outcome};
use crate::wait_display::{Display, held_since};

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
    /// Returns how long to wait for the lock. `is_patient` is whether another flag asks to wait, if that flag was
    /// given.
    pub(crate) fn patience(&self, is_patient: Option<bool>) -> Duration {
        let is_patient = is_patient.unwrap_or_else(|| std::io::stderr().is_terminal() && !self.no_wait);
        self.wait.unwrap_or(if is_patient { Duration::MAX } else { Duration::ZERO })
    }

    /// Returns the mode; `owner` is the owner of a shared lock.
    pub(crate) fn mode(&self, owner: Owner) -> Mode {
        match self.slots {
            Some(permits) => Mode::Slot { permits, slot: 0 },
            None if self.shared => Mode::Shared { owner, reenters: true },
            None => Mode::EXCLUSIVE,
        }
    }

    /// Returns `exclusive`, `shared` or `slots`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.slots {
            Some(_) => "slots",
            None if self.shared => "shared",
            None => "exclusive",
        }
    }

    /// Acquires the lock in this mode, waits at most the given time, and shows the progress of the wait. `program` is
    /// the default label.
    pub(crate) async fn acquire(
        &self,
        context: &Context,
        client: &Client,
        (mode, wait): (Mode, Duration),
        renewals: Renewals,
        program: &str,
    ) -> Outcome<Lease> {
        let label = self.label.as_deref().or(context.settings.text("label")).unwrap_or(program);
        let lock = client.lock_as(&self.name, mode).ttl(context.ttl(self.ttl)?).label(label).renewals(renewals);
        let (news, heard) = watch::channel(None);
        let lock = lock.observe(move |progress: &Progress| {
            if let Progress::Waiting(wait) = progress {
                news.send_replace(Some(wait.clone()));
            }
        });
        let error = tokio::select! {
            acquired = lock.acquire_within(wait) => match acquired {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            },
            never = Display::new(context.output, client, &self.name, heard).show() => match never {},
        };
        let is_held = matches!(error, AcquireError::Held(_) | AcquireError::WaitTimeout(_));
        let since = if is_held { held_since(client, &self.name).await } else { None };
        let held_for = since.and_then(|since| since.elapsed().ok());
        let silent_for = client.node_stats().into_iter().map(|node| node.silent_for).collect();
        let waited = (!wait.is_zero()).then_some(wait);
        let details = Details { waited, held_for, silent_for, unrecorded: unrecorded(client) };
        Err(Failure::not_acquired(error, &details))
    }
}
