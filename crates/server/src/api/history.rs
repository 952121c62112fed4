//! What has happened.

use axum::Json;
use axum::extract::State;
use quorlock::HISTORY_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Scope};
use crate::http::request::Asked;
use crate::problem::{Problem, Unseen};
use crate::service::Service;
use crate::view::EventView;

const LIMIT_DEFAULT: usize = 100;

/// Which events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only of this name.
    name: Option<String>,
    /// How many at most, the newest ones: 100 unless set.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// What has happened, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Happened {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    as_of: u64,
    events: Vec<EventView>,
}

/// Look back: what was granted, released and lost through services, and what was broken by anybody.
///
/// Answered from a copy of what the nodes keep. An event is in it about two seconds after it happened.
#[utoipa::path(
    get, path = "/v1/history", tag = "locks", params(Which),
    responses((status = 200, description = "The newest events", body = Happened), Unseen)
)]
pub(super) async fn history(
    State(service): State<Service>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Happened>, Problem> {
    caller.may(Scope::Read)?;
    let limit = which.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=HISTORY_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("a limit of {limit}: between 1 and {HISTORY_MAX}")));
    }
    let history = service.hub().history(&caller, which.name.as_deref(), limit);
    let (as_of, events) = service.unless_stopping(history).await??;
    Ok(Json(Happened { as_of, events }))
}
