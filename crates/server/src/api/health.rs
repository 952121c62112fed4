//! For whoever looks after the service.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::auth::{Caller, Scope};
use crate::metrics::OPENMETRICS;
use crate::problem::{NotReady, Problem, Unseen};
use crate::service::Service;
use crate::view::NodesView;

/// Whether this replica is alive.
#[utoipa::path(
    get, path = "/healthz", tag = "service", security(()),
    responses((status = 200, description = "It is", content_type = "text/plain", body = String))
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether this replica can lock anything: a majority of the nodes votes, and it is not about to stop.
#[utoipa::path(
    get, path = "/readyz", tag = "service", security(()),
    responses((status = 200, description = "It can", body = NodesView), NotReady)
)]
pub(super) async fn readyz(State(service): State<Service>) -> Response {
    let nodes = service.nodes();
    if service.is_stopping() {
        Problem::draining().into_response()
    } else if nodes.has_quorum() {
        (StatusCode::OK, Json(nodes)).into_response()
    } else {
        Problem::no_majority(&nodes).into_response()
    }
}

/// What this replica has done, in numbers, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses(
        (status = 200, description = "As OpenMetrics has it", content_type = "application/openmetrics-text", body = String),
        Unseen
    )
)]
pub(super) async fn metrics(State(service): State<Service>, caller: Caller) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], service.metrics().text()).into_response())
}
