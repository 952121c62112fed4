//! What is read from a connection: a head that has begun has to end, and whoever hangs up while it waits is noticed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How much is read of what a caller sends behind a request for which it waits.
const AHEAD_MAX: usize = 64 * 1024;
/// How many requests that came together are answered before others get their turn.
const TOGETHER_MAX: u32 = 4;

/// How far a conversation is. Those who read, those who answer and those who wait look at it, all of one connection.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Counts requests and answers: odd from a request to its answer.
    turns: AtomicU32,
    /// How many requests were read since there was last nothing to read.
    together: AtomicU32,
    /// Somebody waits, or follows: it may be long before there is anything to write.
    is_waited: AtomicBool,
}

impl Conversation {
    /// A request has come.
    pub(crate) fn asked(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// It has been answered, but for the body.
    pub(crate) fn answered(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets others have their turn, if this is one of many requests that were sent without waiting for answers.
    pub(crate) async fn take_turns(&self) {
        if self.together.fetch_add(1, Ordering::Relaxed) >= TOGETHER_MAX {
            tokio::task::yield_now().await;
        }
    }

    /// From now on, until what is returned is dropped, the caller is waiting: if it hangs up, the connection ends.
    pub(crate) fn wait(self: &Arc<Self>) -> Waited {
        self.is_waited.store(true, Ordering::Relaxed);
        Waited(Arc::clone(self))
    }
}

/// A caller that waits, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Waited(Arc<Conversation>);

impl Drop for Waited {
    fn drop(&mut self) {
        self.0.is_waited.store(false, Ordering::Relaxed);
    }
}

/// A connection on which heads arrive in time, and hanging up is noticed.
pub(crate) struct LimitedRead<S> {
    stream: S,
    conversation: Arc<Conversation>,
    /// How long a head may take, from its first byte; the first of all, from the beginning.
    within: Duration,
    /// In which turn a head has begun to arrive.
    begun: Option<u32>,
    late: Option<Pin<Box<Sleep>>>,
    /// What was read before it was asked for.
    ahead: Vec<u8>,
}

impl<S> LimitedRead<S> {
    pub(crate) fn new(stream: S, conversation: Arc<Conversation>, within: Duration) -> Self {
        Self { stream, conversation, within, begun: Some(0), late: None, ahead: Vec::new() }
    }

    /// Something has arrived.
    fn heard(&mut self) {
        let turn = self.conversation.turns.load(Ordering::Relaxed);
        // What comes between a request and its answer is its body, or comes too early.
        if turn.is_multiple_of(2) {
            self.begun = Some(turn);
        }
    }

    /// There is nothing to read now. `Ready` if that has been so for too long.
    fn wait_for_more(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        self.conversation.together.store(0, Ordering::Relaxed);
        if self.begun != Some(self.conversation.turns.load(Ordering::Relaxed)) {
            (self.begun, self.late) = (None, None);
            return Poll::Pending;
        }
        let within = self.within;
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        late.as_mut().poll(context).map(|()| {
            let why = format!("no whole head of a request within {within:?}");
            io::Error::new(io::ErrorKind::TimedOut, why)
        })
    }
}

impl<S: AsyncRead + Unpin> LimitedRead<S> {
    /// Reads what nobody has asked for yet, for the end that may be behind it. `Ready` if it is there.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut piece = [0; 1_024];
        while self.ahead.len() < AHEAD_MAX {
            let mut into = ReadBuf::new(&mut piece);
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(context, &mut into)) {
                return Poll::Ready(error);
            }
            if into.filled().is_empty() {
                return Poll::Ready(io::Error::new(io::ErrorKind::UnexpectedEof, "hung up while it waited"));
            }
            self.ahead.extend_from_slice(into.filled());
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedRead<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(into.remaining());
            into.put_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            self.heard();
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, into) {
            Poll::Pending => self.wait_for_more(context).map(Err),
            Poll::Ready(Ok(())) if into.filled().len() > before => {
                self.heard();
                Poll::Ready(Ok(()))
            }
            ended @ Poll::Ready(_) => ended,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LimitedRead<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called whenever the connection is looked at, also while there is nothing to write: nothing else is then, once there is
    /// anything behind the request that waits.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.conversation.is_waited.load(Ordering::Relaxed)
            && let Poll::Ready(error) = self.poll_end(context)
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
