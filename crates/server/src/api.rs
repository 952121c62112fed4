//! The calls.

mod acquire;
mod batch;
mod breaking;
mod events;
mod health;
mod history;
mod locks;
mod nodes;
mod order;
mod release;
mod renew;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::page;
use crate::problem::{Account, Code, Problem};
use crate::service::Service;
use crate::trace;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "quorlock",
        description = "Distributed locks by majority vote over independent nodes. A lease's deadline on the caller's own \
                       clock is the moment before the request was sent, plus `server_elapsed_ms`, plus `validity_ms`."
    ),
    components(schemas(Account)),
    tags(
        (name = "leases", description = "Locking, renewing, releasing"),
        (name = "locks", description = "Who has what"),
        (name = "service", description = "The nodes, and this replica")
    )
)]
struct Document;

/// All calls, and the document that describes them.
pub(crate) fn router(service: Service) -> Router {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(renew::renew))
        .routes(routes!(release::release))
        .routes(routes!(locks::list))
        .routes(routes!(locks::one))
        .routes(routes!(breaking::break_lock))
        .routes(routes!(nodes::nodes))
        .routes(routes!(history::history))
        .routes(routes!(events::events))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .split_for_parts();
    let document = axum::Json(document);
    router
        .route("/openapi.json", get(|| async move { document }))
        .merge(page::routes())
        .fallback(|| async { Problem::new(Code::NotFound, "there is no such call: see /openapi.json") })
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(service.clone(), trace::follow))
        .with_state(service)
}

async fn wrong_method() -> Response {
    Problem::new(Code::MethodNotAllowed, "this call has another method: see /openapi.json").into_response()
}
