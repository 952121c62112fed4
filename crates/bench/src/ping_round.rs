//! Measures one round trip to a majority: a PING to all nodes, until a majority has replied.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// One bare connection to each node.
pub(crate) struct PingRounds {
    nodes: Vec<TcpStream>,
}

impl PingRounds {
    pub(crate) async fn open(nodes: impl IntoIterator<Item = SocketAddr>) -> std::io::Result<Self> {
        let mut streams = Vec::new();
        for node in nodes {
            let stream = TcpStream::connect(node).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        Ok(Self { nodes: streams })
    }

    /// Measures the time until a majority has replied. Then reads the remaining replies.
    pub(crate) async fn measure(&mut self) -> std::io::Result<Duration> {
        let majority = self.nodes.len() / 2 + 1;
        let begun = Instant::now();
        for node in &mut self.nodes {
            node.write_all(PING).await?;
        }
        let mut replies: FuturesUnordered<_> = self.nodes.iter_mut().map(pong).collect();
        let mut elapsed = Duration::ZERO;
        let mut received = 0;
        while let Some(reply) = replies.next().await {
            reply?;
            received += 1;
            if received == majority {
                elapsed = begun.elapsed();
            }
        }
        Ok(elapsed)
    }
}

async fn pong(node: &mut TcpStream) -> std::io::Result<()> {
    let mut reply = [0; PONG.len()];
    node.read_exact(&mut reply).await?;
    if reply == *PONG { Ok(()) } else { Err(std::io::Error::other("a node did not reply with PONG")) }
}
