//! A history of the leases of one name, with which a test checks mutual exclusion and the order of fences.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use quorlock::{Fence, Lease};

/// How a lease holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldMode {
    Exclusive,
    Shared,
    Slot(u32),
}

impl HoldMode {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => false,
            (Self::Slot(slot), Self::Slot(other_slot)) => slot == other_slot,
            _ => true,
        }
    }
}

/// The time for which a lease was valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldPeriod {
    pub(crate) hold_mode: HoldMode,
    pub(crate) fence: Fence,
    pub(crate) begins_at: Instant,
    pub(crate) ends_at: Instant,
}

impl HeldPeriod {
    /// The period of a lease that was just acquired. `None` if the lease has ended already.
    pub(crate) fn start(lease: &Lease, hold_mode: HoldMode) -> Option<Self> {
        let begins_at = Instant::now();
        let fence = lease.fence().ok()?;
        // Renewals extend the validity, so `end` and `abandon` correct this value.
        Some(Self { hold_mode, fence, begins_at, ends_at: begins_at + lease.validity() })
    }

    /// Ends the period now. Must be called before the release of the lease.
    pub(crate) fn end(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let ends_at = if lease.validity() > Duration::ZERO { now } else { self.ends_at.min(now) };
        Self { ends_at, ..self }
    }

    /// Ends the period of a holder that has lost all connections, and may use the lock until its validity ends.
    pub(crate) fn abandon(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let validity = lease.validity();
        Self { ends_at: if validity > Duration::ZERO { now + validity } else { self.ends_at.min(now) }, ..self }
    }
}

/// The periods of all leases of one name, in any order.
#[derive(Debug, Default)]
pub(crate) struct LeaseHistory {
    periods: Mutex<Vec<HeldPeriod>>,
}

impl LeaseHistory {
    pub(crate) fn record(&self, period: HeldPeriod) {
        self.periods.lock().expect("no task panics").push(period);
    }

    pub(crate) fn len(&self) -> usize {
        self.periods.lock().expect("no task panics").len()
    }

    /// The maximum number of leases that were valid at the same time.
    pub(crate) fn max_concurrent(&self) -> usize {
        let periods = self.periods.lock().expect("no task panics");
        let count_at =
            |time: Instant| periods.iter().filter(|period| period.begins_at <= time && time < period.ends_at).count();
        periods.iter().map(|period| count_at(period.begins_at)).max().unwrap_or_default()
    }

    /// Describes the pairs of leases that exclude each other, but overlap or have fences in the wrong order.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut periods = self.periods.lock().expect("no task panics").clone();
        periods.sort_by_key(|period| period.begins_at);
        let mut violations = Vec::new();
        for (index, earlier) in periods.iter().enumerate() {
            for later in periods[index + 1..].iter().filter(|later| earlier.hold_mode.excludes(later.hold_mode)) {
                if later.begins_at < earlier.ends_at {
                    let overlap = earlier.ends_at - later.begins_at;
                    violations.push(format!("two leases overlap for {overlap:?}: {earlier:?} and {later:?}"));
                }
                if later.fence <= earlier.fence {
                    violations.push(format!("the fence of a later lease is not higher: {earlier:?} and {later:?}"));
                }
            }
        }
        violations
    }
}

/// A history of leases. Each has a mode, a fence, and its start and end in milliseconds.
fn history_of(periods: &[(HoldMode, u64, u64, u64)]) -> LeaseHistory {
    let (history, start) = (LeaseHistory::default(), Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    for &(hold_mode, fence, begin_ms, end_ms) in periods {
        history.record(HeldPeriod {
            hold_mode,
            fence: Fence::new(fence),
            begins_at: at(begin_ms),
            ends_at: at(end_ms),
        });
    }
    history
}

#[test]
fn a_history_accepts_consecutive_leases() {
    let history = history_of(&[
        (HoldMode::Exclusive, 2, 10, 20),
        (HoldMode::Exclusive, 1, 0, 10),
        (HoldMode::Exclusive, 3, 20, 30),
    ]);
    assert_eq!(history.violations(), Vec::<String>::new());
    assert_eq!(history.max_concurrent(), 1);
}

#[test]
fn a_history_finds_overlapping_leases() {
    assert_eq!(history_of(&[(HoldMode::Exclusive, 1, 0, 11), (HoldMode::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(HoldMode::Shared, 1, 0, 11), (HoldMode::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(HoldMode::Slot(1), 1, 0, 11), (HoldMode::Slot(1), 2, 10, 20)]).violations().len(), 1);
}

#[test]
fn a_history_finds_fences_that_do_not_grow() {
    assert_eq!(history_of(&[(HoldMode::Exclusive, 2, 0, 10), (HoldMode::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(HoldMode::Exclusive, 2, 0, 10), (HoldMode::Shared, 1, 10, 20)]).violations().len(), 1);
}

#[test]
fn a_history_allows_readers_and_different_slots_to_overlap() {
    let history = history_of(&[(HoldMode::Shared, 2, 0, 11), (HoldMode::Shared, 1, 10, 20)]);
    assert_eq!((history.violations().len(), history.max_concurrent()), (0, 2));
    let history =
        history_of(&[(HoldMode::Slot(0), 2, 0, 11), (HoldMode::Slot(1), 1, 10, 20), (HoldMode::Slot(2), 3, 10, 20)]);
    assert_eq!((history.violations().len(), history.max_concurrent()), (0, 3));
}
