//! Accepts connections, and serves each connection in its own task.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use quorlock::ConnectError;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::api;
use crate::auth::Peer;
use crate::config::Config;
use crate::http::fd_limit;
use crate::http::hang_up::ReadAhead;
use crate::limiter::{Reservation, limit_key_of};
use crate::problem::{Code, Problem};
use crate::service::Service;

/// The pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The shortest keepalive time, because the system counts keepalive times in seconds.
const KEEPALIVE_MIN: Duration = Duration::from_secs(1);
/// The largest number of connections that wait to be accepted. The system may allow fewer.
const BACKLOG: i32 = 4_096;
/// The size of the kernel's buffer for bytes that a client has not read yet.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// The largest part of an answer that is buffered for a slow client, and the largest part of a pipelined request that
/// is read early.
const BUFFER_BYTES: usize = 32 * 1024;

/// The service cannot start or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not a loopback address, and the service has no authentication.
    #[error(
        "{0} needs authentication, because other hosts can reach it: name a file of clients, or use a loopback address"
    )]
    Open(SocketAddr),
    /// A file with certificates or a key cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The certificate, the key and the authorities do not match.
    #[error("the certificates cannot be used: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The client that reads the nodes is not configured correctly.
    #[error("cannot create the client that reads the nodes: {0}")]
    Reader(#[from] ConnectError),
    /// The reader thread cannot be started.
    #[error("cannot start the thread that reads the nodes: {0}")]
    Readers(io::Error),
}

/// A service that listens for connections.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: Config,
    tls: Option<Arc<ServerConfig>>,
}

impl Server {
    /// Starts to listen, but does not accept connections yet. Raises this process's limit of open files as far as the
    /// system allows.
    ///
    /// # Errors
    /// [`ServeError`] if the address is in use, or is not a loopback address and the service has no authentication.
    ///
    /// # Cancel safety
    /// Dropping the future closes the listener.
    pub async fn bind(mut config: Config) -> Result<Self, ServeError> {
        let address = config.listen;
        if config.is_loopback_only() && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        // Without a file of clients, a client can only authenticate with a certificate.
        let requires_certificate = config.allowed_clients.is_none();
        let tls = config.tls.as_ref().map(|tls| tls.server_config(requires_certificate)).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Listen(address, error))?;
        // With the default backlog of 128, the system would reset connections of a burst.
        let _ = SockRef::from(&listener).listen(BACKLOG);
        config.limits.connections = fd_limit::raise(config.limits.connections, config.client.nodes().len());
        let (max, max_per_client) = (config.limits.connections, config.limits.connections_per_client);
        if max < max_per_client {
            tracing::warn!(
                max,
                max_per_client,
                "the limit of open files allows fewer connections in total than one client may open"
            );
        }
        Ok(Self { listener, config, tls: tls.map(Arc::new) })
    }

    /// Returns the address that the service listens on, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.config.listen)
    }

    /// Returns whether the service uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves requests until `stop` resolves. After that, the service accepts no more connections, ends all waits, and
    /// finishes the answers that it has started.
    ///
    /// # Errors
    /// [`ServeError::Readers`] if the system cannot start the reader thread. [`ServeError::Reader`] if the client that
    /// reads the nodes is not configured correctly.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections and their waits. Leases stay held.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (stop_sender, stopping) = watch::channel(false);
        let limits = self.config.limits;
        // The reader thread runs until this function returns and drops the sender.
        let (_reader_thread_sender, end) = oneshot::channel();
        let reader_runtime = start_reader_thread(end).map_err(ServeError::Readers)?;
        let reader = match self.config.read_client.take() {
            Some(builder) => {
                let connecting = reader_runtime.spawn(builder.log_outages(false).connect_lazy());
                connecting.await.map_err(|error| ServeError::Readers(error.into()))??
            }
            None => self.config.client.clone(),
        };
        let service = Service::new(self.config, reader, reader_runtime.clone(), stopping);
        reader_runtime.spawn(Arc::clone(&service).watch_nodes());
        reader_runtime.spawn(Arc::clone(&service).remove_idle_clients());
        let connections = ConnectionServer {
            router: api::router(&service),
            service,
            tls: self.tls.map(TlsAcceptor::from),
            permits: Arc::new(Semaphore::new(limits.connections)),
        };
        let mut tasks = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => connections.admit(stream, address.ip(), &mut tasks),
                    // The caller hung up before the connection was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        stop_sender.send_replace(true);
        let all_tasks = async { while tasks.join_next().await.is_some() {} };
        // After the timeout, drop the connections of clients that have not read their answers.
        let _ = tokio::time::timeout(limits.drain_timeout, all_tasks).await;
        tasks.shutdown().await;
        Ok(())
    }
}

