//! A relay between the library and a server. The relay runs on the library's own thread. It delivers each server's
//! replies in one piece, and the replies of several servers in the order of the requests. Therefore every run executes
//! the same instructions, however busy the machine is.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::replies::ReplyCounter;

/// The size of the buffer. It is larger than every batch of requests or replies.
const BUFFER_BYTES: usize = 256 * 1024;

/// Starts a relay to this server. Returns the relay's address.
pub(crate) async fn open(server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            match Relay::new(client, server) {
                Ok(relay) => drop(tokio::spawn(relay.run())),
                Err(error) => eprintln!("cannot connect the relay to {server}: {error}"),
            }
        }
    });
    Ok(address)
}

struct Relay {
    client: TcpStream,
    server: std::net::TcpStream,
    /// Counts requests, which have the same format as replies.
    requests: ReplyCounter,
    replies: ReplyCounter,
    buffer: Vec<u8>,
}

impl Relay {
    fn new(client: TcpStream, server: SocketAddr) -> io::Result<Self> {
        let server = std::net::TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (requests, replies) = (ReplyCounter::default(), ReplyCounter::default());
        Ok(Self { client, server, requests, replies, buffer: vec![0; BUFFER_BYTES] })
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            self.client.readable().await?;
            exchange(&mut self)?;
        }
    }
}

/// Forwards the requests to the server, waits for all replies, and sends them to the client. Callgrind excludes this
/// function by its name.
#[inline(never)]
fn exchange(relay: &mut Relay) -> io::Result<()> {
    loop {
        match relay.client.try_read(&mut relay.buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                relay.requests.add(&relay.buffer[..length])?;
                relay.server.write_all(&relay.buffer[..length])?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let mut filled = 0;
    while relay.replies.count() < relay.requests.count() {
        let length = relay.server.read(&mut relay.buffer[filled..])?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        relay.replies.add(&relay.buffer[filled..filled + length])?;
        filled += length;
    }
    match relay.client.try_write(&relay.buffer[..filled])? {
        length if length == filled => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}
