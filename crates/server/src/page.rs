//! The page: a client of the calls and of nothing else, from files that are built into the binary.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::auth::{Anybody, hex, sha256};
use crate::problem::{Code, Problem};
use crate::service::Service;

/// Scripts, styles and data of this origin only; nothing in line, and nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// How much of a file's hash names its version, in bytes.
const TAG_BYTES: usize = 12;

macro_rules! files {
    ($($path:literal)*) => {
        [$(($path, include_bytes!(concat!("../assets/", $path)))),*]
    };
}

/// Paths and contents.
static FILES: [(&str, &[u8]); 30] = files! {
    "index.html" "icon.svg" "style.css" "views.css"
    "api.js" "app.js" "bearer.js" "breaking.js" "chart.js" "filter.js" "clock.js" "dialogs.js" "dom.js" "draw.js" "hotspots.js"
    "route.js" "status.js" "store.js" "stream.js" "table.js" "theme.js" "timeline.js" "format.js"
    "views/history.js" "views/hot.js" "views/lock.js" "views/locks.js" "views/nodes.js"
    "uplot/uplot.js" "uplot/uplot.css"
};

/// What each file is called in this version.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| FILES.iter().map(|(_, content)| tag(content)).collect());

/// `/` and `/assets/..`: there is no secret in them, and nobody is asked who they are.
pub(crate) fn routes() -> Router<Arc<Service>> {
    let file = async |_: Anybody, Path(path): Path<String>, headers: HeaderMap| serve(&path, &headers);
    Router::new()
        .route("/", get(async |_: Anybody, headers: HeaderMap| serve("index.html", &headers)))
        .route("/assets/{*path}", get(file))
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some(at) = FILES.iter().position(|(known, _)| *known == path) else {
        return Problem::new(Code::NotFound, "the page has no such file").into_response();
    };
    // Files name each other without their versions: they are asked for each time, and sent when they are new.
    let always = [
        (ETAG, TAGS[at].clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    if headers.get(IF_NONE_MATCH) == Some(&TAGS[at]) {
        return (StatusCode::NOT_MODIFIED, always).into_response();
    }
    (always, [(CONTENT_TYPE, kind(path))], FILES[at].1).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn tag(content: &[u8]) -> HeaderValue {
    let text = format!("\"{}\"", hex(&sha256(content)[..TAG_BYTES]));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests;
