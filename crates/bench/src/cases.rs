//! All cases, in the order in which they are measured.

mod build;
mod cycle;
mod frozen_node;
mod growth;
mod handoff;
mod held_leases;
mod http;
mod sqlite;
mod start;
mod takeover;

use crate::Failure;
use crate::case::Case;
use crate::options::Options;

/// A case that is not set up yet.
pub(crate) struct PlannedCase {
    /// The name of the case.
    pub(crate) name: String,
    pub(crate) set_up: SetUp,
}

type SetUp = Box<dyn FnOnce(&Options) -> Result<Case, Failure>>;

impl PlannedCase {
    fn new(name: impl Into<String>, set_up: impl FnOnce(&Options) -> Result<Case, Failure> + 'static) -> Self {
        Self { name: name.into(), set_up: Box::new(set_up) }
    }
}

/// All cases that can be measured.
pub(crate) fn all() -> Vec<PlannedCase> {
    let mut planned = Vec::new();
    planned.extend(cycle::planned_cases());
    planned.extend(sqlite::planned_cases());
    planned.extend(handoff::planned_cases());
    planned.extend(http::planned_cases());
    planned.extend(start::planned_cases());
    planned.extend(takeover::planned_cases());
    planned.extend(frozen_node::planned_cases());
    planned.extend(held_leases::planned_cases());
    planned.extend(growth::planned_cases());
    planned.extend(build::planned_cases());
    planned
}

/// `1 node`, `5 nodes`.
fn count_with_noun(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
