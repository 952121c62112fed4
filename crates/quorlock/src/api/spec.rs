//! What every kind of lock is made of: a name, how to ask for it, and how it is held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::acquire::{Defeat, Plan};
use quorlock_core::backoff::Retry;
use quorlock_core::hold::Terms;
use quorlock_core::mode::Mode;
use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::{NodeVote, Tally, Verdict};
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::vote::{Refusal, Silence};
use quorlock_core::watchdog::Renewals;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::cluster::Cluster;
use crate::cluster::inspect::inspect;
use crate::error::{AcquireError, ConfigError, HeldError, LostError};
use crate::lease::attempt::{Attempt, Decision, Observer, Progress};
use crate::lease::held::Held;
use crate::link::Voter;
use crate::node::key::LockKey;
use crate::platform::clock;

/// A spec: it holds nothing. What cannot be is told by the first attempt to acquire, before anything is sent.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) handle: Arc<Handle>,
    order: Result<Order, ConfigError>,
}

#[derive(Clone)]
struct Order {
    key: Arc<LockKey>,
    ttl: Ttl,
    renewals: Renewals,
    retry: Retry,
    /// Who asks, as the nodes are told.
    holder: Arc<str>,
    plain: bool,
    observer: Option<Observer>,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, ttl, renewals, retry, holder, plain, observer: _ } = self;
        let order = &mut f.debug_struct("Order");
        order.field("name", &key.name).field("ttl", ttl).field("renewals", renewals).field("retry", retry);
        order.field("holder", holder).field("plain", plain).finish()
    }
}

/// How long to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Once, and without a place in the queue.
    Once,
    /// For as long as the retry policy says.
    Policy,
    /// Until then at the latest.
    Until(Moment),
}

impl Patience {
    /// No wait is no place in the queue either: one round, which tells who is in the way.
    pub(crate) fn within(wait: Duration) -> Self {
        if wait.is_zero() { Self::Once } else { Self::Until(clock::now() + wait) }
    }
}

