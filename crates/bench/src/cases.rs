//! All cases, in the order in which they are measured.

mod build;
mod cycle;
mod frozen;
mod growth;
mod handoff;
mod held;
mod http;
mod sqlite;
mod start;
mod takeover;

use crate::Failure;
use crate::case::Case;
use crate::options::Options;

/// A case that is set up only when it is measured.
pub(crate) struct Planned {
    /// The name of the case.
    pub(crate) name: String,
    pub(crate) set_up: SetUp,
}

type SetUp = Box<dyn FnOnce(&Options) -> Result<Case, Failure>>;

impl Planned {
    fn new(name: impl Into<String>, set_up: impl FnOnce(&Options) -> Result<Case, Failure> + 'static) -> Self {
        Self { name: name.into(), set_up: Box::new(set_up) }
    }
}

/// All cases that can be measured.
pub(crate) fn all() -> Vec<Planned> {
    let mut planned = Vec::new();
    planned.extend(cycle::planned());
    planned.extend(sqlite::planned());
    planned.extend(handoff::planned());
    planned.extend(http::planned());
    planned.extend(start::planned());
    planned.extend(takeover::planned());
    planned.extend(frozen::planned());
    planned.extend(held::planned());
    planned.extend(growth::planned());
    planned.extend(build::planned());
    planned
}

/// `1 node`, `5 nodes`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
