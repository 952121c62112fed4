//! The settings of a client.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::backoff::Retry;
use quorlock_core::name::Holder;
use quorlock_core::node::{Constants, Trust};
use quorlock_core::quorum::{Electors, Quorum};
use quorlock_core::rules::{Rule, Rules};
use quorlock_core::terms::Renewals;
use quorlock_core::time::{Drift, TTL_DEFAULT, TTL_MAX, TTL_MIN, Ttl};

use crate::error::ConfigError;
use crate::node::key::KeyTemplate;

/// The default for the longest ttl of a cluster.
pub const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
/// The default for the largest difference between the nodes' wall clocks.
pub const MAX_CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(10);
/// The default for the largest backward step of a node's wall clock.
pub const MAX_CLOCK_STEP_BACK_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest node deadline that is derived from a ttl.
const NODE_DEADLINE_MIN: Duration = Duration::from_millis(5);
/// The longest node deadline that is derived from a ttl.
const NODE_DEADLINE_MAX: Duration = Duration::from_millis(200);
/// The longest deadline for a local file that is derived from a ttl.
const EMBEDDED_DEADLINE_MAX: Duration = Duration::from_secs(5);
/// The shortest node deadline that can be set.
const DEADLINE_MIN: Duration = Duration::from_millis(1);
/// The shortest time between two renewals of one lease.
const RENEWAL_MIN: Duration = Duration::from_millis(10);

/// The settings of a client. Some settings are known only when the builder connects: see [`complete`](Self::complete).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the settings are independent of each other")]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) max_clock_skew: Duration,
    pub(crate) max_clock_step_back: Duration,
    pub(crate) drift: Drift,
    pub(crate) node_deadline: Option<Duration>,
    pub(crate) min_validity: Option<Duration>,
    pub(crate) retry: Retry,
    pub(crate) renewals: Renewals,
    pub(crate) rules: Rules,
    /// Whether nodes that lost their memory may vote at once.
    pub(crate) trusting: bool,
    /// Whether `init_cluster` creates a new cluster even if nodes have leases.
    pub(crate) discards_leases: bool,
    /// Whether grants, releases and losses are written into the nodes' history.
    pub(crate) history: bool,
    /// Whether the node is a local file: slower than a server in a fast network, but always reachable.
    pub(crate) embedded: bool,
    /// The configured nodes.
    pub(crate) quorum: Quorum,
    /// Who may vote: all configured nodes.
    pub(crate) electors: Arc<Electors>,
    pub(crate) template: KeyTemplate,
    pub(crate) holder: Holder,
    /// The holder, encoded for the nodes.
    pub(crate) told_holder: Arc<str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: TTL_DEFAULT,
            max_ttl: MAX_TTL_DEFAULT,
            max_clock_skew: MAX_CLOCK_SKEW_DEFAULT,
            max_clock_step_back: MAX_CLOCK_STEP_BACK_DEFAULT,
            drift: Drift::default(),
            node_deadline: None,
            min_validity: None,
            retry: Retry::default(),
            renewals: Renewals::default(),
            rules: Rules::default(),
            trusting: false,
            discards_leases: false,
            history: false,
            embedded: false,
            quorum: Quorum::ONE,
            electors: Arc::new(Electors::all(Quorum::ONE)),
            template: KeyTemplate::default(),
            holder: Holder::new("", 0, ""),
            told_holder: Arc::default(),
        }
    }
}

impl Settings {
    /// Adds the settings that are known only when the client connects, and checks all settings.
    pub(crate) fn complete(self, nodes: usize, template: KeyTemplate, holder: Holder) -> Result<Self, ConfigError> {
        let quorum = Quorum::new(nodes)?;
        let settings = Self {
            quorum,
            electors: Arc::new(Electors::all(quorum)),
            trusting: nodes == 1 || self.trusting || !self.rules.hold(Rule::Quarantine),
            template,
            told_holder: holder.encode().into(),
            holder,
            ..self
        };
        let Self { max_ttl, max_clock_skew, max_clock_step_back, .. } = settings;
        if max_ttl < TTL_MIN || max_ttl > TTL_MAX {
            return Err(ConfigError::setting("max_ttl", max_ttl, "be between 100ms and 24h"));
        }
        if max_ttl < max_clock_skew.saturating_mul(2).saturating_add(max_clock_step_back) {
            let rule = format!(
                "be at least twice max_clock_skew ({max_clock_skew:?}) plus max_clock_step_back ({max_clock_step_back:?})"
            );
            return Err(ConfigError::setting("max_ttl", max_ttl, rule));
        }
        let ttl = settings.check(settings.ttl, settings.renewals, settings.retry)?;
        match settings.node_deadline {
            Some(deadline) if deadline < DEADLINE_MIN || deadline > ttl.duration() / 2 => {
                let rule = format!("be at least {DEADLINE_MIN:?}, and at most half of the ttl");
                Err(ConfigError::setting("node_deadline", deadline, rule))
            }
            _ => Ok(settings),
        }
    }

