//! Which lock to ask for, as whom and for how long; and the waiting for it, as people see it.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use quorlock::{AcquireError, Client, Lease, Mode, Owner, Progress, Renewals, Wait};
use tokio::sync::watch;

use crate::context::unrecorded;
use crate::duration::parse_duration;
use crate::exit::{Details, Failure};
use crate::output::Output;
use crate::waiting::{Display, held_since};

/// How long to wait.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// How long to wait for the lock [default: for ever on a terminal, else not at all].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait: if the lock is held, exit with 75.
    #[arg(short, long)]
    pub(crate) no_wait: bool,
}

impl WaitArgs {
    /// How long to wait, or `None` for as long as it takes; `is_patient` is the word of another flag, if there is one.
    pub(crate) fn patience(&self, is_patient: Option<bool>) -> Option<Duration> {
        let is_patient = is_patient.unwrap_or_else(|| std::io::stderr().is_terminal() && !self.no_wait);
        self.wait.or((!is_patient).then_some(Duration::ZERO))
    }
}

/// With whom to have it.
#[derive(Args, Debug)]
pub(crate) struct SharingArgs {
    /// Share the lock with others who do; whoever does not excludes them.
    #[arg(long, conflicts_with = "slots")]
    pub(crate) shared: bool,

    /// Let so many have it at a time. All who use the name have to agree on the number.
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<u32>,
}

impl SharingArgs {
    /// The mode of the lock; `owner` is the owner of a shared one.
    pub(crate) fn mode(&self, owner: Owner) -> Mode {
        match self.slots {
            Some(permits) => Mode::Slot { permits, slot: 0 },
            None if self.shared => Mode::Shared { owner, reenters: true },
            None => Mode::EXCLUSIVE,
        }
    }
}

/// What to ask for.
pub(crate) struct Recipe<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) label: String,
    pub(crate) renewals: Renewals,
    /// How long to wait for it: for ever, if nothing is said.
    pub(crate) wait: Option<Duration>,
}

impl Recipe<'_> {
    /// Waits for it, and shows how that goes.
    pub(crate) async fn acquire(&self, output: Output, client: &Client) -> Result<Lease, Failure> {
        let (news, heard) = watch::channel(None);
        let mut display = Display::new(output, client, self.name, heard);
        let lease = tokio::select! {
            lease = self.ask(client, news) => lease,
            never = display.show() => match never {},
        };
        drop(display);
        let error = match lease {
            Ok(lease) => return Ok(lease),
            Err(error) => error,
        };
        let is_held = matches!(error, AcquireError::Held(_) | AcquireError::WaitTimeout(_));
        let since = if is_held { held_since(client, self.name).await } else { None };
        let held_for = since.and_then(|since| since.elapsed().ok());
        let details = Details { held_for, silent_for: client.silent_for(), unrecorded: unrecorded(client) };
        Err(Failure::not_acquired(error, &details))
    }

    async fn ask(&self, client: &Client, news: watch::Sender<Option<Wait>>) -> Result<Lease, AcquireError> {
        let observer = move |progress: &Progress| {
            if let Progress::Waiting(wait) = progress {
                news.send_replace(Some(wait.clone()));
            }
        };
        let lock = client.lock_as(self.name, self.mode);
        let lock = lock.ttl(self.ttl).label(&self.label).renewals(self.renewals).observe(observer);
        match self.wait {
            Some(wait) => lock.acquire_within(wait).await,
            None => lock.acquire().await,
        }
    }
}
