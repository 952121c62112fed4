//! Checks a history of leases: no two leases of a name overlap, and fences only grow.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::exit::counted;

/// One lease, from its grant to its end. Both times are since the start of the demonstration.
#[derive(Clone, Debug)]
pub(super) struct PastLease {
    pub(super) name: &'static str,
    pub(super) worker: usize,
    pub(super) fence: u64,
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) is_lost: bool,
}

/// The findings about all names.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) grants: usize,
    pub(super) losses: usize,
    /// The number of leases that began while an earlier lease of the same name was still valid.
    pub(super) overlaps: usize,
    /// Whether every lease has a higher fence than all earlier leases of its name.
    pub(super) fences_increasing: bool,
    pub(super) names: Vec<NameFindings>,
    pub(super) violations: Vec<String>,
}

/// The findings about one name.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct NameFindings {
    pub(super) name: &'static str,
    pub(super) grants: usize,
    pub(super) losses: usize,
    pub(super) overlaps: usize,
    pub(super) fences_increasing: bool,
    pub(super) first_fence: Option<u64>,
    pub(super) last_fence: Option<u64>,
}

impl Findings {
    /// Checks leases, which may come in any order.
    pub(super) fn of(names: &[&'static str], past_leases: &[PastLease]) -> Self {
        let mut findings = Self { fences_increasing: true, ..Self::default() };
        for name in names {
            let mut past_leases: Vec<&PastLease> =
                past_leases.iter().filter(|past_lease| past_lease.name == *name).collect();
            past_leases.sort_by_key(|past_lease| (past_lease.from, past_lease.fence));
            let of_name = check(name, &past_leases, &mut findings.violations);
            findings.grants += of_name.grants;
            findings.losses += of_name.losses;
            findings.overlaps += of_name.overlaps;
            findings.fences_increasing &= of_name.fences_increasing;
            findings.names.push(of_name);
        }
        findings
    }
}

/// Checks the leases of one name, in the order in which they began.
fn check(name: &'static str, past_leases: &[&PastLease], violations: &mut Vec<String>) -> NameFindings {
    let mut findings = NameFindings {
        name,
        grants: past_leases.len(),
        losses: past_leases.iter().filter(|past_lease| past_lease.is_lost).count(),
        overlaps: 0,
        fences_increasing: true,
        first_fence: past_leases.first().map(|past_lease| past_lease.fence),
        last_fence: past_leases.last().map(|past_lease| past_lease.fence),
    };
    // Of the earlier leases: the lease that ends last, and the lease with the highest fence.
    let (mut last_to_end, mut highest): (Option<&PastLease>, Option<&PastLease>) = (None, None);
    for &later in past_leases {
        if let Some(earlier) = last_to_end.filter(|past_lease| later.from < past_lease.until) {
            findings.overlaps += 1;
            let overlap = earlier.until.min(later.until).saturating_sub(later.from);
            violations.push(format!("two holders for {overlap:?}: {earlier} and {later}"));
        }
        if let Some(earlier) = highest.filter(|past_lease| later.fence <= past_lease.fence) {
            findings.fences_increasing = false;
            violations.push(format!("no higher fence than before: {earlier} and then {later}"));
        }
        last_to_end = last_to_end.filter(|past_lease| past_lease.until >= later.until).or(Some(later));
        highest = highest.filter(|past_lease| past_lease.fence >= later.fence).or(Some(later));
    }
    findings
}

impl fmt::Display for PastLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, worker, fence, from, until, .. } = self;
        let (worker, from, until) = (worker + 1, from.as_secs_f64(), until.as_secs_f64());
        write!(f, "w{worker} with {name} from {from:.6}s to {until:.6}s (fence {fence})")
    }
}

/// `212 grants, 1 loss, 0 overlaps, fences increasing`.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fences = if self.fences_increasing { "increasing" } else { "OUT OF ORDER" };
        let counts = [(self.grants, "grant"), (self.losses, "loss"), (self.overlaps, "overlap")];
        write!(f, "{}, fences {fences}", counts.map(|(count, what)| counted(count, what)).join(", "))
    }
}

#[cfg(test)]
mod tests;
