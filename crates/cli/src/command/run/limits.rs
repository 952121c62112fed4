//! Decides when the command is asked to end, and when it is killed.

use std::time::Duration;

use clap::ValueEnum;

/// The command must be dead this long before anybody else can get the lock.
pub(super) const MARGIN: Duration = Duration::from_millis(500);
/// The guard kills the command this long before anybody else can get the lock. It is shorter than [`MARGIN`], so that
/// the wrapper kills first if it can: only the wrapper can report the reason.
pub(super) const GUARD_MARGIN: Duration = Duration::from_millis(400);
/// The longest time between two checks of the clock. It is shorter than [`MARGIN`], in case the host is suspended
/// between two checks.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// The action if the lock may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnLost {
    /// Send SIGTERM, then SIGKILL before anyone else can acquire the lock.
    Stop,
    /// Send SIGKILL before anyone else can acquire the lock.
    Kill,
    /// Let the command run: the resource that it writes to must check the fence.
    Ignore,
}

/// How long the command may run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) on_lost: OnLost,
    /// The time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    pub(super) max_hold: Option<Duration>,
}

/// The reason why the command must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The lock may be lost, because it could not be renewed.
    Loss,
    /// The command has reached its longest hold time.
    MaxHold,
    /// There is no guard: if this process were stopped now, the command could outlive its lock.
    Unguarded,
    /// The lock was broken. Nobody else gets the lock before the broken lease would have ended.
    Broken,
}

/// What to do about the command now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing for this long.
    Wait(Duration),
    /// Send SIGTERM.
    AskToEnd(Cause),
    /// Send SIGKILL.
    Kill(Cause),
}

impl Limits {
    /// Returns whether a command that was asked to end for this cause may continue, because the lock was renewed.
    /// `left` is the remaining validity.
    pub(super) fn may_continue(&self, cause: Cause, left: Duration) -> bool {
        cause == Cause::Loss && left > MARGIN + self.grace
    }

    /// Decides what to do about the command. `left` is the remaining validity, `held` is how long the lock has been
    /// held, and `end_request` is why and how long ago the command was asked to end.
    pub(super) fn next_step(&self, left: Duration, held: Duration, end_request: Option<(Cause, Duration)>) -> Step {
        let mut pause = CHECK_INTERVAL;
        if self.on_lost != OnLost::Ignore {
            if left <= MARGIN {
                return Step::Kill(Cause::Loss);
            }
            let needs_no_sigterm = end_request.is_some() || self.on_lost == OnLost::Kill;
            let notice = if needs_no_sigterm { MARGIN } else { MARGIN + self.grace };
            if left <= notice {
                return Step::AskToEnd(Cause::Loss);
            }
            pause = pause.min(left.saturating_sub(notice));
        }
        let limit = match end_request {
            // The grace period ends when the validity reaches the margin: the check above then kills the command.
            Some((Cause::Loss, _)) => None,
            Some((cause, ago)) => Some((self.grace, ago, Step::Kill(cause))),
            None => self.max_hold.map(|max_hold| (max_hold, held, Step::AskToEnd(Cause::MaxHold))),
        };
        match limit {
            Some((max, elapsed, step)) if elapsed >= max => step,
            Some((max, elapsed, _)) => Step::Wait(pause.min(max.saturating_sub(elapsed))),
            None => Step::Wait(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn limits(on_lost: OnLost) -> Limits {
        Limits { on_lost, grace: MS(5_000), max_hold: Some(MS(60_000)) }
    }

    #[test]
    fn a_command_is_asked_to_end_one_grace_period_before_it_is_killed() {
        let limits = limits(OnLost::Stop);
        assert_eq!(limits.next_step(MS(20_000), MS(0), None), Step::Wait(CHECK_INTERVAL));
        assert_eq!(limits.next_step(MS(5_600), MS(0), None), Step::Wait(MS(100)));
        assert_eq!(limits.next_step(MS(5_500), MS(0), None), Step::AskToEnd(Cause::Loss));
        assert_eq!(limits.next_step(MS(600), MS(0), Some((Cause::Loss, MS(4_900)))), Step::Wait(MS(100)));
        assert_eq!(limits.next_step(MS(500), MS(0), Some((Cause::Loss, MS(5_000)))), Step::Kill(Cause::Loss));
        assert_eq!(limits.next_step(MS(0), MS(0), None), Step::Kill(Cause::Loss));
    }

    #[test]
    fn a_command_is_not_killed_after_its_lock_was_renewed() {
        assert_eq!(
            limits(OnLost::Stop).next_step(MS(20_000), MS(0), Some((Cause::Loss, MS(9_000)))),
            Step::Wait(CHECK_INTERVAL)
        );
    }

    #[test]
    fn a_renewal_lets_a_command_continue_only_if_it_was_asked_to_end_for_a_loss() {
        let limits = limits(OnLost::Stop);
        assert!(!limits.may_continue(Cause::Loss, MS(5_500)));
        assert!(limits.may_continue(Cause::Loss, MS(5_501)));
        for cause in [Cause::MaxHold, Cause::Unguarded, Cause::Broken] {
            assert!(!limits.may_continue(cause, MS(20_000)), "{cause:?}");
        }
    }

    #[test]
    fn with_on_lost_kill_a_command_is_killed_without_being_asked() {
        let limits = limits(OnLost::Kill);
        assert_eq!(limits.next_step(MS(600), MS(0), None), Step::Wait(MS(100)));
        assert_eq!(limits.next_step(MS(500), MS(0), None), Step::Kill(Cause::Loss));
    }

    #[test]
    fn with_on_lost_ignore_only_max_hold_ends_a_command() {
        let limits = limits(OnLost::Ignore);
        assert_eq!(limits.next_step(MS(0), MS(0), None), Step::Wait(CHECK_INTERVAL));
        assert_eq!(limits.next_step(MS(0), MS(60_000), None), Step::AskToEnd(Cause::MaxHold));
    }

    #[test]
    fn max_hold_kills_a_command_one_grace_period_after_asking_it_to_end() {
        let limits = limits(OnLost::Stop);
        assert_eq!(limits.next_step(MS(20_000), MS(59_900), None), Step::Wait(MS(100)));
        assert_eq!(limits.next_step(MS(20_000), MS(60_000), None), Step::AskToEnd(Cause::MaxHold));
        let asked = |ago| Some((Cause::MaxHold, MS(ago)));
        assert_eq!(limits.next_step(MS(20_000), MS(64_900), asked(4_900)), Step::Wait(MS(100)));
        assert_eq!(limits.next_step(MS(20_000), MS(65_000), asked(5_000)), Step::Kill(Cause::MaxHold));
        assert_eq!(limits.next_step(MS(400), MS(61_000), asked(1_000)), Step::Kill(Cause::Loss));
    }
}
