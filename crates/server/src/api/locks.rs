//! Who has what.

use axum::Json;
use axum::extract::State;
use quorlock::LockView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Scope};
use crate::http::request::{Asked, Named};
use crate::hub;
use crate::problem::{Problem, Unseen};
use crate::service::Service;

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

/// Locks that are held or waited for, in the order of their names, if there are at most 10,000.
#[derive(Serialize, ToSchema)]
pub(super) struct Page {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    as_of: u64,
    locks: Vec<LockView>,
    /// The cursor of the next page, if there may be one. A page may have no locks and yet a next one.
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
/// Answered from a copy that is about a second old at most. The nodes are looked through step by step: what comes and goes
/// meanwhile may be missing. If there are more than 10,000 locks, each page reads a bounded number of keys from the nodes, once
/// a second for each client, and the locks come in no particular order.
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
    let may_read = || service.rates().read(caller.share_key());
    let page = service.hub().list(&caller, (&which.prefix, &which.cursor), limit, may_read);
    let hub::Page { as_of, locks, next, missing } = service.unless_stopping(page).await??;
    let missing = missing.into_iter().map(|(node, trouble)| Missing { node, trouble }).collect();
    Ok(Json(Page { as_of, locks, next, missing }))
}

/// How a name stands.
#[derive(Serialize, ToSchema)]
pub(super) struct Look {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    as_of: u64,
    #[serde(flatten)]
    lock: LockView,
}

/// Look at one lock, on every node.
///
/// Each client gets the answer of the nodes once a second, and in between a copy that is about a second old at most.
/// A name with a slash is written with `%2F`.
#[utoipa::path(
    get, path = "/v1/locks/{name}", tag = "locks",
    params(("name" = String, Path, description = "What is locked", min_length = 1, max_length = 512)),
    responses((status = 200, description = "How it stands, held or not", body = Look), Unseen)
)]
pub(super) async fn one(
    State(service): State<Service>,
    caller: Caller,
    Named(name): Named,
) -> Result<Json<Look>, Problem> {
    caller.may_with(Scope::Read, &name)?;
    let look = service.hub().one(&name, || service.rates().read(caller.share_key()));
    let (as_of, lock) = service.unless_stopping(look).await??;
    Ok(Json(Look { as_of, lock }))
}
