//! One connection, from its first request to its last.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::auth::Peer;
use crate::config::Limits;
use crate::http::read::LimitedRead;
use crate::http::write::LimitedWrite;
use crate::rate::Share;
use crate::service::Service;

/// How much of an answer is written ahead of a client that is slow to read it, and of a request behind another.
const BUFFER_BYTES: usize = 32 * 1024;

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) router: Router,
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) limits: Limits,
    pub(crate) stopped: watch::Receiver<bool>,
}

impl ConnectionContext {
    /// Serves a connection until one of both ends has had enough.
    pub(crate) async fn serve(self, stream: TcpStream, address: IpAddr, seat: Share) {
        let stream = LimitedWrite::new(stream, self.limits.write);
        let Some(Acceptor(acceptor)) = &self.acceptor else {
            return self.talk(stream, Peer::new(address, None, seat)).await;
        };
        let mut stopped = self.stopped.clone();
        let shaken = tokio::select! {
            biased;
            shaken = tokio::time::timeout(self.limits.read, acceptor.accept(stream)) => shaken,
            // Nothing was asked that would have to be answered.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let peer = Peer::new(address, certificate.map(AsRef::as_ref), seat);
                self.talk(stream, peer).await;
            }
            Ok(Err(error)) => tracing::info!(peer = %address, %error, "no TLS"),
            Err(_) => tracing::info!(peer = %address, "no TLS in time"),
        }
    }

    async fn talk<S>(self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { router, limits, mut stopped, .. } = self;
        let address = peer.address();
        let conversation = Arc::clone(peer.conversation());
        let stream = LimitedRead::new(stream, Arc::clone(&conversation), limits.read);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let answered = router.clone().oneshot(request.map(Body::new));
            let conversation = Arc::clone(&conversation);
            conversation.asked();
            async move {
                conversation.take_turns().await;
                let answer = answered.await;
                conversation.answered();
                answer
            }
        });
        let mut http = http1::Builder::new();
        // A head that has begun has less time than this: the other end may only be quiet.
        http.timer(TokioTimer::new()).header_read_timeout(limits.idle);
        http.max_header_size(limits.head_bytes).max_headers(limits.headers);
        http.max_buf_size(BUFFER_BYTES);
        // Answers are small: one piece is written faster than two.
        http.writev(false);
        let connection = http.serve_connection(TokioIo::new(stream), answer);
        tokio::pin!(connection);
        let stop = async {
            // Without its sender there is nothing left to wait for.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stop => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %address, %error, "a connection ended");
        }
    }
}

/// TLS for those who connect.
#[derive(Clone)]
pub(crate) struct Acceptor(pub(crate) TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A connection, counted for as long as it lives.
pub(crate) struct Open(Service);

impl Open {
    pub(crate) fn new(service: &Service) -> Self {
        service.metrics().connections.inc();
        Self(service.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics().connections.dec();
    }
}
