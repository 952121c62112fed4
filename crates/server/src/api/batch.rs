//! One lease or several, in one request.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::config::Limits;
use crate::problem::Problem;

/// How many leases of one request are seen to at a time: what waits here does not wait for a node.
pub(super) const AT_ONCE: usize = 64;

/// A lease, by its name and its id.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRef {
    /// What is locked.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    pub(super) name: String,
    /// As it was granted.
    pub(super) lease_id: String,
}

/// One lease, or several: either `name` and `lease_id`, or `leases`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRefs {
    /// What is locked.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// As it was granted.
    lease_id: Option<String>,
    /// Several leases.
    #[schema(min_items = 1, max_items = 1000)]
    leases: Option<Vec<LeaseRef>>,
}

/// What a request names.
pub(super) enum Named {
    One(LeaseRef),
    Several(Vec<LeaseRef>),
}

impl LeaseRefs {
    pub(super) fn new(name: Option<String>, lease_id: Option<String>, leases: Option<Vec<LeaseRef>>) -> Self {
        Self { name, lease_id, leases }
    }

    /// `forms` are those that there are, for whoever used none of them.
    pub(super) fn check(self, limits: Limits, forms: &str) -> Result<Named, Problem> {
        match (self.name, self.lease_id, self.leases) {
            (Some(name), Some(lease_id), None) => Ok(Named::One(LeaseRef { name, lease_id })),
            (None, None, Some(leases)) if !leases.is_empty() && leases.len() <= limits.batch => {
                Ok(Named::Several(leases))
            }
            (None, None, Some(leases)) => {
                Err(Problem::invalid(format!("{} leases: between 1 and {}", leases.len(), limits.batch)))
            }
            _ => Err(Problem::invalid(forms)),
        }
    }
}
