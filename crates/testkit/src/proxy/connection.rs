//! One client's connection through the proxy.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::client::{Client, reset};
use super::counters::Counters;
use super::lane::Lane;
use super::loss::{Chances, Fate, Loss};
use super::pushes::PushFilter;

const READ_SIZE: usize = 64 * 1024;

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each with a call of its own")]
pub(super) struct Modes {
    pub(super) drop_replies: bool,
    pub(super) drop_requests: bool,
    pub(super) drop_pushes: bool,
    pub(super) loss: Option<Loss>,
    pub(super) hold: bool,
    pub(super) delay: Duration,
}

#[derive(Clone, Copy)]
pub(super) enum Order {
    Cut,
    HalfClose,
    Strand,
    StrandNext,
    Deliver,
}

/// A control call, with the sender to drop once the connection has applied it.
pub(super) struct Ordered {
    pub(super) order: Order,
    pub(super) done: Sender<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The next request is stranded.
    StrandNext,
    /// The last request before a cut is on its way.
    CutWhenSent,
    /// The client side is closed, and its requests wait for delivery.
    Stranded,
    /// The client side is closed, and the proxy writes its requests. An orderly
    /// close of the server's side makes sure that the server executes all of them.
    Delivering,
}

struct Connection {
    client: Option<Client>,
    server: TcpStream,
    up: Lane,
    down: Lane,
    phase: Phase,
    half_closed: bool,
    /// The direction to the client is closed.
    mute: bool,
    delivered: Vec<Sender<()>>,
    modes: Modes,
    chances: Chances,
    /// A message was lost and will not be sent again.
    broken: bool,
    push_filter: PushFilter,
    counters: Arc<Counters>,
}

enum Event {
    ClientReadable,
    ServerReadable,
    Flush,
    Ordered(Option<Ordered>),
}

/// Carries bytes until both sides are done or the connection is cut.
pub(super) async fn run(
    client: Client,
    server: SocketAddr,
    mut modes: watch::Receiver<Modes>,
    mut orders: UnboundedReceiver<Ordered>,
    chances: Chances,
) {
    let mut early_orders = Vec::new();
    let connect = TcpStream::connect(server);
    tokio::pin!(connect);
    let server = loop {
        tokio::select! {
            server = &mut connect => match server {
                Ok(server) => break server,
                Err(_) => return,
            },
            Some(ordered) = orders.recv() => {
                if matches!(ordered.order, Order::Cut) {
                    reset(&client.stream);
                    drop(client);
                    return;
                }
                early_orders.push(ordered);
            }
        }
    };
    let _ = server.set_nodelay(true);
    let mut connection = Connection::new(client, server, chances);
    connection.modes = *modes.borrow_and_update();
    for ordered in early_orders {
        connection.apply_order(ordered);
    }
    while !connection.advance() {
        let event = tokio::select! {
            event = connection.event() => event,
            _ = modes.changed() => Event::Flush,
            ordered = orders.recv() => Event::Ordered(ordered),
        };
        connection.modes = *modes.borrow_and_update();
        match event {
            Event::ClientReadable => connection.read_client(),
            Event::ServerReadable => connection.read_server(),
            Event::Flush => {}
            Event::Ordered(None) => return,
            Event::Ordered(Some(ordered)) => {
                let stranded = matches!(connection.phase, Phase::Stranded | Phase::Delivering);
                if matches!(ordered.order, Order::Cut) && !stranded {
                    connection.cut();
                    // The caller may continue only when the sockets are closed.
                    drop(connection);
                    drop(ordered);
                    return;
                }
                connection.apply_order(ordered);
            }
        }
        if connection.broken {
            connection.cut();
            return;
        }
    }
}

impl Connection {
    fn new(client: Client, server: TcpStream, chances: Chances) -> Self {
        let counters = Arc::clone(&client.counters);
        Self {
            client: Some(client),
            server,
            up: Lane::default(),
            down: Lane::default(),
            phase: Phase::Open,
            half_closed: false,
            mute: false,
            delivered: Vec::new(),
            modes: Modes::default(),
            chances,
            broken: false,
            push_filter: PushFilter::default(),
            counters,
        }
    }

    /// Waits until there is something to read or to write.
    async fn event(&self) -> Event {
        let reads_client = !self.up.ended && self.phase != Phase::CutWhenSent;
        let client = self.client.as_ref().map(|client| &client.stream);
        let may_write = self.may_write();
        let due = [&self.up, &self.down].into_iter().filter_map(Lane::next_due).min();
        tokio::select! {
            () = readable(client), if reads_client => Event::ClientReadable,
            () = readable(Some(&self.server)), if !self.down.ended => Event::ServerReadable,
            () = writable(client), if may_write && self.down.blocked => Event::Flush,
            () = writable(Some(&self.server)), if may_write && self.up.blocked => Event::Flush,
            () = sleep(due), if may_write => Event::Flush,
            () = pending() => Event::Flush,
        }
    }

    /// Whether waiting bytes may be written now.
    fn may_write(&self) -> bool {
        match self.phase {
            Phase::Open | Phase::StrandNext | Phase::CutWhenSent => !self.modes.hold,
            Phase::Stranded => false,
            Phase::Delivering => true,
        }
    }