/// Starts the reader thread, and returns its runtime. The thread reads the nodes and runs read-only calls, so decoding
/// and encoding long lists does not delay requests for leases. The thread ends when the sender of `end` is dropped.
fn start_reader_thread(end: oneshot::Receiver<Infallible>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("readers".into()).spawn(move || runtime.block_on(end))?;
    Ok(handle)
}

/// The state that all connections share.
#[derive(Clone)]
struct ConnectionServer {
    service: Arc<Service>,
    router: Router,
    tls: Option<TlsAcceptor>,
    /// One permit for each connection that may be open.
    permits: Arc<Semaphore>,
}

impl ConnectionServer {
    /// Starts the task of a new connection, or refuses the connection if a limit is reached.
    fn admit(&self, stream: TcpStream, address: IpAddr, tasks: &mut JoinSet<()>) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let max = self.service.limits.connections;
            let detail = format!("limit reached: {max} connections of all clients together; retry later");
            return self.refuse(&stream, &Problem::new(Code::RateLimited, detail));
        };
        let reservation = match self.service.limiter.connections.reserve(&limit_key_of(address)) {
            Ok(reservation) => reservation,
            Err(problem) => return self.refuse(&stream, &problem),
        };
        self.set_options(&stream);
        let connection = self.clone();
        tasks.spawn(async move {
            connection.serve(stream, address, reservation).await;
            drop(permit);
        });
    }

    /// Sets socket options. If the system rejects an option, the connection works without the option.
    fn set_options(&self, stream: &TcpStream) {
        // Answers are small, and must be sent at once.
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(stream);
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
        // The system probes an idle peer, and closes the connection if the peer does not respond.
        let timeout = self.service.limits.write_timeout;
        let probes = TcpKeepalive::new().with_time((timeout / 2).max(KEEPALIVE_MIN));
        let _ = socket.set_tcp_keepalive(&probes.with_interval((timeout / 6).max(KEEPALIVE_MIN)));
        // The system also closes the connection of a peer that does not read.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = socket.set_tcp_user_timeout(Some(timeout));
    }

    /// Answers a new connection with this problem, without reading a request. Sends only as much of the answer as the
    /// system buffers at once. Sends nothing on a TLS connection.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        self.service.metrics.count_problem(problem.code());
        tracing::debug!(?problem, "refused a connection");
        if self.tls.is_none() {
            // Closing a socket with unread bytes would discard the answer.
            let _ = stream.try_read(&mut [0; 4_096]);
            let _ = stream.try_write(&problem.to_http());
        }
    }

    /// Serves a connection until either end closes it.
    async fn serve(self, stream: TcpStream, address: IpAddr, reservation: Reservation) {
        let Some(tls) = &self.tls else { return self.answer(stream, Peer::new(address, None, reservation)).await };
        let handshake = tokio::time::timeout(self.service.limits.read_timeout, tls.accept(stream));
        // The service has read no request yet, so it may stop without an answer.
        let Ok(handshake_result) = self.service.run_unless_stopping(handshake).await else { return };
        match handshake_result {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let peer = Peer::new(address, certificate.map(AsRef::as_ref), reservation);
                self.answer(stream, peer).await;
            }
            Ok(Err(error)) => tracing::info!(peer = %address, %error, "the TLS handshake failed"),
            Err(_) => tracing::info!(peer = %address, "the TLS handshake timed out"),
        }
    }

    /// Answers the requests of a connection.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let Self { service, router, .. } = self;
        let (limits, address) = (service.limits, peer.address);
        let stream = ReadAhead::new(stream, Arc::clone(&peer.wait_marker));
        let peer = Arc::new(peer);
        let handler = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(&peer));
            router.clone().oneshot(request.map(Body::new))
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(limits.idle_timeout);
        http.max_header_size(limits.head_bytes).max_headers(limits.headers);
        http.max_buf_size(BUFFER_BYTES);
        // Answers are small: writing one buffer is faster than two.
        http.writev(false);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), handler));
        let result = tokio::select! {
            biased;
            result = connection.as_mut() => result,
            () = service.wait_until_stopping() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(peer = %address, %error, "a connection ended with an error");
        }
    }
}
