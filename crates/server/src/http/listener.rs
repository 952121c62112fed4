//! Lets connections in, each as a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::ConnectError;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::api;
use crate::config::Config;
use crate::http::connection::{Acceptor, ConnectionContext, Open};
use crate::http::fd_limit;
use crate::http::tls::TlsError;
use crate::problem::{Code, Problem};
use crate::rate::{FORGET_EVERY, share_of};
use crate::service::Service;

/// After an error of the listener itself, as when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often such errors are told.
const ACCEPT_TOLD_EVERY: Duration = Duration::from_secs(10);
/// A quiet connection is not probed more often: the system counts in seconds.
const PROBES_MIN: Duration = Duration::from_secs(1);
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
    /// The client that reads the nodes cannot be built.
    #[error("cannot read the nodes: {0}")]
    Reader(#[from] ConnectError),
    /// The thread for readers cannot be started.
    #[error("cannot start the thread for readers: {0}")]
    Readers(io::Error),
}

/// A service that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: Config,
    acceptor: Option<Acceptor>,
}

impl Server {
    /// Listens, and does not answer yet. The limit of open files of this process is raised to what its connections need,
    /// as far as the system allows.
    ///
    /// # Errors
    /// [`ServeError`] when the address is taken, or would let anybody in.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn bind(mut config: Config) -> Result<Self, ServeError> {
        let address = config.listen;
        if config.is_of_this_machine() && !address.ip().is_loopback() {
            return Err(ServeError::Open { address });
        }
        let acceptor = match &config.tls {
            Some(tls) => Some(Acceptor(tls.acceptor(config.clients.is_none())?)),
            None => None,
        };
        let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Listen { address, error })?;
        config.limits.connections = fd_limit::room_for(config.limits.connections, config.client.nodes().len());
        let (most, share) = (config.limits.connections, config.limits.connections_per_client);
        if most < share {
            tracing::warn!(
                most,
                share,
                "not even one client can have its share of connections: too few files may be open"
            );
        }
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
    /// # Errors
    /// [`ServeError::Readers`] when the system gives no thread for readers, and [`ServeError::Reader`] when the nodes refuse the client that
    /// reads them.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections; what was waited for is given up, and leases stay with their holders.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (stopping, stopped) = watch::channel(false);
        let limits = self.config.limits;
        let (_running, readers) = Readers::start().map_err(ServeError::Readers)?;
        let reader = match self.config.reader.take() {
            Some(builder) => {
                let connecting = readers.spawn(builder.log_outages(false).connect_lazy());
                connecting.await.map_err(|error| ServeError::Readers(io::Error::other(error)))??
            }
            None => self.config.client.clone(),
        };
        let service = Service::new(self.config, reader, readers.clone(), stopped.clone());
        let router = api::router(service.clone());
        let context = ConnectionContext { router, acceptor: self.acceptor, limits, stopped: stopped.clone() };
        readers.spawn(Arc::clone(service.hub()).watch());
        readers.spawn(forget(service.clone(), stopped));
        let mut accept_loop =
            AcceptLoop { service, context, room: Semaphore::new(limits.connections).into(), open: JoinSet::new() };
        tokio::pin!(stop);
        let mut told: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = accept_loop.open.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => accept_loop.admit(stream, address),
                    // One that was gone before it was let in is nobody else's trouble.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        if told.is_none_or(|told| told.elapsed() >= ACCEPT_TOLD_EVERY) {
                            tracing::warn!(%error, "cannot accept connections");
                            told = Some(Instant::now());
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        stopping.send_replace(true);
        let everyone = async { while accept_loop.open.join_next().await.is_some() {} };
        // A client that has not read its answer by then will not.
        let _ = tokio::time::timeout(limits.drain, everyone).await;
        accept_loop.open.shutdown().await;
        Ok(())
    }
}

/// The thread that reads the nodes and answers those who read, with a runtime of its own: long lists are decoded and
/// encoded there, and no lock waits for them.
struct Readers(Option<Runtime>);

impl Readers {
    fn start() -> io::Result<(Self, Handle)> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("readers").enable_all().build()?;
        let handle = runtime.handle().clone();
        Ok((Self(Some(runtime)), handle))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // A runtime must not be waited for on another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lets connections in.
struct AcceptLoop {
    service: Service,
    context: ConnectionContext,
    room: Arc<Semaphore>,
    open: JoinSet<()>,
}

impl AcceptLoop {
    fn admit(&mut self, stream: TcpStream, address: SocketAddr) {
        // One too many costs nobody else anything: it is told so, and closed.
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            let most = self.service.limits().connections;
            let detail = format!("{most} connections are open already: that is as many as may");
            return self.refuse(&stream, &Problem::new(Code::RateLimited, detail));
        };
        let seat = match self.service.rates().connection(&share_of(address.ip())) {
            Ok(seat) => seat,
            Err(problem) => return self.refuse(&stream, &problem),
        };
        // Answers are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(&stream);
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
        // A peer that has vanished is noticed, whether or not it was being sent something, and does not wait for ever.
        let vanished = self.service.limits().vanished;
        let probes =
            TcpKeepalive::new().with_time((vanished / 2).max(PROBES_MIN)).with_interval((vanished / 6).max(PROBES_MIN));
        let _ = socket.set_tcp_keepalive(&probes);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = socket.set_tcp_user_timeout(Some(vanished));
        let counted = Open::new(&self.service);
        let serving = self.context.clone().serve(stream, address.ip(), seat);
        self.open.spawn(async move {
            serving.await;
            drop((room, counted));
        });
    }

    /// Says why, whatever was asked, as far as that can be said without waiting; under TLS it cannot.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        self.service.metrics().failed(problem.code());
        tracing::debug!(?problem, "a connection is refused");
        if self.context.acceptor.is_none() {
            // What was not read would take the answer along.
            let _ = stream.try_read(&mut [0; 4_096]);
            let _ = stream.try_write(&problem.to_http());
        }
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