impl Spec {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        let settings = &handle.cluster.settings;
        let order = (|| {
            Ok(Order {
                key: Arc::new(settings.template.key(&Name::new(name)?)?),
                ttl: Ttl::new(settings.ttl, settings.max_ttl)?,
                renewals: settings.renewals,
                retry: settings.retry,
                holder: Arc::clone(&settings.told_holder),
                plain: false,
                observer: None,
            })
        })();
        Self { handle, order }
    }

    pub(crate) fn ttl(&mut self, ttl: Duration) {
        let max_ttl = self.handle.cluster.settings.max_ttl;
        self.with(|order| {
            order.ttl = Ttl::new(ttl, max_ttl)?;
            Ok(())
        });
    }

    pub(crate) fn label(&mut self, label: &str) {
        let Holder { host, pid, .. } = &self.handle.cluster.settings.holder;
        let holder = Holder::new(host, *pid, label).encode();
        self.with(|order| {
            order.holder = holder.into();
            Ok(())
        });
    }

    pub(crate) fn renewals(&mut self, renewals: Renewals) {
        self.with(|order| {
            order.renewals = renewals;
            Ok(())
        });
    }

    pub(crate) fn retry(&mut self, retry: Retry) {
        self.with(|order| {
            crate::api::builder::check_retry(retry)?;
            order.retry = retry;
            Ok(())
        });
    }

    pub(crate) fn plain(&mut self) {
        self.with(|order| {
            order.plain = true;
            Ok(())
        });
    }

    pub(crate) fn observe(&mut self, observer: impl Fn(&Progress) + Send + Sync + 'static) {
        self.with(|order| {
            order.observer = Some(Arc::new(observer));
            Ok(())
        });
    }

    /// Says what is wrong before anybody is asked.
    pub(crate) fn refuse(&mut self, why: ConfigError) {
        self.with(|_| Err(why));
    }

    /// What is locked, or why it cannot be.
    pub(crate) fn key(&self) -> Result<&Arc<LockKey>, ConfigError> {
        self.order.as_ref().map(|order| &order.key).map_err(Clone::clone)
    }

    pub(crate) fn order_ttl(&self) -> Result<Duration, ConfigError> {
        self.order.as_ref().map(|order| order.ttl.duration()).map_err(Clone::clone)
    }

    /// Asks once. `None` when somebody else is in the way.
    pub(crate) async fn once(&self, mode: Mode) -> Result<Option<Lease>, AcquireError> {
        match self.ask(mode, Patience::Once).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Asks, and says who is in the way. The answer to a plain request does not tell that, so the nodes are asked once more.
    pub(crate) async fn acquire(&self, mode: Mode, patience: Patience) -> Result<Lease, AcquireError> {
        let mut asked = self.ask(mode, patience).await;
        if let (Err(AcquireError::Held(held) | AcquireError::WaitTimeout(held)), Ok(order)) = (&mut asked, &self.order)
            && order.plain
            && held.tally.refused() > 0
            && let Ok(seen) = Box::pin(inspect(&self.handle.cluster, &order.key)).await
        {
            held.add(seen.nodes.iter().filter_map(|(_, report)| report.as_ref().ok()));
        }
        asked
    }

    async fn ask(&self, mode: Mode, patience: Patience) -> Result<Lease, AcquireError> {
        let order = self.order.as_ref().map_err(Clone::clone)?;
        let cluster = &self.handle.cluster;
        if cluster.is_closed() {
            return Err(AcquireError::Closed);
        }
        let settings = &cluster.settings;
        let node_deadline = settings.node_deadline(order.ttl);
        settings.check(order.ttl, order.renewals)?;
        let (retry, give_up) = match patience {
            Patience::Once => (Retry::ONCE, None),
            Patience::Policy => (order.retry, None),
            Patience::Until(end) => (order.retry, Some(end)),
        };
        let waits = !matches!(patience, Patience::Once) && !order.plain;
        let plan = Plan {
            quorum: settings.quorum,
            ttl: order.ttl,
            drift: settings.drift,
            min_validity: settings.min_validity(order.ttl),
            node_deadline,
            retry,
            give_up,
            channel: waits.then_some(cluster.channel),
            plain: order.plain,
            mode,
            holder: Arc::clone(&order.holder),
            rules: settings.rules,
        };
        match Attempt::start(cluster, &order.key, plan, order.observer.clone()).await {
            Decision::Won(won, mark, legacy) => {
                let terms = Terms {
                    quorum: settings.quorum,
                    ttl: order.ttl,
                    drift: settings.drift,
                    node_deadline,
                    renewals: order.renewals,
                    trusting: settings.trusting,
                    mode: won.mode,
                    holder: Arc::clone(&order.holder),
                    rules: settings.rules,
                };
                cluster.counters.won(&won);
                let (id, granted) = (won.attempt, won.granted());
                let held = Held::keep(cluster, &order.key, terms, won, mark);
                let held = held.map_err(|why| match why {
                    LostError::Expired => too_slow(cluster, order.key.name.clone(), granted),
                    _ => AcquireError::Closed,
                })?;
                legacy.pass_to(id, &(Arc::clone(&held) as Arc<dyn Voter>));
                Ok(Lease::new(held, Arc::clone(&self.handle)))
            }
            Decision::Lost(defeat) => {
                cluster.counters.defeated(defeat.verdict);
                Err(self.explain(order.key.name.clone(), defeat, mode, give_up.is_some()))
            }
            Decision::Closed => Err(AcquireError::Closed),
        }
    }

    fn explain(&self, name: Name, defeat: Defeat, mode: Mode, timed: bool) -> AcquireError {
        let tally = self.handle.cluster.name_nodes(defeat.tally);
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
                let stored = tally.votes.iter().find_map(|vote| match vote {
                    NodeVote::Refused(Refusal::Permits { stored }) => Some(*stored),
                    _ => None,
                });
                match (stored, mode) {
                    (Some(stored), Mode::Slot { permits, .. }) => {
                        AcquireError::Permits { name, asked: permits, stored }
                    }
                    _ => AcquireError::Upgrade { name },
                }
            }
        }
    }

    fn with(&mut self, change: impl FnOnce(&mut Order) -> Result<(), ConfigError>) {
        if let Ok(order) = &mut self.order
            && let Err(error) = change(order)
        {
            self.order = Err(error);
        }
    }
}

/// The settings that every kind of lock has, for a type with a field `spec`.
macro_rules! settings {
    ($kind:ty) => {
        impl $kind {
            /// Asks the nodes for this lifetime: the time after which a holder that has died is out of the way.
            #[must_use]
            pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
                self.spec.ttl(ttl);
                self
            }

            /// Shown to whoever finds the lock held; cut to 128 bytes.
            #[must_use]
            pub fn label(mut self, label: &str) -> Self {
                self.spec.label(label);
                self
            }

            /// Whether and how often leases of this lock are renewed.
            #[must_use]
            pub fn renewals(mut self, renewals: quorlock_core::watchdog::Renewals) -> Self {
                self.spec.renewals(renewals);
                self
            }

            /// How often to ask again, and how patiently where there is no queue.
            #[must_use]
            pub fn retry(mut self, retry: quorlock_core::backoff::Retry) -> Self {
                self.spec.retry(retry);
                self
            }

            /// Calls this whenever there is something new to tell about an acquire that waits: who has the lock, which
            /// place in the queue is ours, and at last that it was granted.
            ///
            /// It is called on the client's own tasks, one call after the other, and must not block. The last call
            /// comes before the acquire returns.
            #[must_use]
            pub fn observe(mut self, observer: impl Fn(&crate::Progress) + Send + Sync + 'static) -> Self {
                self.spec.observe(observer);
                self
            }
        }
    };
}
pub(crate) use settings;

/// The machine was paused between the request and the answer: these nodes granted it, but that is too long ago.
fn too_slow(cluster: &Cluster, name: Name, granted: u32) -> AcquireError {
    let vote =
        |node: usize| if granted & 1 << node != 0 { NodeVote::Granted } else { NodeVote::Silent(Silence::Unheard) };
    let votes = (0..cluster.links.len()).map(vote).collect();
    AcquireError::TooSlow { name, tally: cluster.name_nodes(Tally { votes, ..Tally::default() }) }
}
