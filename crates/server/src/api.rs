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

use std::pin::Pin;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower::ServiceExt;
use tracing::Instrument;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Anybody;
use crate::metrics::Call;
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

/// All calls.
#[derive(Clone)]
pub(crate) struct Calls {
    router: Router,
    service: Service,
}

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;
type Answer = fn(Request, Service) -> Answering;

/// What callers post all the time is not looked for: the router, and what stands around it, take as long as the call. Nor is
/// whether the replica is well: that must not wait for anything.
const AT_ONCE: [(Method, &str, Answer); 5] = [
    (Method::POST, acquire::PATH, |request, service| acquire::acquire.call(request, service)),
    (Method::POST, release::PATH, |request, service| release::release.call(request, service)),
    (Method::POST, renew::PATH, |request, service| renew::renew.call(request, service)),
    (Method::GET, health::HEALTHZ, |request, service| health::healthz.call(request, service)),
    (Method::GET, health::READYZ, |request, service| health::readyz.call(request, service)),
];

impl Calls {
    pub(crate) fn new(service: Service) -> Self {
        Self { router: router(service.clone()), service }
    }

    /// Answers a request, whatever it is.
    pub(crate) async fn answer(self, request: Request) -> Response {
        let Self { router, service } = self;
        let (method, uri) = (request.method(), request.uri());
        // Whoever wants to know how things look may do without the body.
        let is_look = [Method::GET, Method::HEAD].contains(method);
        let is_meant = |known: &Method| known == method || *known == Method::GET && is_look;
        let known = AT_ONCE.iter().find(|(known, path, _)| *path == uri.path() && is_meant(known));
        if let Some((_, path, answer)) = known {
            let state = service.clone();
            return trace::follow(&service, Some(Call::known(path)), request, |request| answer(request, state)).await;
        }
        let aside = is_look.then(|| service.aside().clone());
        let answer = async |request| {
            let found = router.oneshot(request).in_current_span();
            let answered = match aside {
                // It is looked at, and that may be long.
                Some(aside) => aside.run(found).await,
                None => Some(found.await),
            };
            match answered {
                Some(Ok(response)) => response,
                Some(Err(never)) => match never {},
                None => Problem::draining().into_response(),
            }
        };
        trace::follow(&service, None, request, answer).await
    }
}

/// The router for all of them, and the document that describes them.
fn router(service: Service) -> Router {
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
    // Texts and numbers can always be written down.
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let document = async move |_: Anybody| ([(CONTENT_TYPE, "application/json")], document);
    router
        .route("/openapi.json", get(document))
        .merge(page::routes())
        .fallback(async |_: Anybody| Problem::new(Code::NotFound, "there is no such call: see /openapi.json"))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(trace::tell_call))
        .with_state(service)
}

async fn wrong_method(_: Anybody) -> Problem {
    Problem::new(Code::MethodNotAllowed, "this call has another method: see /openapi.json")
}