    /// Checks whether the client can acquire and keep leases with these settings.
    pub(crate) fn check(&self, ttl: Duration, renewals: Renewals, retry: Retry) -> Result<Ttl, ConfigError> {
        let ttl = Ttl::new(ttl, self.max_ttl)?;
        let with_ttl = |rule: String| format!("{rule}, for a ttl of {:?}", ttl.duration());
        let drift = self.drift.of(ttl);
        if self.drift.ppm > Drift::PPM_MAX || drift >= ttl.duration() / 2 {
            return Err(ConfigError::setting("drift", drift, with_ttl("be less than half of the ttl".into())));
        }
        let min_validity = self.min_validity(ttl);
        if min_validity.saturating_add(drift) >= ttl.duration() {
            let rule = with_ttl("be less than the ttl minus drift".into());
            return Err(ConfigError::setting("min_validity", min_validity, rule));
        }
        // Too many renewals would flood the nodes, and a renewal after `latest` would come too late.
        let latest = ttl.duration().saturating_sub(drift + self.node_deadline(ttl));
        if let Renewals::Watchdog { every: Some(every), .. } = renewals
            && (every < RENEWAL_MIN || every >= latest)
        {
            let rule = with_ttl(format!("be between {RENEWAL_MIN:?} and {latest:?}"));
            return Err(ConfigError::setting("the renewal interval", every, rule));
        }
        if retry.min > retry.max {
            let rule = format!("be at most retry.max ({:?})", retry.max);
            return Err(ConfigError::setting("retry.min", retry.min, rule));
        }
        if retry.attempts == Some(0) {
            return Err(ConfigError::setting("retry.attempts", 0, "be at least 1"));
        }
        Ok(ttl)
    }

    /// Returns how long to wait for a node's vote: short compared with the ttl, as Redlock requires.
    pub(crate) fn node_deadline(&self, ttl: Ttl) -> Duration {
        match self.node_deadline {
            // A vote that arrives later is useless for a lease with this ttl.
            Some(deadline) => deadline.min(ttl.duration() / 2),
            None if self.embedded => (ttl.duration() / 4).min(EMBEDDED_DEADLINE_MAX),
            None => (ttl.duration() / 20).clamp(NODE_DEADLINE_MIN, NODE_DEADLINE_MAX),
        }
    }

    /// Returns how long to wait for a node's answer to a request that belongs to no lease.
    pub(crate) fn look_deadline(&self) -> Duration {
        self.node_deadline.unwrap_or(if self.embedded { EMBEDDED_DEADLINE_MAX } else { NODE_DEADLINE_MAX })
    }

    pub(crate) fn min_validity(&self, ttl: Ttl) -> Duration {
        self.min_validity.unwrap_or(ttl.duration() / 2)
    }

    /// Returns the constants of a cluster with this id.
    pub(crate) fn constants(&self, cluster: String) -> Constants {
        Constants {
            cluster,
            nodes: self.quorum.nodes(),
            max_ttl_millis: self.max_ttl.as_millis() as u64,
            max_skew_micros: self.max_clock_skew.as_micros() as u64,
        }
    }

    /// Returns whether a node that lost its memory may vote at once.
    pub(crate) fn trust(&self) -> Trust {
        let max_clock_skew = self.max_clock_skew.as_micros() as i64;
        if self.quorum.nodes() == 1 {
            // The floor must be above every fence that was granted before. A fence is at most the max clock skew ahead
            // of the node's clock, and the clock may have stepped back by the same amount since then.
            Trust::Vote { floor_offset: 2 * max_clock_skew }
        } else if self.trusting {
            Trust::Vote { floor_offset: -max_clock_skew }
        } else {
            Trust::Quarantine
        }
    }
}
