//! A connection to a server: sends bytes in the order of the calls, and receives values.
//!
//! Callers write to the socket directly while it accepts bytes, so that no task has to wake up. The connection's task
//! writes the bytes that the socket did not accept. Over TLS, the task writes all bytes. The task also reads.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::resp::{Commands, Parser, Value};
use super::trouble::checked;
use crate::node::Trouble;
use crate::node::url::{Address, Server};
use crate::platform::sync::Mutex;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type TlsWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection during the handshake.
pub(super) struct Connecting {
    reader: Reader,
    parser: Parser,
    /// `None` for TLS.
    socket: Option<Socket>,
    tls: Option<TlsWriter>,
}

impl Connecting {
    pub(super) async fn open(server: &Server, deadline: Duration) -> Result<Self, Trouble> {
        match tokio::time::timeout(deadline, Self::connect(server)).await {
            Ok(opened) => opened.map_err(|error| Trouble::Unreachable(error.to_string())),
            Err(_) => Err(Trouble::Unreachable(format!("no connection within {deadline:?}"))),
        }
    }

    async fn connect(server: &Server) -> io::Result<Self> {
        let (host, port) = match &server.address {
            Address::Tcp(host, port) => (host, *port),
            Address::Unix(path) => {
                let (reader, writer) = UnixStream::connect(path).await?.into_split();
                return Ok(Self::new(reader, Some(Socket::Unix(writer)), None));
            }
        };
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        if server.tls {
            let config = TLS.as_ref().map_err(|why| io::Error::other(why.clone()))?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
            let (reader, writer) = tokio::io::split(stream);
            Ok(Self::new(reader, None, Some(Box::new(writer))))
        } else {
            let (reader, writer) = stream.into_split();
            Ok(Self::new(reader, Some(Socket::Tcp(writer)), None))
        }
    }

    fn new(reader: impl AsyncRead + Send + Unpin + 'static, socket: Option<Socket>, tls: Option<TlsWriter>) -> Self {
        Self { reader: Box::new(reader), parser: Parser::default(), socket, tls }
    }

    /// Sends commands, and waits for one value for each command.
    pub(super) async fn ask(&mut self, commands: &mut Commands) -> Result<Vec<Value>, Trouble> {
        let count = commands.len();
        self.exchange(commands.as_bytes(), count).await.map_err(|error| Trouble::Broken(error.to_string()))
    }

    /// Like [`ask`](Self::ask), but fails if any value is an error.
    pub(super) async fn query(&mut self, commands: &mut Commands) -> Result<Vec<Value>, Trouble> {
        self.ask(commands).await?.into_iter().map(checked).collect()
    }

    async fn exchange(&mut self, bytes: &[u8], count: usize) -> io::Result<Vec<Value>> {
        write(self.socket.as_ref(), &mut self.tls, bytes).await?;
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            match self.parser.next().map_err(invalid_data)? {
                Some(value) => values.push(value),
                None => fill(&mut self.reader, &mut self.parser).await?,
            }
        }
        Ok(values)
    }

    /// Starts the connection's task. It calls `receive` with each value, or with the error that ended the connection;
    /// `receive` returns whether to continue. Ending the task closes the connection.
    pub(super) fn start(
        self,
        tasks: &mut JoinSet<()>,
        mut receive: impl FnMut(io::Result<Value>) -> bool + Send + 'static,
    ) -> Arc<Wire> {
        let Self { mut reader, mut parser, socket, tls } = self;
        let wire = Arc::new(Wire { socket, queue: Mutex::default(), bytes_queued: Notify::new() });
        let task_wire = Arc::clone(&wire);
        tasks.spawn(async move {
            let ended = tokio::select! {
                ended = read(&mut reader, &mut parser, &mut receive) => ended,
                Err(error) = task_wire.write(tls) => Err(error),
            };
            if let Err(error) = ended {
                receive(Err(error));
            }
        });
        wire
    }
}

/// The sending half of a running connection.
pub(super) struct Wire {
    /// `None` for TLS.
    socket: Option<Socket>,
    /// The bytes that wait for the connection's task, which removes them only after it has written them to the socket.
    /// Later bytes must not overtake them.
    queue: Mutex<VecDeque<u8>>,
    /// Notified when bytes enter the queue.
    bytes_queued: Notify,
}

impl Wire {
    /// Sends bytes after those of earlier calls, without waiting.
    pub(super) fn send(&self, bytes: &[u8]) {
        let mut queue = self.queue.lock();
        let mut written = 0;
        if let Some(socket) = self.socket.as_ref().filter(|_| queue.is_empty()) {
            // On an error, write nothing: the connection's task gets the same error and reports it.
            written = socket.try_write(bytes).unwrap_or(0);
        }
        if written < bytes.len() {
            queue.extend(&bytes[written..]);
            self.bytes_queued.notify_one();
        }
    }

    /// Writes queued bytes until a write fails.
    async fn write(&self, mut tls: Option<TlsWriter>) -> io::Result<Infallible> {
        loop {
            self.bytes_queued.notified().await;
            while !self.queue.lock().is_empty() {
                if let Some(socket) = &self.socket {
                    socket.writable().await?;
                    self.write_queued(socket)?;
                } else {
                    let bytes = Vec::from(std::mem::take(&mut *self.queue.lock()));
                    write(None, &mut tls, &bytes).await?;
                }
            }
        }
    }

    /// Writes as many queued bytes as the socket accepts, and removes them from the queue.
    fn write_queued(&self, socket: &Socket) -> io::Result<()> {
        let mut queue = self.queue.lock();
        let written = try_write(socket, queue.as_slices().0)?;
        queue.drain(..written);
        if queue.is_empty() {
            *queue = VecDeque::new();
        }
        Ok(())
    }
}

/// A socket that callers can write to without waiting.
enum Socket {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

impl Socket {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            Self::Unix(socket) => socket.try_write(bytes),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.writable().await,
            Self::Unix(socket) => socket.writable().await,
        }
    }
}

/// Writes all bytes to the socket, or over TLS.
async fn write(socket: Option<&Socket>, tls: &mut Option<TlsWriter>, mut bytes: &[u8]) -> io::Result<()> {
    if let Some(tls) = tls {
        tls.write_all(bytes).await?;
        return tls.flush().await;
    }
    let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
    while !bytes.is_empty() {
        socket.writable().await?;
        bytes = &bytes[try_write(socket, bytes)?..];
    }
    Ok(())
}

/// Writes as many bytes as the socket accepts at once, and returns their number.
fn try_write(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    match socket.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}

/// Reads until an error, or until `receive` returns false.
async fn read(
    reader: &mut Reader,
    parser: &mut Parser,
    receive: &mut impl FnMut(io::Result<Value>) -> bool,
) -> io::Result<()> {
    loop {
        while let Some(value) = parser.next().map_err(invalid_data)? {
            if !receive(Ok(value)) {
                return Ok(());
            }
        }
        fill(reader, parser).await?;
    }
}

async fn fill(reader: &mut Reader, parser: &mut Parser) -> io::Result<()> {
    match reader.read_buf(parser.buffer()).await? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
        _ => Ok(()),
    }
}

fn invalid_data(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The root certificates that the system trusts, or those in `SSL_CERT_FILE`.
static TLS: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(format!("no certificate authorities to trust: {why}"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
});

#[cfg(test)]
mod tests;
