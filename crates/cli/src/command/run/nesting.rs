//! The runs around this one, by a variable that they gave to their commands.

use quorlock::{Client, DetachedLease, LeaseError, LostError, Owner};
use serde::{Deserialize, Serialize};

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Exclusive,
    Shared,
    Slots,
}

/// One run around this one: how it holds its lock, and its lease.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) kind: Kind,
    lease: DetachedLease,
}

/// All runs around this one, the nearest last.
#[derive(Clone, Default)]
pub(super) struct Outer(Vec<Around>);

impl Outer {
    pub(super) const VARIABLE: &str = "QUORLOCK_OUTER";

    /// Reads the environment.
    pub(super) fn inherited() -> Self {
        std::env::var(Self::VARIABLE).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let all: Vec<(Kind, String)> = serde_json::from_str(text).unwrap_or_default();
        let around = |(kind, lease): (Kind, String)| Some(Around { kind, lease: lease.parse().ok()? });
        Self(all.into_iter().filter_map(around).collect())
    }

    /// The nearest run that holds this name on the nodes of this client.
    ///
    /// The environment alone proves nothing: the nodes may be others, and a process may outlive the run that started it.
    /// If the nodes do not answer, the run counts.
    pub(super) async fn of(&self, name: &str, client: &Client) -> Option<&Around> {
        for around in self.0.iter().rev().filter(|around| around.lease.name().as_str() == name) {
            if around.stands(client).await.unwrap_or(true) {
                return Some(around);
            }
        }
        None
    }

    /// The value of the variable for the command of a run within these.
    pub(super) fn with(&self, kind: Kind, lease: &DetachedLease) -> Option<String> {
        let own = Around { kind, lease: lease.clone() };
        let all = self.0.iter().chain([&own]).map(|around| (around.kind, around.lease.reveal()));
        // It is made of text: that cannot fail, and without it a deeper run waits for the lock like anybody else.
        serde_json::to_string(&all.collect::<Vec<_>>()).ok()
    }
}

impl Around {
    /// As whom it holds.
    pub(super) fn owner(&self) -> Option<Owner> {
        self.lease.owner()
    }

    /// Whether it still holds its lock, on the nodes of this client.
    ///
    /// # Errors
    /// If too few nodes answer, or their answers came too late.
    pub(super) async fn stands(&self, client: &Client) -> Result<bool, LeaseError> {
        standing(client.check(&self.lease).await)
    }
}

fn standing<T>(checked: Result<T, LeaseError>) -> Result<bool, LeaseError> {
    match checked {
        Ok(_) => Ok(true),
        // The votes stand, but may have ended while the answers were under way.
        Err(error @ LeaseError::Lost(LostError::Expired)) => Err(error),
        Err(LeaseError::Lost(_) | LeaseError::Config(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Kind {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Slots => "slots",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_end_the_run_around_this_one() {
        assert!(
            standing::<()>(Err(LeaseError::Lost(LostError::Expired))).is_err(),
            "a nested run would wait for its own outer run"
        );
        assert_eq!(standing::<()>(Err(LeaseError::Lost(LostError::Ended))).ok(), Some(false));
        assert_eq!(standing(Ok(())).ok(), Some(true));
    }

    #[tokio::test]
    async fn the_nearest_run_that_stands_counts() {
        let client = Client::memory().await;
        let (shared, alone) =
            (client.rw("a").read().acquire().await.unwrap(), client.reentrant("b").acquire().await.unwrap());
        let text = Outer::default().with(Kind::Shared, &shared.as_detached()).unwrap();
        let text = Outer::parse(&text).with(Kind::Exclusive, &alone.as_detached()).unwrap();
        let outer = Outer::parse(&text);
        assert_eq!(outer.of("a", &client).await.unwrap().kind, Kind::Shared);
        let around = outer.of("b", &client).await.unwrap();
        assert!(around.owner().is_some() && around.owner() == alone.as_detached().owner());
        assert!(outer.of("c", &client).await.is_none());
        assert!(outer.of("a", &Client::memory().await).await.is_none(), "on other nodes");
        alone.release().await.unwrap();
        assert!(outer.of("b", &client).await.is_none(), "it is over");
        assert!(Outer::parse("[[\"shared\",\"q1.cut\"]]").0.is_empty() && Outer::parse("{").0.is_empty());
    }
}
