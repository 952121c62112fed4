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

/// Marks a connection on which a caller waits. A weak reference to the marker exists while the caller waits. If the
/// caller hangs up while such a reference exists, the service closes the connection.
#[derive(Default)]
pub(crate) struct WaitMarker;

/// A connection. While its caller waits, bytes are read before hyper asks for them.
pub(crate) struct ReadAhead<S> {
    stream: S,
    wait_marker: Arc<WaitMarker>,
    /// The bytes that were read before hyper asked for them.
    ahead: Vec<u8>,
}

impl<S> ReadAhead<S> {
    pub(crate) fn new(stream: S, wait_marker: Arc<WaitMarker>) -> Self {
        Self { stream, wait_marker, ahead: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> ReadAhead<S> {
    /// Reads bytes that hyper has not asked for yet. Returns `Ready` if the caller has hung up.
    fn poll_hang_up(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut piece = [0; 1_024];
        while self.ahead.len() < READ_AHEAD_MAX {
            let mut into = ReadBuf::new(&mut piece);
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(context, &mut into)) {
                return Poll::Ready(error);
            }
            if into.filled().is_empty() {
                return Poll::Ready(io::Error::new(io::ErrorKind::UnexpectedEof, "the caller hung up while it waited"));
            }
            self.ahead.extend_from_slice(into.filled());
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let count = self.ahead.len().min(into.remaining());
        into.put_slice(&self.ahead[..count]);
        self.ahead.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// Also checks whether a waiting caller has hung up. hyper calls `poll_flush` whenever it polls the connection. If
    /// the caller has sent bytes after the waiting request, hyper calls no other method of the connection.
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
