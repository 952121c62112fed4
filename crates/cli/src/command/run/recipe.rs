//! Which lock to ask for, as whom, and for how long.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use quorlock::{AcquireError, Client, Lease, Owner, Progress, Reentrant, Renewals, RwLock, Semaphore, Wait};
use tokio::sync::watch;

use super::outer::{Kind, Outer};
use super::{IfHeld, RunArgs};
use crate::context::Context;
use crate::exit::Failure;

/// A run may take as long as it likes.
const RENEWALS: Renewals = Renewals::Watchdog { every: None, lifetime: Duration::MAX };

/// A lock, and how long to wait for it: for ever, if nothing is said.
pub(super) struct Recipe {
    lock: Lock,
    wait: Option<Duration>,
}

enum Lock {
    /// One at a time; whoever has the same owner enters again.
    Exclusive(Reentrant),
    Shared(RwLock),
    Slots(Semaphore),
}

impl Recipe {
    /// By the flags, and by what the runs around this one hold.
    pub(super) fn new(
        context: &Context,
        client: &Client,
        args: &RunArgs,
        ttl: Duration,
        outer: &Outer,
        news: watch::Sender<Option<Wait>>,
    ) -> Result<Self, Failure> {
        let observer = move |progress: &Progress| {
            if let Progress::Waiting(wait) = progress {
                news.send_replace(Some(wait.clone()));
            }
        };
        let label = args.label.as_deref().or(context.settings.text("label"));
        let label = label.map_or_else(|| program(args), ToOwned::to_owned);
        let around = outer.of(&args.name);
        let (name, mut wait) = (&args.name, patience(args));
        // Who holds alone holds no less than a share.
        let kind = match (args.kind(), around.map(|around| around.kind)) {
            (Kind::Shared, Some(Kind::Exclusive)) => Kind::Exclusive,
            (kind, Some(other)) if kind != other => return Err(at_odds(name, other, kind)),
            (Kind::Exclusive, _) | (_, None) => args.kind(),
            (kind, Some(_)) => {
                // It might wait for somebody who waits for the run around it.
                wait = Some(Duration::ZERO);
                kind
            }
        };
        let lock = match kind {
            Kind::Exclusive => {
                let owner = around.and_then(super::outer::Around::owner).unwrap_or_else(Owner::new);
                let lock = client.reentrant(name).owned_by(&owner).ttl(ttl).label(&label).renewals(RENEWALS);
                Lock::Exclusive(lock.observe(observer))
            }
            Kind::Shared => Lock::Shared(client.rw(name).ttl(ttl).label(&label).renewals(RENEWALS).observe(observer)),
            Kind::Slots => {
                let slots = client.semaphore(name, args.slots.unwrap_or_default());
                Lock::Slots(slots.ttl(ttl).label(&label).renewals(RENEWALS).observe(observer))
            }
        };
        Ok(Self { lock, wait })
    }

    /// Waits for it.
    pub(super) async fn acquire(&self) -> Result<Lease, AcquireError> {
        match (&self.lock, self.wait) {
            (Lock::Exclusive(lock), None) => lock.acquire().await,
            (Lock::Exclusive(lock), Some(wait)) => lock.acquire_within(wait).await,
            (Lock::Shared(lock), None) => lock.read().await,
            (Lock::Shared(lock), Some(wait)) => lock.read_within(wait).await,
            (Lock::Slots(lock), None) => lock.acquire().await,
            (Lock::Slots(lock), Some(wait)) => lock.acquire_within(wait).await,
        }
    }

    /// Who may enter it again.
    pub(super) fn owner(&self) -> Option<Owner> {
        match &self.lock {
            Lock::Exclusive(lock) => Some(lock.owner().clone()),
            Lock::Shared(_) | Lock::Slots(_) => None,
        }
    }
}

/// How long to wait; `None` for as long as it takes.
fn patience(args: &RunArgs) -> Option<Duration> {
    let is_patient = match args.if_held {
        Some(if_held) => if_held == IfHeld::Wait,
        None => std::io::stderr().is_terminal() && !args.no_wait,
    };
    args.wait.or((!is_patient).then_some(Duration::ZERO))
}

fn program(args: &RunArgs) -> String {
    let program = args.command.first().and_then(|program| Path::new(program).file_name());
    program.unwrap_or_default().to_string_lossy().into_owned()
}

fn at_odds(name: &str, around: Kind, asked: Kind) -> Failure {
    let how = |kind| match kind {
        Kind::Exclusive => "alone",
        Kind::Shared => "with --shared",
        Kind::Slots => "with --slots",
    };
    Failure::Usage(format!(
        "{name} is held by the run around this one, {}: asked for {}, this one would wait for itself",
        how(around),
        how(asked)
    ))
}
