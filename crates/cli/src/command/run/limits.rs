//! Decides when the command is asked to end, and when it is killed.

use std::time::Duration;

use clap::ValueEnum;

/// The command must be dead this long before anybody else can get the lock.
pub(super) const MARGIN: Duration = Duration::from_millis(500);
/// The guard kills the command this long before anybody else can get the lock. That is later than the wrapper would
/// kill it, because only the wrapper can report the reason.
pub(super) const GUARD_MARGIN: Duration = Duration::from_millis(400);
/// The longest time between two checks of the clock. It is shorter than [`MARGIN`], in case the machine was suspended
/// between two checks.
pub(super) const LOOK: Duration = Duration::from_millis(400);

/// What to do with a command whose lock may be lost.
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
    pub(super) grace: Duration,
    pub(super) max_hold: Option<Duration>,
}

/// The reason why the command must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The lock was not renewed for so long that it may be lost.
    Loss,
    /// The command has reached its longest hold time.
    MaxHold,
    /// There was no guard for so long that the command would outlive its lock if this process were stopped now.
    Unguarded,
    /// The lock was broken. Nobody else gets the lock before the broken lease would have ended.
    Broken,
}

/// What to do about the command now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Do nothing for this long.
    Leave(Duration),
    /// Send SIGTERM.
    Ask(Cause),
    /// Send SIGKILL.
    Kill(Cause),
}

impl Limits {
    /// Returns whether the command may continue although it was asked to end, because the lock was renewed since.
    /// `left` is the remaining validity.
    pub(super) fn is_withdrawn(&self, cause: Cause, left: Duration) -> bool {
        cause == Cause::Loss && left > MARGIN + self.grace
    }

    /// Decides what to do about the command. `left` is the remaining validity, `held` is how long the lock has been
    /// held, and `asked` is why and how long ago the command was asked to end.
    pub(super) fn measure(&self, left: Duration, held: Duration, asked: Option<(Cause, Duration)>) -> Measure {
        let mut rest = LOOK;
        if self.on_lost != OnLost::Ignore {
            if left <= MARGIN {
                return Measure::Kill(Cause::Loss);
            }
            let is_asked = asked.is_some() || self.on_lost == OnLost::Kill;
            let notice = if is_asked { MARGIN } else { MARGIN + self.grace };
            if left <= notice {
                return Measure::Ask(Cause::Loss);
            }
            rest = rest.min(left.saturating_sub(notice));
        }
        let limit = match asked {
            // Its grace period ends when the validity reaches the margin. Only then is the command killed.
            Some((Cause::Loss, _)) => None,
            Some((cause, ago)) => Some((self.grace, ago, Measure::Kill(cause))),
            None => self.max_hold.map(|most| (most, held, Measure::Ask(Cause::MaxHold))),
        };
        match limit {
            Some((most, so_far, measure)) if so_far >= most => measure,
            Some((most, so_far, _)) => Measure::Leave(rest.min(most.saturating_sub(so_far))),
            None => Measure::Leave(rest),
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
    fn a_command_is_asked_in_time_and_killed_before_the_lock_can_be_somebody_elses() {
        let limits = limits(OnLost::Stop);
        assert_eq!(limits.measure(MS(20_000), MS(0), None), Measure::Leave(LOOK));
        assert_eq!(limits.measure(MS(5_600), MS(0), None), Measure::Leave(MS(100)));
        assert_eq!(limits.measure(MS(5_500), MS(0), None), Measure::Ask(Cause::Loss));
        assert_eq!(limits.measure(MS(600), MS(0), Some((Cause::Loss, MS(4_900)))), Measure::Leave(MS(100)));
        assert_eq!(limits.measure(MS(500), MS(0), Some((Cause::Loss, MS(5_000)))), Measure::Kill(Cause::Loss));
        assert_eq!(limits.measure(MS(0), MS(0), None), Measure::Kill(Cause::Loss));
    }

    #[test]
    fn a_lock_that_comes_back_spares_a_command_that_was_asked() {
        assert_eq!(
            limits(OnLost::Stop).measure(MS(20_000), MS(0), Some((Cause::Loss, MS(9_000)))),
            Measure::Leave(LOOK)
        );
    }

    #[test]
    fn a_lock_that_comes_back_withdraws_the_request_to_end_and_no_other() {
        let limits = limits(OnLost::Stop);
        assert!(!limits.is_withdrawn(Cause::Loss, MS(5_500)));
        assert!(limits.is_withdrawn(Cause::Loss, MS(5_501)));
        for cause in [Cause::MaxHold, Cause::Unguarded, Cause::Broken] {
            assert!(!limits.is_withdrawn(cause, MS(20_000)), "{cause:?}");
        }
    }

    #[test]
    fn who_is_to_be_killed_is_not_asked() {
        let limits = limits(OnLost::Kill);
        assert_eq!(limits.measure(MS(600), MS(0), None), Measure::Leave(MS(100)));
        assert_eq!(limits.measure(MS(500), MS(0), None), Measure::Kill(Cause::Loss));
    }

    #[test]
    fn a_loss_that_is_ignored_ends_nothing_and_a_long_hold_still_does() {
        let limits = limits(OnLost::Ignore);
        assert_eq!(limits.measure(MS(0), MS(0), None), Measure::Leave(LOOK));
        assert_eq!(limits.measure(MS(0), MS(60_000), None), Measure::Ask(Cause::MaxHold));
    }

    #[test]
    fn a_hold_that_is_too_long_ends_with_the_same_grace() {
        let limits = limits(OnLost::Stop);
        assert_eq!(limits.measure(MS(20_000), MS(59_900), None), Measure::Leave(MS(100)));
        assert_eq!(limits.measure(MS(20_000), MS(60_000), None), Measure::Ask(Cause::MaxHold));
        let asked = |ago| Some((Cause::MaxHold, MS(ago)));
        assert_eq!(limits.measure(MS(20_000), MS(64_900), asked(4_900)), Measure::Leave(MS(100)));
        assert_eq!(limits.measure(MS(20_000), MS(65_000), asked(5_000)), Measure::Kill(Cause::MaxHold));
        assert_eq!(limits.measure(MS(400), MS(61_000), asked(1_000)), Measure::Kill(Cause::Loss));
    }
}
