//! The nodes.

use axum::Json;
use axum::extract::State;

use crate::auth::{Caller, Scope};
use crate::problem::{Problem, Unseen};
use crate::service::Service;
use crate::view::NodesView;

/// Look at the nodes: which of them vote, and why the others do not.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "service",
    responses((status = 200, description = "All of them", body = NodesView), Unseen)
)]
pub(super) async fn nodes(State(service): State<Service>, caller: Caller) -> Result<Json<NodesView>, Problem> {
    caller.may(Scope::Read)?;
    Ok(Json(service.nodes()))
}
