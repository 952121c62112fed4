//! The handlers of the HTTP calls.

mod acquire;
mod breaking;
mod events;
mod health;
mod lease_request;
mod leases;
mod locks;

use std::panic::resume_unwind;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::task::JoinSet;
use tracing::Instrument;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::PublicRequest;
use crate::problem::{self, Code, Problem, ProblemDetails};
use crate::service::Service;
use crate::{page, trace};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "quorlock",
        description = "Distributed locks by majority vote over independent nodes. By the caller's own clock, a lease \
                       ends `server_elapsed_ms` plus `validity_ms` after the moment just before the request was sent."
    ),
    components(schemas(ProblemDetails)),
    security(("bearer" = []), ("certificate" = []), ()),
    tags(
        (name = "leases", description = "Acquire, renew and release leases"),
        (name = "locks", description = "Inspect locks and their history, and break leases"),
        (name = "service", description = "The state of the nodes and of this replica")
    )
)]
struct Document;

/// The statuses of the problems that a call with a body can return.
const POST_STATUSES: [u16; 12] = [400, 401, 403, 404, 408, 409, 410, 413, 415, 429, 500, 503];
/// The statuses of the problems that a read-only call can return.
const GET_STATUSES: [u16; 7] = [400, 401, 403, 404, 429, 500, 503];

/// Adds the authentication schemes and the problems of all calls to the `OpenAPI` document.
fn add_security_and_problems(document: &mut utoipa::openapi::OpenApi) {
    let components = document.components.get_or_insert_default();
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("The bearer token of a client, if the service has a file of clients".into());
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    let description = Some("A client certificate, if the service has an authority for it".into());
    let certificate = SecurityScheme::MutualTls { description, deprecated: None, extensions: None };
    components.add_security_scheme("certificate", certificate);
    for (path, item) in &mut document.paths.paths {
        let statuses: &[u16] = match path.as_str() {
            "/healthz" => &[],
            "/readyz" => &[503],
            _ if item.post.is_some() => &POST_STATUSES,
            _ => &GET_STATUSES,
        };
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            operation.responses.responses.extend(problem::responses(statuses));
        }
    }
}

/// Returns the router of all calls, including the call for the `OpenAPI` document.
pub(crate) fn router(service: &Arc<Service>) -> Router {
    let reads = OpenApiRouter::default()
        .routes(routes!(locks::list))
        .routes(routes!(locks::inspect))
        .routes(routes!(locks::history))
        .routes(routes!(health::nodes))
        .routes(routes!(events::events))
        .routes(routes!(health::metrics))
        .layer(from_fn_with_state(Arc::clone(service), run_on_reader_thread));
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(leases::renew))
        .routes(routes!(leases::release))
        .routes(routes!(breaking::break_lock))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .merge(reads)
        .split_for_parts();
    add_security_and_problems(&mut document);
    // Strings and numbers can always be serialized.
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let document = async move |_: PublicRequest| ([(CONTENT_TYPE, "application/json")], document);
    router
        .route("/openapi.json", get(document))
        .merge(page::routes())
        .fallback(async |_: PublicRequest| Problem::new(Code::NotFound, "no call has this path: see /openapi.json"))
        .method_not_allowed_fallback(async |_: PublicRequest| {
            Problem::new(Code::MethodNotAllowed, "this path does not support this method: see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(service.limits.body_bytes()))
        .layer(from_fn_with_state(Arc::clone(service), trace::trace_request))
        .with_state(Arc::clone(service))
}

/// Runs read-only calls on the reader thread, so that encoding a long answer does not delay requests for leases.
///
/// # Cancel safety
/// Dropping the future drops the call.
async fn run_on_reader_thread(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let mut call = JoinSet::new();
    call.spawn_on(next.run(request).in_current_span(), &service.reader_runtime);
    match call.join_next().await {
        Some(Ok(response)) => response,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        Some(Err(_)) | None => Problem::draining().into_response(),
    }
}
