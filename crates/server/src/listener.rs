//! Connections are let in, and handed to those who serve them.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::ConnectError;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::api::Calls;
use crate::aside::Aside;
use crate::config::Config;
use crate::connection::{Acceptor, Guest, House, Open};
use crate::descriptors;
use crate::problem::{Code, Problem};
use crate::rate::{FORGET_EVERY, share_of};
use crate::service::Service;
use crate::threads::{self, Threads};
use crate::tls::TlsError;

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
    /// There is nobody to talk with callers.
    #[error("cannot start threads for connections: {0}")]
    Threads(io::Error),
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
        config.limits.connections = descriptors::room_for(config.limits.connections, config.client.nodes().len());
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
    /// [`ServeError::Threads`] when the system gives none, and [`ServeError::Reader`] when the nodes refuse the client that
    /// reads them.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections; what was waited for is given up, and leases stay with their holders.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (stopping, stopped) = watch::channel(false);
        let start = |name| Aside::start(name).map_err(ServeError::Threads);
        let limits = self.config.limits;
        let count = self.config.threads.map_or_else(threads::cores, NonZero::get);
        let linger = self.config.linger;
        let (aside, reads) = (start("looks")?, start("reads")?);
        let reader = match self.config.reader.take() {
            Some(builder) => {
                let ended = || ServeError::Threads(io::Error::other("the thread that reads the nodes has ended"));
                reads.run(builder.log_outages(false).connect_lazy()).await.ok_or_else(ended)??
            }
            None => self.config.client.clone(),
        };
        let service = Service::new(self.config, reader, aside, stopped.clone());
        let (calls, acceptor) = (Calls::new(service.clone()), self.acceptor);
        let house = House { calls, acceptor, limits, stopped: stopped.clone() };
        let threads = Threads::start(&house, count, linger).map_err(ServeError::Threads)?;
        reads.spawn(Arc::clone(service.hub()).watch());
        service.aside().spawn(forget(service.clone(), stopped));
        let door = Door {
            service,
            threads,
            is_tls: house.acceptor.is_some(),
            room: Semaphore::new(limits.connections).into(),
        };
        tokio::pin!(stop);
        let mut told: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => door.admit(stream, address),
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
        door.threads.close().await;
        Ok(())
    }
}

/// Lets connections in.
struct Door {
    service: Service,
    threads: Threads,
    is_tls: bool,
    room: Arc<Semaphore>,
}

impl Door {
    fn admit(&self, stream: TcpStream, address: SocketAddr) {
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
        match stream.into_std() {
            Ok(stream) => {
                let counted = Open::new(&self.service);
                self.threads.welcome(Guest { stream, address, seat, room, counted });
            }
            Err(error) => tracing::warn!(peer = %address.ip(), %error, "cannot serve a connection"),
        }
    }

    /// Says why, whatever was asked, as far as that can be said without waiting; under TLS it cannot.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        self.service.metrics().failed(problem.code());
        tracing::debug!(?problem, "a connection is refused");
        if !self.is_tls {
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
