//! Nested runs. If the command of a `quorlock run` calls `quorlock run`, the second run is nested, and the first run is
//! its outer run. A run passes its lease, and the leases of its outer runs, to its command in a variable.

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

/// Returns the value of the variable for the command of a run, which has this lease and these outer runs.
pub(super) fn variable_value(outer: &[DetachedLease], lease: &DetachedLease) -> String {
    outer.iter().chain([lease]).map(DetachedLease::reveal).collect::<Vec<_>>().join(" ")
}

/// Returns the lease of the innermost outer run that holds this name on the nodes of this client.
///
/// The variable alone proves nothing: its leases may be on other nodes, or the outer run may have ended. If the nodes
/// do not answer, the function assumes that the outer run holds the name.
pub(super) async fn find_holder<'a>(
    outer: &'a [DetachedLease],
    name: &str,
    client: &Client,
) -> Option<&'a DetachedLease> {
    for lease in outer.iter().rev().filter(|lease| lease.name().as_str() == name) {
        if is_held(lease, client).await.unwrap_or(true) {
            return Some(lease);
        }
    }
    None
}

/// Returns whether an outer run still holds its lock on the nodes of this client.
///
/// # Errors
/// If too few nodes answer, or their answers arrive too late to prove anything.
pub(super) async fn is_held(lease: &DetachedLease, client: &Client) -> Result<bool, LeaseError> {
    held_from_check(client.check(lease).await)
}

fn held_from_check<T>(result: Result<T, LeaseError>) -> Result<bool, LeaseError> {
    match result {
        Ok(_) => Ok(true),
        // The votes existed, but may have ended while the replies were in transit.
        Err(error @ LeaseError::Lost(LostError::Expired)) => Err(error),
        Err(LeaseError::Lost(_) | LeaseError::Config(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the mode in which a run acquires its lock, and the longest time that the run waits. Both depend on the lease
/// of an outer run of the same lock, if there is such a lease.
pub(super) fn lock_terms(args: &RunArgs, outer: Option<&DetachedLease>, client: &Client) -> Outcome<(Mode, Duration)> {
    let max_wait = args.lock.max_wait(args.if_held.map(|if_held| if_held == IfHeld::Wait));
    let owner = outer.and_then(DetachedLease::owner).unwrap_or_else(|| client.new_owner());
    let mode = args.lock.mode(owner);
    match (mode, outer.map(DetachedLease::mode)) {
        // An exclusive holder may do everything that a shared holder may do.
        (Mode::Exclusive { .. }, None)
        | (Mode::Exclusive { .. } | Mode::Shared { .. }, Some(Mode::Reentrant { .. })) => {
            Ok((Mode::Reentrant { owner }, max_wait))
        }
        (_, None) => Ok((mode, max_wait)),
        // Waiting could deadlock, because the lock may be held by another run that waits for the outer run.
        (Mode::Shared { .. }, Some(Mode::Shared { .. })) | (Mode::Slot { .. }, Some(Mode::Slot { .. })) => {
            Ok((mode, Duration::ZERO))
        }
        (_, Some(outer_mode)) => {
            let kind = |mode| match mode {
                Mode::Shared { .. } => "a shared lock",
                Mode::Slot { .. } => "a slot",
                Mode::Exclusive { .. } | Mode::Reentrant { .. } => "an exclusive lock",
            };
            let (name, outer_kind, kind) = (&args.lock.name, kind(outer_mode), kind(mode));
            Err(Failure::usage(format_args!(
                "an outer run holds {outer_kind} on {name}: a nested run that asks for {kind} would wait forever"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_came_too_late_does_not_prove_that_the_outer_run_has_ended() {
        assert!(
            held_from_check::<()>(Err(LeaseError::Lost(LostError::Expired))).is_err(),
            "a nested run would wait for its own outer run"
        );
        assert_eq!(held_from_check::<()>(Err(LeaseError::Lost(LostError::Ended))).ok(), Some(false));
        assert_eq!(held_from_check(Ok(())).ok(), Some(true));
    }

    #[tokio::test]
    async fn the_innermost_outer_run_that_still_holds_the_name_is_found() {
        let client = Client::memory().await;
        let shared = client.rw("a").read().acquire().await.unwrap();
        let reentrant = client.reentrant("b").acquire().await.unwrap();
        let outermost = parse(&variable_value(&[], &shared.as_detached()));
        let outer = parse(&variable_value(&outermost, &reentrant.as_detached()));
        assert!(find_holder(&outer, "a", &client).await.unwrap().mode().is_shared());
        let found = find_holder(&outer, "b", &client).await.unwrap();
        assert!(found.owner().is_some() && found.owner() == reentrant.as_detached().owner());
        assert!(find_holder(&outer, "c", &client).await.is_none());
        assert!(find_holder(&outer, "a", &Client::memory().await).await.is_none(), "the lease is on other nodes");
        reentrant.release().await.unwrap();
        assert!(find_holder(&outer, "b", &client).await.is_none(), "the lease was released");
        assert!(parse("q1.cut {").is_empty() && parse("").is_empty());
    }
}
