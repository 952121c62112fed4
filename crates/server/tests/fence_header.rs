//! The example of a fence checker for a service, asked as a service is.

#[path = "../examples/fence_header.rs"]
mod fence_header;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt;

#[tokio::test]
async fn a_path_takes_the_same_fence_again_and_no_lower_one() {
    let app = fence_header::app();
    let put = async |path: &str, fence: Option<&str>| {
        let request = Request::put(path);
        let request = if let Some(fence) = fence { request.header("x-fence", fence) } else { request };
        app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    for (path, fence, status) in [
        ("/invoices/42", None, StatusCode::PRECONDITION_REQUIRED),
        ("/invoices/42", Some("seven"), StatusCode::PRECONDITION_REQUIRED),
        ("/invoices/42", Some("7"), StatusCode::OK),
        ("/invoices/42", Some("7"), StatusCode::OK),
        ("/invoices/42", Some("1763267021482113"), StatusCode::OK),
        ("/invoices/42", Some("8"), StatusCode::PRECONDITION_FAILED),
        ("/invoices/43", Some("8"), StatusCode::OK),
    ] {
        assert_eq!(put(path, fence).await, status, "{path} {fence:?}");
    }
}
