//! Serves the files of the page, a web interface for operators. The files are part of the binary. The page gets its
//! data from the calls in `api`.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::auth::{PublicRequest, hex, sha256};
use crate::problem::{Code, Problem};
use crate::service::Service;

/// The content security policy. It allows only scripts, styles and data of this origin, no inline code, and no framing.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The number of bytes of a file's hash in its `ETag`.
const ETAG_HASH_BYTES: usize = 12;

macro_rules! files {
    ($($path:literal)*) => {
        [$(($path, include_bytes!(concat!("../assets/", $path)))),*]
    };
}

/// The path and the content of each file.
static FILES: [(&str, &[u8]); 30] = files! {
    "index.html" "icon.svg" "style.css" "views.css"
    "api.js" "app.js" "bearer.js" "breaking.js" "chart.js" "filter.js" "clock.js" "dialogs.js" "dom.js" "draw.js" "hotspots.js"
    "route.js" "status.js" "store.js" "stream.js" "table.js" "theme.js" "timeline.js" "format.js"
    "views/history.js" "views/hot.js" "views/lock.js" "views/locks.js" "views/nodes.js"
    "uplot/uplot.js" "uplot/uplot.css"
};

/// The `ETag` of each file.
static ETAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| FILES.iter().map(|(_, content)| etag(content)).collect());

/// Returns the routes `/` and `/assets/..`. The routes need no authentication, because the files contain no secret.
pub(crate) fn routes() -> Router<Arc<Service>> {
    let file = async |_: PublicRequest, Path(path): Path<String>, headers: HeaderMap| serve(&path, &headers);
    Router::new()
        .route("/", get(async |_: PublicRequest, headers: HeaderMap| serve("index.html", &headers)))
        .route("/assets/{*path}", get(file))
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some(index) = FILES.iter().position(|(known, _)| *known == path) else {
        return Problem::new(Code::NotFound, format!("the page has no file {path:?}")).into_response();
    };
    // Files refer to each other without versions, so browsers must revalidate them each time.
    let headers_of_file = [
        (ETAG, ETAGS[index].clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    if headers.get(IF_NONE_MATCH) == Some(&ETAGS[index]) {
        return (StatusCode::NOT_MODIFIED, headers_of_file).into_response();
    }
    (headers_of_file, [(CONTENT_TYPE, content_type(path))], FILES[index].1).into_response()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn etag(content: &[u8]) -> HeaderValue {
    let text = format!("\"{}\"", hex(&sha256(content)[..ETAG_HASH_BYTES]));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests;
