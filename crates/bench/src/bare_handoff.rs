//! The minimal handoff, which is the floor of the handoff cases: bare sockets and minimal scripts, without fences, tickets
//! and epochs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end \
     redis.call('PUBLISH', KEYS[2], '1') return 1";
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', '30000') then return 1 end return 0";
/// The size of a read buffer. It is larger than every reply of a minimal handoff.
const REPLY_MAX: usize = 4_096;

/// A holder and a waiter, each with a connection to every node.
pub(crate) struct BareHandoff {
    holder: Vec<TcpStream>,
    release: Vec<u8>,
    granted: mpsc::UnboundedReceiver<()>,
    /// The tasks of the waiter's connections. They send an acquire after every hint.
    _waiter: JoinSet<()>,
}

impl BareHandoff {
    pub(crate) async fn open(nodes: &[SocketAddr]) -> std::io::Result<Self> {
        let release = command(&["EVAL", RELEASE, "2", "bare", "bare-hint", "id"]);
        let acquire = command(&["EVAL", ACQUIRE, "1", "bare", "id"]);
        let (sender, granted) = mpsc::unbounded_channel();
        let mut waiter = JoinSet::new();
        let mut holder = Vec::new();
        for node in nodes {
            holder.push(connect(*node).await?);
            let mut waiter_connection = connect(*node).await?;
            for greeting in [command(&["HELLO", "3"]), command(&["SUBSCRIBE", "bare-hint"])] {
                waiter_connection.write_all(&greeting).await?;
                read_reply(&mut waiter_connection).await?;
            }
            let (acquire, sender) = (acquire.clone(), sender.clone());
            waiter.spawn(async move {
                let mut reply = [0; REPLY_MAX];
                loop {
                    let can_continue = match waiter_connection.read(&mut reply).await {
                        Ok(0) | Err(_) => false,
                        // A push is a hint. Any other message is the reply to an acquire.
                        Ok(_) if reply[0] == b'>' => waiter_connection.write_all(&acquire).await.is_ok(),
                        Ok(_) => sender.send(()).is_ok(),
                    };
                    if !can_continue {
                        return;
                    }
                }
            });
        }
        Ok(Self { holder, release, granted, _waiter: waiter })
    }

    /// Measures the time from the first write of a release until a majority has granted. Then reads the remaining replies.
    pub(crate) async fn measure(&mut self) -> std::io::Result<Duration> {
        let majority = self.holder.len() / 2 + 1;
        let begun = Instant::now();
        for node in &mut self.holder {
            node.write_all(&self.release).await?;
        }
        let mut elapsed = Duration::ZERO;
        for received in 1..=self.holder.len() {
            self.granted.recv().await.ok_or(std::io::ErrorKind::BrokenPipe)?;
            if received == majority {
                elapsed = begun.elapsed();
            }
        }
        for node in &mut self.holder {
            read_reply(node).await?;
        }
        Ok(elapsed)
    }
}

/// Reads a reply and ignores its content.
async fn read_reply(node: &mut TcpStream) -> std::io::Result<()> {
    match node.read(&mut [0; REPLY_MAX]).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn connect(node: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
