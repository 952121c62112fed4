//! The nodes, and the health of this replica.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::auth::{Caller, Scope};
use crate::metrics::OPENMETRICS;
use crate::problem::Problem;
use crate::service::Service;
use crate::view::NodesView;

/// Check that this replica is alive.
#[utoipa::path(
    get, path = "/healthz", tag = "service", security(()),
    responses((status = 200, description = "The replica is alive", content_type = "text/plain", body = String))
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Check that this replica can acquire locks: a majority of the nodes votes, and the replica is not about to stop.
#[utoipa::path(
    get, path = "/readyz", tag = "service", security(()),
    responses((status = 200, description = "The replica can acquire locks", body = NodesView))
)]
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Result<Json<NodesView>, Problem> {
    let nodes = service.nodes();
    if service.is_stopping() {
        return Err(Problem::draining());
    }
    if nodes.has_quorum() { Ok(Json(nodes)) } else { Err(Problem::no_majority(&nodes)) }
}

/// Return the metrics of this replica, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses((status = 200, description = "The metrics in the OpenMetrics format", content_type = "application/openmetrics-text", body = String))
)]
pub(super) async fn metrics(caller: Caller) -> Result<Response, Problem> {
    caller.check_scope(Scope::Read)?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], caller.service.metrics.text()).into_response())
}

/// Show which nodes vote, and why the other nodes do not vote.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "service",
    responses((status = 200, description = "The state of all nodes", body = NodesView))
)]
pub(super) async fn nodes(caller: Caller) -> Result<Json<NodesView>, Problem> {
    caller.check_scope(Scope::Read)?;
    Ok(Json(caller.service.nodes()))
}
