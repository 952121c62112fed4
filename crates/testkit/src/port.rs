//! Ports that stay reserved while the server behind them is down.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The first port. All ports are below the range of Linux's ephemeral ports. If a server had a port in that range, a
/// client that connects again and again to the dead server could connect to itself, and another program could get the
/// port before the server restarts.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_768;

/// A port of 127.0.0.1 that no other test process takes while this value lives.
///
/// The port is marked as taken by an abstract Unix socket with the port in its name. Like the port, this socket is unique
/// in a network namespace. It vanishes with the process, and leaves no file behind.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _mark: UnixListener,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let seed = RandomState::new().hash_one(std::process::id());
        let start = (seed % u64::from(PORT_COUNT)) as u16;
        (0..PORT_COUNT)
            .map(|step| FIRST_PORT + (start + step) % PORT_COUNT)
            .find_map(Self::reserve_number)
            .expect("no free port of 127.0.0.1 between 20000 and 32767")
    }

    fn reserve_number(number: u16) -> Option<Self> {
        let name = format!("quorlock-testkit-port-{number}");
        let address = SocketAddr::from_abstract_name(name).expect("the name fits a socket address");
        let mark = UnixListener::bind_addr(&address).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _mark: mark })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}
