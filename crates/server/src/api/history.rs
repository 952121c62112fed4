//! What has happened.

use axum::Json;
use axum::extract::State;
use quorlock::HISTORY_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Scope};
use crate::problem::{Problem, Unseen};
use crate::request::Asked;
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
    events: Vec<EventView>,
}

/// Look back: what was granted, released and lost through services, and what was broken by anybody.
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
    // What is wanted, or may be seen, can be among much that is not.
    let looked_at = if which.name.is_none() && caller.sees_all() { limit } else { HISTORY_MAX };
    let events = service.client().history(looked_at).await?;
    let named = |name: &str| which.name.as_ref().is_none_or(|wanted| wanted == name);
    let wanted = events.iter().filter(|event| named(event.name.as_str()) && caller.sees(event.name.as_str()));
    Ok(Json(Happened { events: wanted.take(limit).map(EventView::new).collect() }))
}
