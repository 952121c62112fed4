//! Nested runs: a variable passes the leases of the outer runs to their commands.

use std::time::Duration;

use quorlock::{Client, DetachedLease, LeaseError, LostError, Mode};

use super::{IfHeld, RunArgs};
use crate::exit::{Failure, Outcome};

/// The leases of all outer runs, innermost last, separated by blanks.
pub(super) const VARIABLE: &str = "QUORLOCK_OUTER";

/// Returns the leases of the outer runs.
pub(super) fn inherited() -> Vec<DetachedLease> {
    parse(&std::env::var(VARIABLE).unwrap_or_default())
}

fn parse(text: &str) -> Vec<DetachedLease> {
    text.split(' ').filter_map(|lease| lease.parse().ok()).collect()
}

/// Returns the value of the variable for the command of a run with these outer runs.
pub(super) fn with(outer: &[DetachedLease], lease: &DetachedLease) -> String {
    outer.iter().chain([lease]).map(DetachedLease::reveal).collect::<Vec<_>>().join(" ")
}

/// Returns the lease of the innermost outer run that holds this name on the nodes of this client.
///
/// The variable alone proves nothing: its leases may be on other nodes, and a process may outlive the run that started
/// it. If the nodes do not answer, the function assumes that the outer run holds the name.
pub(super) async fn find<'a>(outer: &'a [DetachedLease], name: &str, client: &Client) -> Option<&'a DetachedLease> {
    for lease in outer.iter().rev().filter(|lease| lease.name().as_str() == name) {
        if is_held(lease, client).await.unwrap_or(true) {
            return Some(lease);
        }
    }
    None
}

/// Returns whether an outer run still holds its lock, on the nodes of this client.
///
/// # Errors
/// If too few nodes answer, or their answers arrive too late to prove anything.
pub(super) async fn is_held(lease: &DetachedLease, client: &Client) -> Result<bool, LeaseError> {
    verdict(client.check(lease).await)
}

fn verdict<T>(checked: Result<T, LeaseError>) -> Result<bool, LeaseError> {
    match checked {
        Ok(_) => Ok(true),
        // The votes existed, but may have ended while the replies were in transit.
        Err(error @ LeaseError::Lost(LostError::Expired)) => Err(error),
        Err(LeaseError::Lost(_) | LeaseError::Config(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the mode in which a run holds its lock, and how long it waits for the lock. Both depend on the outer run of
/// the same lock, if there is one.
pub(super) fn mode(args: &RunArgs, around: Option<&DetachedLease>, client: &Client) -> Outcome<(Mode, Duration)> {
    let wait = args.lock.patience(args.if_held.map(|if_held| if_held == IfHeld::Wait));
    let owner = around.and_then(DetachedLease::owner).unwrap_or_else(|| client.new_owner());
    let asked = args.lock.mode(owner);
    match (asked, around.map(DetachedLease::mode)) {
        // An exclusive holder may do everything that a shared holder may do.
        (Mode::Exclusive { .. }, None)
        | (Mode::Exclusive { .. } | Mode::Shared { .. }, Some(Mode::Reentrant { .. })) => {
            Ok((Mode::Reentrant { owner }, wait))
        }
        (_, None) => Ok((asked, wait)),
        // Waiting could deadlock: the lock may be held by a run that waits for the outer run.
        (Mode::Shared { .. }, Some(Mode::Shared { .. })) | (Mode::Slot { .. }, Some(Mode::Slot { .. })) => {
            Ok((asked, Duration::ZERO))
        }
        (_, Some(other)) => {
            let how = |mode| match mode {
                Mode::Shared { .. } => "with --shared",
                Mode::Slot { .. } => "with --slots",
                Mode::Exclusive { .. } | Mode::Reentrant { .. } => "alone",
            };
            Err(Failure::usage(format_args!(
                "{} is held by the run around this one, {}: asked for {}, this one would wait for itself",
                args.lock.name,
                how(other),
                how(asked)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_end_the_run_around_this_one() {
        assert!(
            verdict::<()>(Err(LeaseError::Lost(LostError::Expired))).is_err(),
            "a nested run would wait for its own outer run"
        );
        assert_eq!(verdict::<()>(Err(LeaseError::Lost(LostError::Ended))).ok(), Some(false));
        assert_eq!(verdict(Ok(())).ok(), Some(true));
    }

    #[tokio::test]
    async fn the_nearest_run_that_still_holds_counts() {
        let client = Client::memory().await;
        let shared = client.rw("a").read().acquire().await.unwrap();
        let alone = client.reentrant("b").acquire().await.unwrap();
        let text = with(&parse(&with(&[], &shared.as_detached())), &alone.as_detached());
        let outer = parse(&text);
        assert!(find(&outer, "a", &client).await.unwrap().mode().is_shared());
        let around = find(&outer, "b", &client).await.unwrap();
        assert!(around.owner().is_some() && around.owner() == alone.as_detached().owner());
        assert!(find(&outer, "c", &client).await.is_none());
        assert!(find(&outer, "a", &Client::memory().await).await.is_none(), "on other nodes");
        alone.release().await.unwrap();
        assert!(find(&outer, "b", &client).await.is_none(), "it is over");
        assert!(parse("q1.cut {").is_empty() && parse("").is_empty());
    }
}
