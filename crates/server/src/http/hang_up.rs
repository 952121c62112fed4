//! Detects callers that hang up while they wait.
//!
//! hyper does not notice the end of a connection while there are unread bytes before the end. Without this module, a
//! caller that sends its next request early and then hangs up would keep its queue position until its wait times out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest number of bytes to read ahead while a caller waits.
const READ_AHEAD_MAX: usize = 64 * 1024;

/// Each connection has one marker. While the caller waits, a weak reference to the marker exists. If the caller hangs
/// up while such a reference exists, the service closes the connection.
#[derive(Default)]
pub(crate) struct WaitMarker;

/// A connection. While its caller waits, bytes are read before hyper asks for them.
pub(crate) struct ReadAhead<S> {
    stream: S,
    wait_marker: Arc<WaitMarker>,
    /// The bytes that were read before hyper asked for them.
    early_bytes: Vec<u8>,
}

impl<S> ReadAhead<S> {
    pub(crate) fn new(stream: S, wait_marker: Arc<WaitMarker>) -> Self {
        Self { stream, wait_marker, early_bytes: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> ReadAhead<S> {
    /// Reads bytes that hyper has not asked for yet. Returns `Ready` if the caller has hung up.
    fn poll_hang_up(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut bytes = [0; 1_024];
        while self.early_bytes.len() < READ_AHEAD_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                return Poll::Ready(error);
            }
            if buffer.filled().is_empty() {
                return Poll::Ready(io::Error::new(io::ErrorKind::UnexpectedEof, "the caller hung up while it waited"));
            }
            self.early_bytes.extend_from_slice(buffer.filled());
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early_bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.early_bytes.len().min(buffer.remaining());
        buffer.put_slice(&self.early_bytes[..count]);
        self.early_bytes.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// Also checks whether a waiting caller has hung up. hyper calls `poll_flush` whenever it polls the connection.
    /// While a request waits, and the caller has sent more bytes, hyper calls no other method of the connection.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if Arc::weak_count(&self.wait_marker) > 0
            && let Poll::Ready(error) = self.poll_hang_up(context)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
