//! Checks a history of leases: no two leases of a name overlap, and fences only grow.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::exit::counted;

/// One lease, from its grant to its end, both counted from the start of the demonstration.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
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
    /// Leases that began while an earlier one of the same name was still valid.
    pub(super) overlaps: usize,
    /// Whether every lease has a higher fence than all earlier ones of its name.
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
    pub(super) fn of(names: &[&'static str], tenures: &[Tenure]) -> Self {
        let mut all = Self { fences_increasing: true, ..Self::default() };
        for name in names {
            let mut tenures: Vec<&Tenure> = tenures.iter().filter(|tenure| tenure.name == *name).collect();
            tenures.sort_by_key(|tenure| (tenure.from, tenure.fence));
            let found = check(name, &tenures, &mut all.violations);
            all.grants += found.grants;
            all.losses += found.losses;
            all.overlaps += found.overlaps;
            all.fences_increasing &= found.fences_increasing;
            all.names.push(found);
        }
        all
    }
}

/// Checks the leases of one name, in the order in which they began.
fn check(name: &'static str, tenures: &[&Tenure], violations: &mut Vec<String>) -> NameFindings {
    let mut found = NameFindings {
        name,
        grants: tenures.len(),
        losses: tenures.iter().filter(|tenure| tenure.is_lost).count(),
        overlaps: 0,
        fences_increasing: true,
        first_fence: tenures.first().map(|tenure| tenure.fence),
        last_fence: tenures.last().map(|tenure| tenure.fence),
    };
    let (mut longest, mut highest): (Option<&Tenure>, Option<&Tenure>) = (None, None);
    for &later in tenures {
        if let Some(other) = longest.filter(|tenure| later.from < tenure.until) {
            found.overlaps += 1;
            let both = other.until.min(later.until).saturating_sub(later.from);
            violations.push(format!("two holders for {both:?}: {other} and {later}"));
        }
        if let Some(other) = highest.filter(|tenure| later.fence <= tenure.fence) {
            found.fences_increasing = false;
            violations.push(format!("no higher fence than before: {other} and then {later}"));
        }
        longest = longest.filter(|tenure| tenure.until >= later.until).or(Some(later));
        highest = highest.filter(|tenure| tenure.fence >= later.fence).or(Some(later));
    }
    found
}

impl fmt::Display for Tenure {
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
