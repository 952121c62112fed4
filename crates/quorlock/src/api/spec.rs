//! The settings of a lock, and acquiring a name with them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::backoff::Retry;
use quorlock_core::hold::Defeat;
use quorlock_core::name::Name;
use quorlock_core::terms::{Mode, PERMITS_MAX, Renewals, Terms};
use quorlock_core::time::Moment;
use quorlock_core::vote::{NodeVote, Refusal, Verdict};

use crate::api::client::Client;
use crate::api::lease::Lease;
use crate::cluster::inspect::inspect;
use crate::error::{AcquireError, ConfigError, HeldError};
use crate::lease::claim::{Claim, Observer};
use crate::node::key::LockKey;
use crate::platform::clock;

/// The settings for acquiring and holding a name, which all kinds of locks have.
///
/// The first acquire reports invalid names and settings, before it sends a request.
#[derive(Clone)]
pub struct Spec {
    pub(crate) client: Client,
    pub(crate) key: Result<Arc<LockKey>, ConfigError>,
    pub(crate) ttl: Duration,
    pub(crate) renewals: Renewals,
    pub(crate) retry: Retry,
    /// The holder, encoded for the nodes.
    pub(crate) holder: Arc<str>,
    pub(crate) plain: bool,
    pub(crate) observer: Option<Observer>,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.key.as_ref().map(|key| &key.name);
        f.debug_struct("Spec").field("name", &name).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

/// How long to try to acquire.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// Once, without a position in the queue.
    Once,
    /// According to the retry policy.
    Policy,
    /// According to the retry policy, but at most until this time.
    Until(Moment),
}

impl Patience {
    pub(crate) fn within(wait: Duration) -> Self {
        if wait.is_zero() { Self::Once } else { Self::Until(clock::now() + wait) }
    }
}

impl Spec {
    /// Returns the client's defaults.
    pub(crate) fn new(client: &Client, key: Result<Arc<LockKey>, ConfigError>) -> Self {
        let settings = &client.cluster().settings;
        Self {
            key,
            ttl: settings.ttl,
            renewals: settings.renewals,
            retry: settings.retry,
            holder: Arc::clone(&settings.told_holder),
            plain: false,
            observer: None,
            client: client.clone(),
        }
    }

    pub(crate) fn key(&self) -> Result<&Arc<LockKey>, ConfigError> {
        self.key.as_ref().map_err(Clone::clone)
    }

    /// Asks the nodes for the holder of a plain lock, because their refusals do not name it.
    pub(crate) async fn find_holder(&self, held: &mut HeldError) {
        if held.tally.refused() > 0
            && let Ok(key) = &self.key
            && let Ok(seen) = inspect(self.client.cluster(), key).await
        {
            held.add(seen.reports());
        }
    }

    /// Acquires one name in this mode.
    pub(crate) async fn acquire(
        &self,
        key: &Arc<LockKey>,
        mode: Mode,
        patience: Patience,
    ) -> Result<Lease, AcquireError> {
        let cluster = self.client.cluster();
        let settings = &cluster.settings;
        let ttl = settings.check(self.ttl, self.renewals, self.retry)?;
        if let Mode::Slot { permits, .. } = mode
            && !(1..=PERMITS_MAX).contains(&permits)
        {
            let rule = format!("be between 1 and {PERMITS_MAX}");
            return Err(ConfigError::setting("the number of permits", permits, rule).into());
        }
        if cluster.is_closed() {
            return Err(AcquireError::Closed);
        }
        let (retry, give_up) = match patience {
            Patience::Once => (Retry::ONCE, None),
            Patience::Policy => (self.retry, None),
            Patience::Until(end) => (self.retry, Some(end)),
        };
        let waits = !matches!(patience, Patience::Once) && !self.plain;
        let terms = Terms {
            quorum: settings.quorum,
            ttl,
            drift: settings.drift,
            min_validity: settings.min_validity(ttl),
            node_deadline: settings.node_deadline(ttl),
            retry,
            give_up,
            channel: waits.then_some(cluster.channel),
            plain: self.plain,
            mode,
            holder: Arc::clone(&self.holder),
            renewals: self.renewals,
            trusting: settings.trusting,
            rules: settings.rules,
        };
        let lease = Lease::new(Claim::start(cluster, key, terms), self.client.clone());
        match lease.claim.won(self.observer.as_ref()).await {
            Ok(()) => Ok(lease),
            Err(None) => Err(AcquireError::Closed),
            Err(Some(defeat)) => Err(self.explain(key.name.clone(), defeat, mode, give_up.is_some())),
        }
    }

    fn explain(&self, name: Name, defeat: Defeat, mode: Mode, timed: bool) -> AcquireError {
        let tally = self.client.cluster().name_nodes(defeat.tally);
        match defeat.verdict {
            Verdict::Held | Verdict::CutOff if timed => {
                AcquireError::WaitTimeout(Box::new(HeldError::new(name, tally)))
            }
            Verdict::Held | Verdict::CutOff => AcquireError::Held(Box::new(HeldError::new(name, tally))),
            Verdict::NoQuorum => AcquireError::NoQuorum { name, tally },
            Verdict::TooSlow | Verdict::Won => AcquireError::TooSlow { name, tally },
            Verdict::Mismatch if tally.votes.contains(&NodeVote::Refused(Refusal::Retired)) => {
                AcquireError::Retired { name }
            }
            Verdict::Mismatch => {
                let in_use = tally.votes.iter().find_map(|vote| match vote {
                    NodeVote::Refused(Refusal::Permits { stored }) => Some(*stored),
                    _ => None,
                });
                match (in_use, mode) {
                    (Some(in_use), Mode::Slot { permits, .. }) => {
                        AcquireError::SlotsMismatch { name, requested: permits, in_use }
                    }
                    _ => AcquireError::UpgradeUnsupported { name },
                }
            }
        }
    }
}
