//! Lists locks, shows one lock, and reads the history.

use axum::Json;
use axum::extract::{Path, Query};
use quorlock::{EventView, HISTORY_MAX, LockView};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Scope};
use crate::http::request::{Name, Params};
use crate::problem::Problem;
use crate::view::LockPage;

/// The default number of locks or events in an answer.
const LIMIT_DEFAULT: usize = 100;
/// The largest number of locks on a page.
const PAGE_MAX: usize = 1_000;

fn check_limit(limit: Option<usize>, max: usize) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if (1..=max).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::invalid(format!("limit must be between 1 and {max} (got {limit})")))
    }
}

/// The parameters of a list of locks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only locks whose names start with this prefix.
    #[serde(default)]
    prefix: String,
    /// The `next` of the previous page.
    #[serde(default)]
    cursor: String,
    /// The largest number of locks on the page: 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List locks that are held or waited for.
///
/// The answer comes from a copy of the nodes' state that is at most about a second old. The service searches the nodes
/// step by step: if locks change or a node fails during the search, a lock may be missing or appear twice. If there are
/// more than 10,000 locks, the service reads a bounded number of keys from the nodes for each page, at most once a
/// second for each client, and the locks are in no particular order.
#[utoipa::path(
    get, path = "/v1/locks", tag = "locks", params(ListQuery),
    responses((status = 200, description = "A page of locks", body = LockPage))
)]
pub(super) async fn list(caller: Caller, query: Params<ListQuery>) -> Result<Json<LockPage>, Problem> {
    caller.check_scope(Scope::Read)?;
    let Query(ListQuery { prefix, cursor, limit }) = query?;
    let limit = check_limit(limit, PAGE_MAX)?;
    let check_read_limit = || caller.service.limiter.count_read(&caller.limit_key);
    let page = caller.service.hub.list(&caller, (&prefix, &cursor), limit, check_read_limit);
    Ok(Json(caller.service.run_unless_stopping(page).await??))
}

/// The state of one lock.
#[derive(Serialize, ToSchema)]
pub(super) struct LockState {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    as_of: u64,
    #[serde(flatten)]
    lock: LockView,
}

/// Show the state of one lock on every node.
///
/// At most once a second for each client, the service reads the answer from the nodes. Other answers come from a copy
/// of the nodes' state that is at most about a second old. Write a slash in the name as `%2F`.
#[utoipa::path(
    get, path = "/v1/locks/{name}", tag = "locks",
    params(("name" = String, Path, description = "The name of the lock", min_length = 1, max_length = 512)),
    responses((status = 200, description = "The state of the lock, held or not", body = LockState))
)]
pub(super) async fn inspect(caller: Caller, name: Name) -> Result<Json<LockState>, Problem> {
    let Path(name) = name?;
    caller.check_scope_and_name(Scope::Read, &name)?;
    let inspection = caller.service.hub.inspect(&name, || caller.service.limiter.count_read(&caller.limit_key));
    let (as_of, lock) = caller.service.run_unless_stopping(inspection).await??;
    Ok(Json(LockState { as_of, lock }))
}

/// The parameters of the history.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Only events of this name.
    name: Option<String>,
    /// The largest number of events: 100 by default.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// The events of the history, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryAnswer {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    as_of: u64,
    events: Vec<EventView>,
}

/// Read the history: the grants, releases and losses of all services, and all breaks.
///
/// The answer comes from a copy of the events that the nodes keep. An event appears in the copy about two seconds after
/// it happened.
#[utoipa::path(
    get, path = "/v1/history", tag = "locks", params(HistoryQuery),
    responses((status = 200, description = "The newest events", body = HistoryAnswer))
)]
pub(super) async fn history(caller: Caller, query: Params<HistoryQuery>) -> Result<Json<HistoryAnswer>, Problem> {
    caller.check_scope(Scope::Read)?;
    let Query(HistoryQuery { name, limit }) = query?;
    let limit = check_limit(limit, HISTORY_MAX)?;
    let history = caller.service.hub.history(&caller, name.as_deref(), limit);
    let (as_of, events) = caller.service.run_unless_stopping(history).await??;
    Ok(Json(HistoryAnswer { as_of, events }))
}
