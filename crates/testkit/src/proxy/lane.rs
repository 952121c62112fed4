//! One direction of a connection through the proxy.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

/// The bytes that wait in the proxy. Each piece is due at a time, before which it must not be written.
#[derive(Default)]
pub(super) struct Lane {
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// Whether the sender has closed the connection, so that no more bytes come.
    pub(super) is_ended: bool,
    /// Whether the receiver's socket is full.
    pub(super) is_blocked: bool,
}

impl Lane {
    pub(super) fn push(&mut self, bytes: Vec<u8>, delay: Duration) {
        self.queue.push_back((Instant::now() + delay, bytes));
    }

    /// Writes the pieces that are due, or all pieces if `ignores_delay` is true. Fails if the receiver has closed the
    /// connection.
    pub(super) fn flush(&mut self, to: &TcpStream, ignores_delay: bool) -> io::Result<()> {
        self.is_blocked = false;
        while let Some((due, bytes)) = self.queue.front_mut() {
            if !ignores_delay && *due > Instant::now() {
                break;
            }
            match to.try_write(bytes) {
                Ok(n) if n == bytes.len() => drop(self.queue.pop_front()),
                Ok(n) => drop(bytes.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// When the next piece can be written, unless the receiver's socket is full.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let (due, _) = self.queue.front()?;
        (!self.is_blocked).then_some(*due)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}
