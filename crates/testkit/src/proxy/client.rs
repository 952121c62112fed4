//! The client side of a connection through the proxy.

use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, recv, sockopt::set_socket_linger};
use tokio::net::TcpStream;

use super::counters::Counters;

/// The client's socket. The connection counts as open while this value exists.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) counters: Arc<Counters>,
}

impl Client {
    pub(super) fn new(stream: TcpStream, counters: Arc<Counters>) -> Self {
        // If the client has closed the connection, the next read reports it.
        let _ = stream.set_nodelay(true);
        counters.connections.add(1);
        counters.open_connections.add(1);
        Self { stream, counters }
    }

    /// Reads the bytes that the client has sent so far. Asks the kernel directly, because the runtime may not know about
    /// them yet.
    pub(super) fn read_all_sent(&self) -> Vec<u8> {
        let mut sent = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok((n @ 1.., _)) = recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            sent.extend_from_slice(&bytes[..n]);
        }
        sent
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.counters.open_connections.subtract(1);
    }
}

/// Makes the closing of this stream a reset instead of an orderly end.
pub(super) fn reset(stream: &TcpStream) {
    // Fails only on a stream that is closed already.
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}
