//! A connection to a server, and nothing else: bytes out in the order of the calls, values in.
//!
//! Whoever sends writes to the socket itself, as long as it takes the bytes: no task has to be woken for that. What it
//! does not take at once, and everything over TLS, is written by the connection's own task, which also reads.

use crate::platform::sync::Mutex;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, MutexGuard};

use ::redis::{ConnectionAddr, ConnectionInfo, Value};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::frame::Measure;
use super::value;

type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Where values go: those that were asked for, in the order of the questions, and those that were not.
pub(super) trait Receiver: Send + Sync + 'static {
    /// One value: the answer to one command, or a push.
    fn receive(&self, value: Value);

    /// Whether what has come so far is the end of it: nothing more is read then.
    fn is_over(&self) -> bool;

    /// The connection is over.
    fn end(&self, error: &io::Error);
}

/// A connection that has been made, before anything is asked over it.
pub(super) struct Connecting {
    reader: Reader,
    writer: Writer,
    unread: Vec<u8>,
}

enum Writer {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(Box<dyn AsyncWrite + Send + Unpin>),
}

impl Connecting {
    pub(super) async fn open(info: &ConnectionInfo) -> io::Result<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let (reader, writer) = connect(host, *port).await?.into_split();
                Ok(Self::new(Box::new(reader), Writer::Tcp(writer)))
            }
            ConnectionAddr::Unix(path) => Self::open_unix(path).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let config = TLS.as_ref().map_err(|why| io::Error::other(why.clone()))?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream = connect(host, *port).await?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
                let (reader, writer) = tokio::io::split(stream);
                Ok(Self::new(Box::new(reader), Writer::Tls(Box::new(writer))))
            }
            _ => Err(io::Error::other("an address of an unknown kind")),
        }
    }

    async fn open_unix(path: &Path) -> io::Result<Self> {
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        Ok(Self::new(Box::new(reader), Writer::Unix(writer)))
    }

    fn new(reader: Reader, writer: Writer) -> Self {
        Self { reader, writer, unread: Vec::new() }
    }

    /// Asks, and waits for so many values.
    pub(super) async fn ask(&mut self, bytes: &[u8], values: usize) -> io::Result<Vec<Value>> {
        match &mut self.writer {
            Writer::Tcp(writer) => writer.write_all(bytes).await?,
            Writer::Unix(writer) => writer.write_all(bytes).await?,
            Writer::Tls(writer) => {
                writer.write_all(bytes).await?;
                writer.flush().await?;
            }
        }
        let mut answers = Vec::with_capacity(values);
        let mut measure = Measure::default();
        while answers.len() < values {
            match measure.look(&self.unread).map_err(malformed)? {
                Some(length) => {
                    answers.push(parse(&self.unread[..length])?);
                    self.unread.drain(..length);
                }
                None => fill(&mut self.reader, &mut self.unread).await?,
            }
        }
        Ok(answers)
    }

    /// From now on, what comes goes to the receiver.
    pub(super) fn start(self, receiver: impl Receiver) -> Wire {
        let Self { reader, writer, unread } = self;
        let (socket, tls) = match writer {
            Writer::Tcp(writer) => (Some(Socket::Tcp(writer)), None),
            Writer::Unix(writer) => (Some(Socket::Unix(writer)), None),
            Writer::Tls(writer) => (None, Some(writer)),
        };
        let outgoing = Arc::new(Outgoing { socket, queue: Mutex::default(), more: Notify::new() });
        let task = tokio::spawn(work(reader, unread, tls, Arc::clone(&outgoing), receiver));
        Wire { outgoing, task: task.abort_handle() }
    }
}

/// A connection in use. Dropped, it is closed.
pub(super) struct Wire {
    outgoing: Arc<Outgoing>,
    task: AbortHandle,
}

impl Wire {
    /// Puts bytes on their way, behind those of earlier calls.
    pub(super) fn send(&self, bytes: &[u8]) {
        self.outgoing.send(bytes);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Outgoing {
    /// A socket that can be written to without waiting; over TLS there is none.
    socket: Option<Socket>,
    queue: Mutex<Queue>,
    /// There is something in the queue.
    more: Notify,
}

enum Socket {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// The task has taken bytes from here and not written all of them yet: what comes now has to stay behind.
    busy: bool,
}

impl Outgoing {
    fn send(&self, bytes: &[u8]) {
        let mut queue = self.queue();
        let mut written = 0;
        if let Some(socket) = self.socket.as_ref().filter(|_| queue.bytes.is_empty() && !queue.busy) {
            // An error is met again by the task, which reports it.
            written = socket.try_write(bytes).unwrap_or(0);
        }
        if written < bytes.len() {
            queue.bytes.extend_from_slice(&bytes[written..]);
            self.more.notify_one();
        }
    }

    /// Writes what has been left, until it cannot be.
    async fn write(&self, mut tls: Option<Box<dyn AsyncWrite + Send + Unpin>>) -> io::Result<Never> {
        loop {
            self.more.notified().await;
            loop {
                let bytes = {
                    let mut queue = self.queue();
                    queue.busy = !queue.bytes.is_empty();
                    std::mem::take(&mut queue.bytes)
                };
                if bytes.is_empty() {
                    break;
                }
                match (&self.socket, &mut tls) {
                    (Some(socket), _) => socket.write_all(&bytes).await?,
                    (None, Some(tls)) => {
                        tls.write_all(&bytes).await?;
                        tls.flush().await?;
                    }
                    (None, None) => return Err(io::ErrorKind::NotConnected.into()),
                }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Socket {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            Self::Unix(socket) => socket.try_write(bytes),
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self {
                Self::Tcp(socket) => socket.writable().await?,
                Self::Unix(socket) => socket.writable().await?,
            }
            match self.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What never comes.
enum Never {}

/// The connection's task: reads, and writes what was left to it, until either fails.
async fn work(
    reader: Reader,
    unread: Vec<u8>,
    tls: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    outgoing: Arc<Outgoing>,
    receiver: impl Receiver,
) {
    let ended = tokio::select! {
        ended = read(reader, unread, &receiver) => ended,
        ended = outgoing.write(tls) => ended,
    };
    let Err(error) = ended;
    receiver.end(&error);
}

async fn read(mut reader: Reader, mut unread: Vec<u8>, receiver: &impl Receiver) -> io::Result<Never> {
    let mut measure = Measure::default();
    loop {
        let mut taken = 0;
        while let Some(length) = measure.look(&unread[taken..]).map_err(malformed)? {
            receiver.receive(parse(&unread[taken..taken + length])?);
            if receiver.is_over() {
                return Err(malformed("more than is listened to"));
            }
            taken += length;
        }
        unread.drain(..taken);
        if unread.len() < READ_MIN {
            // One long value is no reason to keep so much room for ever.
            unread.shrink_to(ROOM_MAX);
        }
        fill(&mut reader, &mut unread).await?;
    }
}

async fn fill(reader: &mut Reader, unread: &mut Vec<u8>) -> io::Result<()> {
    if unread.capacity() - unread.len() < READ_MIN {
        unread.reserve(READ_MIN);
    }
    match reader.read_buf(unread).await? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
        _ => Ok(()),
    }
}

/// How much room there is for every read.
const READ_MIN: usize = 4_096;
/// How much room is kept when little is in it.
const ROOM_MAX: usize = 64 * 1_024;

fn parse(bytes: &[u8]) -> io::Result<Value> {
    value::read(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, super::describe(&error)))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whom to trust: the system's authorities, or those in `SSL_CERT_FILE`.
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