    fn read_client(&mut self) {
        let Some(client) = &self.client else { return };
        let mut bytes = vec![0; READ_SIZE];
        match client.stream.try_read(&mut bytes) {
            Ok(0) => self.up.ended = true,
            Ok(n) => {
                bytes.truncate(n);
                self.take_request(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.up.ended = true,
        }
    }

    fn take_request(&mut self, bytes: Vec<u8>) {
        if self.modes.drop_requests {
            self.counters.dropped_up.add(bytes.len());
            return;
        }
        let Fate::Arrives(late) = self.chances.fate(self.modes.loss) else {
            self.counters.dropped_up.add(bytes.len());
            self.broken = true;
            return;
        };
        self.counters.held_up.add(bytes.len());
        self.up.push(bytes, self.modes.delay + late);
        if self.phase == Phase::StrandNext {
            self.strand();
        } else if self.phase == Phase::Open && self.counters.read_ends_in_cut() {
            self.phase = Phase::CutWhenSent;
        }
    }

    fn read_server(&mut self) {
        let mut bytes = vec![0; READ_SIZE];
        match self.server.try_read(&mut bytes) {
            Ok(0) => self.down.ended = true,
            Ok(n) => {
                bytes.truncate(n);
                self.take_reply(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.down.ended = true,
        }
    }

    fn take_reply(&mut self, bytes: Vec<u8>) {
        let lost = self.client.is_none() || self.mute || self.phase == Phase::CutWhenSent;
        if lost || self.modes.drop_replies {
            self.counters.dropped_down.add(bytes.len());
            return;
        }
        let Fate::Arrives(late) = self.chances.fate(self.modes.loss) else {
            self.counters.dropped_down.add(bytes.len());
            self.broken = true;
            return;
        };
        let bytes = if self.modes.drop_pushes {
            let (kept, removed) = self.push_filter.filter(&bytes);
            self.counters.dropped_down.add(removed);
            kept
        } else {
            let mut all = self.push_filter.take_incomplete();
            all.extend(bytes);
            all
        };
        self.down.push(bytes, self.modes.delay + late);
    }

    /// Writes the bytes that can be written now. Returns whether the connection is over.
    fn advance(&mut self) -> bool {
        if !self.may_write() {
            return self.phase == Phase::Stranded && self.down.ended;
        }
        let waiting = self.up.len();
        let even_early = self.phase == Phase::Delivering;
        let server_gone = self.up.flush(&self.server, even_early).is_err();
        self.counters.up.add(waiting - self.up.len());
        if server_gone {
            // Bytes that the server sent before it closed still go to the client.
            self.up.clear();
        }
        self.counters.held_up.subtract(waiting - self.up.len());
        if let Some(client) = &self.client {
            let waiting = self.down.len();
            let client_gone = self.down.flush(&client.stream, false).is_err();
            self.counters.down.add(waiting - self.down.len());
            if client_gone {
                // Requests that the client sent before it closed still go to the server.
                self.close_client();
            }
        }
        if self.up.is_empty() {
            if self.phase == Phase::CutWhenSent {
                self.client.iter().for_each(|client| reset(&client.stream));
                self.close_client();
                self.phase = Phase::Delivering;
            }
            self.delivered.clear();
            if self.up.ended && !self.half_closed {
                self.half_closed = true;
                // If the server has closed the connection, the next read reports it.
                let _ = shutdown(&self.server, Shutdown::Write);
            }
        }
        self.down.ended && self.down.is_empty()
    }

    fn apply_order(&mut self, Ordered { order, done }: Ordered) {
        let is_open = matches!(self.phase, Phase::Open | Phase::StrandNext | Phase::CutWhenSent);
        match order {
            Order::HalfClose if is_open => self.half_close(),
            Order::Strand if is_open => self.strand(),
            Order::StrandNext if is_open && !self.up.is_empty() => self.strand(),
            Order::StrandNext if is_open => self.phase = Phase::StrandNext,
            Order::Deliver if self.phase == Phase::Stranded => {
                self.phase = Phase::Delivering;
                self.delivered.push(done);
            }
            _ => {}
        }
    }

    /// Closes the direction to the client. Bytes from the client still go to the server.
    fn half_close(&mut self) {
        self.mute = true;
        self.down.clear();
        if let Some(client) = &self.client {
            // If the client has closed the connection, the next read reports it.
            let _ = shutdown(&client.stream, Shutdown::Write);
        }
    }

    /// Reads the bytes that the client has sent so far, and closes its side.
    fn strand(&mut self) {
        self.phase = Phase::Stranded;
        if let Some(client) = &self.client {
            let sent = client.unread();
            if !sent.is_empty() {
                self.take_request(sent);
            }
        }
        self.close_client();
        if self.up.is_empty() {
            // No request waits for delivery, so the server's side may close, too.
            self.phase = Phase::Delivering;
        }
    }

    /// Closes the client side. The client gets no more bytes.
    fn close_client(&mut self) {
        self.client = None;
        self.up.ended = true;
        self.down.clear();
    }

    fn cut(&mut self) {
        self.client.iter().for_each(|client| reset(&client.stream));
        reset(&self.server);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.held_up.subtract(self.up.len());
    }
}

async fn readable(stream: Option<&TcpStream>) {
    match stream {
        // The next read of the stream reports the error again.
        Some(stream) => drop(stream.readable().await),
        None => pending().await,
    }
}

async fn writable(stream: Option<&TcpStream>) {
    match stream {
        Some(stream) => drop(stream.writable().await),
        None => pending().await,
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}
