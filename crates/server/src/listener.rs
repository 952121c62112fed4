//! Connections: accepted, served, and ended.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::api::Calls;
use crate::auth::Peer;
use crate::config::{Config, Limits};
use crate::outflow::Outflow;
use crate::problem::{Code, Problem};
use crate::rate::FORGET_EVERY;
use crate::service::Service;
use crate::tls::{Tls, TlsError};

/// After an error of the listener itself, as when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// When a connection on which nothing happens is probed, and how often.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How much may be under way to a client that does not read, in the kernel's own memory.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Why a service does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It would be open to anybody.
    #[error(
        "{address} can be reached by others, and there is no authentication: name a file of clients, or listen on a loopback address"
    )]
    Open {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
}

/// A service that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: Config,
    acceptor: Option<Acceptor>,
}

impl Server {
    /// Listens, and does not answer yet.
    ///
    /// # Errors
    /// [`ServeError`] when the address is taken, or would let anybody in.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn bind(config: Config) -> Result<Self, ServeError> {
        let address = config.listen;
        let by_certificate = config.tls.as_ref().is_some_and(Tls::knows_clients);
        let knows_clients = config.clients.is_some() || by_certificate;
        if !knows_clients && !config.danger_no_auth && !address.ip().is_loopback() {
            return Err(ServeError::Open { address });
        }
        let acceptor = match &config.tls {
            Some(tls) => Some(Acceptor(tls.acceptor(config.clients.is_none())?)),
            None => None,
        };
        let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Listen { address, error })?;
        Ok(Self { listener, config, acceptor })
    }

    /// Where it listens: with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.config.listen)
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.acceptor.is_some()
    }

    /// Answers until told to stop. Then nobody new is accepted, waiters are let go, and answers under way are finished.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections; what was waited for is given up, and leases stay with their holders.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let limits = self.config.limits;
        let service = Service::new(self.config, stopped.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(service.hub()).watch());
        tasks.spawn(forget(service.clone(), stopped.clone()));
        let (calls, room) = (Calls::new(service.clone()), Arc::new(Semaphore::new(limits.connections)));
        let door = Door { calls, service, acceptor: self.acceptor, room, limits, stopped };
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => door.admit(&mut tasks, stream, address),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
        drop(self.listener);
        stopping.send_replace(true);
        let everyone = async { while tasks.join_next().await.is_some() {} };
        // Whoever has not read its answer by now will not.
        let _ = tokio::time::timeout(limits.drain, everyone).await;
        tasks.shutdown().await;
    }
}

/// Lets connections in.
struct Door {
    calls: Calls,
    service: Service,
    acceptor: Option<Acceptor>,
    room: Arc<Semaphore>,
    limits: Limits,
    stopped: watch::Receiver<bool>,
}

impl Door {
    fn admit(&self, tasks: &mut JoinSet<()>, stream: TcpStream, address: SocketAddr) {
        // One too many costs nobody else anything: it is told so, and closed.
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            let detail = format!("{} connections are open already: that is as many as may", self.limits.connections);
            return self.refuse(&stream, &Problem::new(Code::RateLimited, detail));
        };
        let seat = match self.service.rates().connection(&address.ip().to_string()) {
            Ok(seat) => seat,
            Err(problem) => return self.refuse(&stream, &problem),
        };
        // Answers are small and wanted at once. A peer that has vanished is noticed, and does not wait for ever.
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(&stream);
        let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY));
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
        let stream = Outflow::new(stream, self.limits.write);
        let (calls, limits, stopped) = (self.calls.clone(), self.limits, self.stopped.clone());
        let (acceptor, counted) = (self.acceptor.clone(), Open::new(&self.service));
        tasks.spawn(async move {
            let (_room, _counted) = (room, counted);
            let Some(Acceptor(acceptor)) = acceptor else {
                return talk(stream, calls, Peer::new(address.ip(), None, seat), limits, stopped).await;
            };
            match tokio::time::timeout(limits.read, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let peer = Peer::new(address.ip(), certificate.map(AsRef::as_ref), seat);
                    talk(stream, calls, peer, limits, stopped).await;
                }
                Ok(Err(error)) => tracing::debug!(peer = %address.ip(), %error, "no TLS"),
                Err(_) => tracing::debug!(peer = %address.ip(), "no TLS in time"),
            }
        });
    }
}

impl Door {
    /// Says why, whatever was asked, as far as that can be said without waiting; under TLS it cannot.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        tracing::debug!(?problem, "a connection is refused");
        if self.acceptor.is_none() {
            // What was not read would take the answer along.
            let _ = stream.try_read(&mut [0; 4_096]);
            let _ = stream.try_write(&problem.to_http());
        }
    }
}

/// TLS for those who connect.
#[derive(Clone)]
struct Acceptor(TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A connection, counted for as long as it lives.
struct Open(Service);

impl Open {
    fn new(service: &Service) -> Self {
        service.metrics().connections.inc();
        Self(service.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics().connections.dec();
    }
}

/// Forgets callers that have been quiet, until the service stops.
async fn forget(service: Service, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep(FORGET_EVERY) => service.rates().forget(),
        }
    }
}

/// One connection, from its first request to its last.
async fn talk<S>(stream: S, calls: Calls, peer: Peer, limits: Limits, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = peer.address();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let answered = calls.clone().answer(request.map(Body::new));
        async { Ok::<_, Infallible>(answered.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read);
    http.max_header_size(limits.head_bytes).max_headers(limits.headers);
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
