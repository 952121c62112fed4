//! Who has what.

use axum::Json;
use axum::extract::State;
use quorlock::Filter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Scope};
use crate::problem::{Problem, Unseen};
use crate::request::{Asked, Named};
use crate::service::Service;
use crate::view::LockView;

/// How many locks a page has, unless said otherwise, and at most.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

/// Which locks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// What their names begin with.
    #[serde(default)]
    prefix: String,
    /// Where to go on: what the page before gave as `next`.
    #[serde(default)]
    cursor: String,
    /// How many at most: 100 unless set.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Locks that are held or waited for, in the order of their names.
#[derive(Serialize, ToSchema)]
pub(super) struct Page {
    locks: Vec<LockView>,
    /// The cursor of the next page, if there may be one.
    next: Option<String>,
    /// Nodes that could not be looked through.
    missing: Vec<Missing>,
}

/// A node that could not be looked through.
#[derive(Serialize, ToSchema)]
struct Missing {
    /// The node, without secrets.
    node: String,
    /// Why not.
    trouble: String,
}

/// List what is held or waited for.
///
/// The nodes are looked through step by step: what comes and goes meanwhile may be missing.
#[utoipa::path(
    get, path = "/v1/locks", tag = "locks", params(Which),
    responses((status = 200, description = "A page of them", body = Page), Unseen)
)]
pub(super) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Page>, Problem> {
    caller.may(Scope::Read)?;
    let limit = which.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("a limit of {limit}: between 1 and {PAGE_MAX}")));
    }
    let filter = Filter::beginning_with(&which.prefix).among(caller.names()).after(&which.cursor).limit(limit);
    let listing = service.client().list(&filter).await?;
    let missing = listing.missing.iter().map(|(node, why)| Missing { node: node.clone(), trouble: why.to_string() });
    let next = listing.last.map(|last| last.to_string());
    let locks = listing.names.iter().map(LockView::new).collect();
    Ok(Json(Page { locks, next, missing: missing.collect() }))
}

/// Look at one lock, on every node.
///
/// A name with a slash is written with `%2F`.
#[utoipa::path(
    get, path = "/v1/locks/{name}", tag = "locks",
    params(("name" = String, Path, description = "What is locked", min_length = 1, max_length = 512)),
    responses((status = 200, description = "How it stands, held or not", body = LockView), Unseen)
)]
pub(super) async fn one(
    State(service): State<Service>,
    caller: Caller,
    Named(name): Named,
) -> Result<Json<LockView>, Problem> {
    caller.may_with(Scope::Read, &name)?;
    let inspection = service.client().inspect(&name).await?;
    Ok(Json(LockView::new(&inspection)))
}
