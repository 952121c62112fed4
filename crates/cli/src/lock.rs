//! The options of a lock, and acquiring it with a progress display.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use quorlock::{AcquireError, Client, Lease, Lock, Mode, Owner, Progress};
use tokio::sync::watch;

use crate::context::{Context, unrecorded};
use crate::duration::parse_duration;
use crate::exit::{Details, Failure};
use crate::wait_display::{Display, held_since};

/// The options of `run` and `acquire`.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// The lock.
    pub(crate) name: String,

    /// Wait at most this long for the lock [default: forever on a terminal, else do not wait].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait: if the lock is held, exit with 75.
    #[arg(short, long)]
    pub(crate) no_wait: bool,

    /// The lock is freed this long after its host dies, or after the last renewal [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) ttl: Option<Duration>,

    /// Take a shared (read) lock.
    #[arg(long, conflicts_with = "slots")]
    pub(crate) shared: bool,

    /// Allow N holders. Every user of this name must pass the same N.
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<u32>,

    /// Shown to those who find the lock held [default: the name of the program].
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

impl LockArgs {
    /// Returns how long to wait; `None` for no limit. `is_patient` is the choice of another flag, if there is one.
    pub(crate) fn patience(&self, is_patient: Option<bool>) -> Option<Duration> {
        let is_patient = is_patient.unwrap_or_else(|| std::io::stderr().is_terminal() && !self.no_wait);
        self.wait.or((!is_patient).then_some(Duration::ZERO))
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

    /// Returns the lock in this mode, with a ttl and a label. `program` is the default label.
    pub(crate) fn lock(
        &self,
        context: &Context,
        client: &Client,
        mode: Mode,
        program: impl FnOnce() -> String,
    ) -> Result<Lock<Mode>, Failure> {
        let label = self.label.as_deref().or(context.settings.text("label"));
        let label = label.map_or_else(program, ToOwned::to_owned);
        Ok(client.lock_as(&self.name, mode).ttl(context.ttl(self.ttl)?).label(&label))
    }
}

/// Acquires a lock within `wait`, and shows the progress of the wait.
pub(crate) async fn acquire(
    context: &Context,
    client: &Client,
    name: &str,
    lock: Lock<Mode>,
    wait: Option<Duration>,
) -> Result<Lease, Failure> {
    let (news, heard) = watch::channel(None);
    let lock = lock.observe(move |progress: &Progress| {
        if let Progress::Waiting(wait) = progress {
            news.send_replace(Some(wait.clone()));
        }
    });
    let ask = async {
        match wait {
            Some(wait) => lock.acquire_within(wait).await,
            None => lock.acquire().await,
        }
    };
    let mut display = Display::new(context.output, client, name, heard);
    let acquired = tokio::select! {
        acquired = ask => acquired,
        never = display.show() => match never {},
    };
    let error = match acquired {
        Ok(lease) => return Ok(lease),
        Err(error) => error,
    };
    let is_held = matches!(error, AcquireError::Held(_) | AcquireError::WaitTimeout(_));
    let since = if is_held { held_since(client, name).await } else { None };
    let held_for = since.and_then(|since| since.elapsed().ok());
    let silent_for = client.node_stats().into_iter().map(|node| node.silent_for).collect();
    let waited = wait.filter(|wait| !wait.is_zero());
    let details = Details { waited, held_for, silent_for, unrecorded: unrecorded(client) };
    Err(Failure::not_acquired(error, &details))
}
