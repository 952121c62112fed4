//! Who held what and when, by one clock; and whether that can have been.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost,
}

/// One lease: surely valid from the first of these moments to the last, both counted from one start.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) name: String,
    pub(crate) holder: String,
    pub(crate) fence: u64,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    pub(crate) end: End,
}

/// What a look at all turns of all names found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Findings {
    pub(crate) grants: usize,
    pub(crate) losses: usize,
    /// Leases that began while an earlier one of the same name was still valid.
    pub(crate) overlaps: usize,
    /// Whether every lease has a higher fence than all earlier ones of its name.
    pub(crate) fences_increasing: bool,
    pub(crate) names: Vec<NameFindings>,
    /// What must not be, in words.
    pub(crate) violations: Vec<String>,
}

/// The same for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NameFindings {
    pub(crate) name: String,
    pub(crate) grants: usize,
    pub(crate) losses: usize,
    pub(crate) overlaps: usize,
    pub(crate) fences_increasing: bool,
    pub(crate) first_fence: Option<u64>,
    pub(crate) last_fence: Option<u64>,
}

impl Findings {
    /// Looks at the turns, which may come in any order.
    pub(crate) fn of(names: &[&str], turns: &[Turn]) -> Self {
        let mut all = Self { fences_increasing: true, ..Self::default() };
        for name in names {
            let mut turns: Vec<&Turn> = turns.iter().filter(|turn| turn.name == *name).collect();
            turns.sort_by_key(|turn| (turn.from, turn.fence));
            let found = look_at(name, &turns, &mut all.violations);
            all.grants += found.grants;
            all.losses += found.losses;
            all.overlaps += found.overlaps;
            all.fences_increasing &= found.fences_increasing;
            all.names.push(found);
        }
        all
    }

    pub(crate) fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// `212 grants, 1 loss, 0 overlaps, fences increasing`.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, losses, overlaps, .. } = self;
        let of = |count: usize, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        write!(f, "{grants} {}, ", of(*grants, "grant", "grants"))?;
        write!(f, "{losses} {}, ", of(*losses, "loss", "losses"))?;
        write!(f, "{overlaps} {}, ", of(*overlaps, "overlap", "overlaps"))?;
        f.write_str(if self.fences_increasing { "fences increasing" } else { "fences OUT OF ORDER" })
    }
}

/// One name's turns, in the order in which they began.
fn look_at(name: &str, turns: &[&Turn], violations: &mut Vec<String>) -> NameFindings {
    let mut found = NameFindings {
        name: name.to_owned(),
        grants: turns.len(),
        losses: turns.iter().filter(|turn| turn.end == End::Lost).count(),
        overlaps: 0,
        fences_increasing: true,
        first_fence: turns.first().map(|turn| turn.fence),
        last_fence: turns.last().map(|turn| turn.fence),
    };
    let (mut longest, mut highest): (Option<&Turn>, Option<&Turn>) = (None, None);
    for &later in turns {
        if let Some(other) = longest.filter(|turn| later.from < turn.until) {
            found.overlaps += 1;
            let both = other.until.min(later.until).saturating_sub(later.from);
            violations.push(format!("two at a time for {both:?}: {} and {}", Told(other), Told(later)));
        }
        if let Some(other) = highest.filter(|turn| later.fence <= turn.fence) {
            found.fences_increasing = false;
            violations.push(format!("no higher fence than before: {} and then {}", Told(other), Told(later)));
        }
        longest = longest.filter(|turn| turn.until >= later.until).or(Some(later));
        highest = highest.filter(|turn| turn.fence >= later.fence).or(Some(later));
    }
    found
}

struct Told<'a>(&'a Turn);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { name, holder, fence, from, until, .. } = self.0;
        write!(f, "{holder} with {name} from {:.6} to {:.6} s (fence {fence})", from.as_secs_f64(), until.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
