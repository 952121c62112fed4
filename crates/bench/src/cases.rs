//! All cases, in the order in which they are measured.

mod cycle;
mod damage;
mod embedded;
mod growth;
mod handoff;
mod held;
mod start;

use crate::Failure;
use crate::case::Case;
use crate::options::Options;

/// Cases that share their servers: set up together, when their turn comes.
pub(crate) struct Group {
    /// What all of its cases' names begin with.
    pub(crate) name: String,
    pub(crate) set_up: SetUp,
}

type SetUp = Box<dyn FnOnce(&Options) -> Result<Vec<Case>, Failure>>;

impl Group {
    fn new(name: impl Into<String>, set_up: impl FnOnce(&Options) -> Result<Vec<Case>, Failure> + 'static) -> Self {
        Self { name: name.into(), set_up: Box::new(set_up) }
    }
}

/// Everything that can be measured.
pub(crate) fn all() -> Vec<Group> {
    let mut groups = Vec::new();
    groups.extend(cycle::groups());
    groups.extend(embedded::groups());
    groups.extend(handoff::groups());
    groups.extend(start::groups());
    groups.extend(damage::groups());
    groups.extend(held::groups());
    groups.extend(growth::groups());
    groups
}
