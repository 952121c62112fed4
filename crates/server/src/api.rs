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

use std::panic::resume_unwind;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::task::JoinSet;
use tracing::Instrument;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Anybody;
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
    modifiers(&Proofs),
    security(("bearer" = []), ("certificate" = []), ()),
    tags(
        (name = "leases", description = "Locking, renewing, releasing"),
        (name = "locks", description = "Who has what"),
        (name = "service", description = "The nodes, and this replica")
    )
)]
struct Document;

/// How callers show who they are, where the service wants to know.
struct Proofs;

impl Modify for Proofs {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some("The token of a client, where the service has a file of clients".into());
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let description = Some("Where the service knows an authority for them".into());
        let certificate = SecurityScheme::MutualTls { description, deprecated: None, extensions: None };
        components.add_security_scheme("certificate", certificate);
    }
}

/// All calls, and the document that describes them.
pub(crate) fn router(service: Service) -> Router {
    let reads = OpenApiRouter::default()
        .routes(routes!(locks::list))
        .routes(routes!(locks::one))
        .routes(routes!(nodes::nodes))
        .routes(routes!(history::history))
        .routes(routes!(events::events))
        .routes(routes!(health::metrics))
        .layer(from_fn_with_state(service.clone(), read_aside));
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(renew::renew))
        .routes(routes!(release::release))
        .routes(routes!(breaking::break_lock))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .merge(reads)
        .split_for_parts();
    // Strings and numbers can always be serialized.
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let document = async move |_: Anybody| ([(CONTENT_TYPE, "application/json")], document);
    router
        .route("/openapi.json", get(document))
        .merge(page::routes())
        .fallback(async |_: Anybody| Problem::new(Code::NotFound, "there is no such call: see /openapi.json"))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(service.clone(), trace::follow))
        .with_state(service)
}

/// Answers those who read on the readers' thread: long answers are encoded there, and no lock waits for it.
///
/// # Cancel safety
/// Dropping the future drops the request.
async fn read_aside(State(service): State<Service>, request: Request, next: Next) -> Response {
    let mut answering = JoinSet::new();
    answering.spawn_on(next.run(request).in_current_span(), service.readers());
    match answering.join_next().await {
        Some(Ok(response)) => response,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        Some(Err(_)) | None => Problem::draining().into_response(),
    }
}

async fn wrong_method(_: Anybody) -> Problem {
    Problem::new(Code::MethodNotAllowed, "this call has another method: see /openapi.json")
}
