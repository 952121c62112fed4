//! Tests the example `fence_header`: a service that checks the fence of each request.

#[path = "../../examples/fence_header.rs"]
mod fence_header;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use axum::extract::Request as ServerRequest;
use axum::http::{Request, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::put;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tower::ServiceExt;

#[tokio::test]
async fn a_path_accepts_the_same_fence_again_and_no_lower_one() {
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

fn fence_of(request: &ServerRequest) -> u64 {
    request.headers()["x-fence"].to_str().unwrap().parse().unwrap()
}

/// Sends a PUT request with this fence, and returns the status of the answer.
async fn put_to(address: SocketAddr, fence: u64) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("PUT /invoices/42 HTTP/1.1\r\nhost: x\r\nx-fence: {fence}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_request_does_not_write_after_the_next_request() {
    let (written_fences, (resume, stall)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel::<()>(1));
    let (log, stall) = (Arc::clone(&written_fences), Arc::new(tokio::sync::Mutex::new(stall)));
    let write = async move |request: ServerRequest| {
        let fence = fence_of(&request);
        if fence == 7 {
            stall.lock().await.recv().await.unwrap();
        }
        log.lock().unwrap().push(fence);
    };
    // Reports the fence of each request when its handler has run as far as it can without waiting.
    let (reports, mut polled_fences) = mpsc::unbounded_channel();
    let report = move |request: ServerRequest, next: Next| {
        let reports = reports.clone();
        async move {
            let fence = fence_of(&request);
            let mut handling = Box::pin(next.run(request));
            let answer = poll_fn(|context| Poll::Ready(handling.as_mut().poll(context))).await;
            reports.send(fence).unwrap();
            if let Poll::Ready(answer) = answer { answer } else { handling.await }
        }
    };
    let check = from_fn_with_state(fence_header::HighestFences::default(), fence_header::check_fence);
    let app = Router::new().route("/invoices/{id}", put(write)).layer(check).layer(from_fn(report));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });

    let older_request = tokio::spawn(put_to(address, 7));
    assert_eq!(polled_fences.recv().await, Some(7));
    let newer_request = tokio::spawn(put_to(address, 8));
    assert_eq!(polled_fences.recv().await, Some(8));
    resume.send(()).await.unwrap();
    assert_eq!((older_request.await.unwrap(), newer_request.await.unwrap()), ("200".into(), "200".into()));
    assert_eq!(*written_fences.lock().unwrap(), [7, 8], "the writes must be in the order of their fences");
    assert_eq!(put_to(address, 7).await, "412");
}
