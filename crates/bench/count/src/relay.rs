//! A proxy between the library and a server that runs on the library's own thread. It delivers each server's replies in
//! one piece, and the replies of several servers in the order of the requests, so that every run executes the same
//! instructions on a machine of any load.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::replies::Replies;

/// Larger than any batch of requests or replies.
const ROOM: usize = 256 * 1024;

/// Starts a relay to this server. Returns the relay's address.
pub(crate) async fn open(server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            match Relay::new(client, server) {
                Ok(relay) => drop(tokio::spawn(relay.run())),
                Err(error) => eprintln!("no relay: {error}"),
            }
        }
    });
    Ok(address)
}

struct Relay {
    client: TcpStream,
    server: std::net::TcpStream,
    /// Counts commands, which have the format of replies.
    asked: Replies,
    answered: Replies,
    room: Vec<u8>,
}

impl Relay {
    fn new(client: TcpStream, server: SocketAddr) -> io::Result<Self> {
        let server = std::net::TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Self { client, server, asked: Replies::default(), answered: Replies::default(), room: vec![0; ROOM] })
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            self.client.readable().await?;
            exchange(&mut self)?;
        }
    }
}

/// Forwards the requests to the server, waits, and returns all replies. Callgrind excludes this function by its name.
#[inline(never)]
fn exchange(relay: &mut Relay) -> io::Result<()> {
    loop {
        match relay.client.try_read(&mut relay.room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                relay.asked.add(&relay.room[..length])?;
                relay.server.write_all(&relay.room[..length])?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let mut filled = 0;
    while relay.answered.heard() < relay.asked.heard() {
        let length = relay.server.read(&mut relay.room[filled..])?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        relay.answered.add(&relay.room[filled..filled + length])?;
        filled += length;
    }
    match relay.client.try_write(&relay.room[..filled])? {
        length if length == filled => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}
