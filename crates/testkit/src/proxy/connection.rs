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
use super::loss::{Fate, Loss, LossRng};
use super::pushes::PushFilter;

const READ_SIZE: usize = 64 * 1024;

/// The settings of all connections.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch with its own method of `Proxy`")]
pub(super) struct Modes {
    pub(super) drop_replies: bool,
    pub(super) drop_requests: bool,
    pub(super) drop_pushes: bool,
    pub(super) loss: Option<Loss>,
    pub(super) hold: bool,
    pub(super) delay: Duration,
}

/// A change that each connection applies once.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Cut,
    HalfClose,
    Strand,
    StrandNext,
    Deliver,
}

/// An order, with the sender to drop when the connection has applied the order.
pub(super) struct OrderWithSender {
    pub(super) order: Order,
    pub(super) done: Sender<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The next request is stranded.
    StrandNext,
    /// The last request before a reset is on its way to the server.
    CutWhenSent,
    /// The client side is closed, and the client's requests are stranded.
    Stranded,
    /// The client side is closed, and the proxy writes the client's requests to the server. Then it closes the server side
    /// without a reset, so that the server executes all of them.
    Delivering,
}

struct Connection {
    client: Option<Client>,
    server: TcpStream,
    up: Lane,
    down: Lane,
    phase: Phase,
    /// Whether the direction to the server is closed.
    is_up_closed: bool,
    /// Whether the direction to the client is closed.
    is_down_closed: bool,
    /// The senders to drop when the stranded requests are written.
    delivery_senders: Vec<Sender<()>>,
    modes: Modes,
    loss_rng: LossRng,
    /// Whether the connection must be reset, because a message was lost and will not be sent again.
    must_reset: bool,
    push_filter: PushFilter,
    counters: Arc<Counters>,
}

enum Event {
    ClientReadable,
    ServerReadable,
    Flush,
    Order(Option<OrderWithSender>),
}

/// Forwards bytes until both sides have ended or the connection is reset.
pub(super) async fn run(
    client: Client,
    server: SocketAddr,
    mut modes: watch::Receiver<Modes>,
    mut orders: UnboundedReceiver<OrderWithSender>,
    loss_rng: LossRng,
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
    let mut connection = Connection::new(client, server, loss_rng);
    connection.modes = *modes.borrow_and_update();
    for ordered in early_orders {
        connection.apply_order(ordered);
    }
    while !connection.advance() {
        let event = tokio::select! {
            event = connection.event() => event,
            _ = modes.changed() => Event::Flush,
            ordered = orders.recv() => Event::Order(ordered),
        };
        connection.modes = *modes.borrow_and_update();
        match event {
            Event::ClientReadable => connection.read_client(),
            Event::ServerReadable => connection.read_server(),
            Event::Flush => {}
            Event::Order(None) => return,
            Event::Order(Some(ordered)) => {
                let has_stranded = matches!(connection.phase, Phase::Stranded | Phase::Delivering);
                if matches!(ordered.order, Order::Cut) && !has_stranded {
                    connection.cut();
                    // The sockets must be closed before the caller of the proxy continues.
                    drop(connection);
                    drop(ordered);
                    return;
                }
                connection.apply_order(ordered);
            }
        }
        if connection.must_reset {
            connection.cut();
            return;
        }
    }
}

impl Connection {
    fn new(client: Client, server: TcpStream, loss_rng: LossRng) -> Self {
        let counters = Arc::clone(&client.counters);
        Self {
            client: Some(client),
            server,
            up: Lane::default(),
            down: Lane::default(),
            phase: Phase::Open,
            is_up_closed: false,
            is_down_closed: false,
            delivery_senders: Vec::new(),
            modes: Modes::default(),
            loss_rng,
            must_reset: false,
            push_filter: PushFilter::default(),
            counters,
        }
    }

    /// Waits until there is something to read or to write.
    async fn event(&self) -> Event {
        let reads_client = !self.up.is_ended && self.phase != Phase::CutWhenSent;
        let client = self.client.as_ref().map(|client| &client.stream);
        let may_write = self.may_write();
        let due = [&self.up, &self.down].into_iter().filter_map(Lane::next_due).min();
        tokio::select! {
            () = readable(client), if reads_client => Event::ClientReadable,
            () = readable(Some(&self.server)), if !self.down.is_ended => Event::ServerReadable,
            () = writable(client), if may_write && self.down.is_blocked => Event::Flush,
            () = writable(Some(&self.server)), if may_write && self.up.is_blocked => Event::Flush,
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
            Ok(0) => self.up.is_ended = true,
            Ok(n) => {
                bytes.truncate(n);
                self.take_request(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.up.is_ended = true,
        }
    }

    fn take_request(&mut self, bytes: Vec<u8>) {
        if self.modes.drop_requests {
            self.counters.dropped_up.add(bytes.len());
            return;
        }
        let Fate::Arrives(extra_delay) = self.loss_rng.fate(self.modes.loss) else {
            self.counters.dropped_up.add(bytes.len());
            self.must_reset = true;
            return;
        };
        self.counters.held_up.add(bytes.len());
        self.up.push(bytes, self.modes.delay + extra_delay);
        if self.phase == Phase::StrandNext {
            self.strand();
        } else if self.phase == Phase::Open && self.counters.must_cut_after_request() {
            self.phase = Phase::CutWhenSent;
        }
    }

    fn read_server(&mut self) {
        let mut bytes = vec![0; READ_SIZE];
        match self.server.try_read(&mut bytes) {
            Ok(0) => self.down.is_ended = true,
            Ok(n) => {
                bytes.truncate(n);
                self.take_reply(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.down.is_ended = true,
        }
    }

    fn take_reply(&mut self, bytes: Vec<u8>) {
        let cannot_reach_client = self.client.is_none() || self.is_down_closed || self.phase == Phase::CutWhenSent;
        if cannot_reach_client || self.modes.drop_replies {
            self.counters.dropped_down.add(bytes.len());
            return;
        }
        let Fate::Arrives(extra_delay) = self.loss_rng.fate(self.modes.loss) else {
            self.counters.dropped_down.add(bytes.len());
            self.must_reset = true;
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
        self.down.push(bytes, self.modes.delay + extra_delay);
    }

    /// Writes the bytes that can be written now. Returns whether the connection is over.
    fn advance(&mut self) -> bool {
        if !self.may_write() {
            return self.phase == Phase::Stranded && self.down.is_ended;
        }
        let waiting = self.up.len();
        let ignores_delay = self.phase == Phase::Delivering;
        let has_server_closed = self.up.flush(&self.server, ignores_delay).is_err();
        self.counters.bytes_up.add(waiting - self.up.len());
        if has_server_closed {
            // Bytes that the server sent before it closed still go to the client.
            self.up.clear();
        }
        self.counters.held_up.subtract(waiting - self.up.len());
        if let Some(client) = &self.client {
            let waiting = self.down.len();
            let has_client_closed = self.down.flush(&client.stream, false).is_err();
            self.counters.bytes_down.add(waiting - self.down.len());
            if has_client_closed {
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
            self.delivery_senders.clear();
            if self.up.is_ended && !self.is_up_closed {
                self.is_up_closed = true;
                // If the server has closed the connection, the next read reports it.
                let _ = shutdown(&self.server, Shutdown::Write);
            }
        }
        self.down.is_ended && self.down.is_empty()
    }

    fn apply_order(&mut self, OrderWithSender { order, done }: OrderWithSender) {
        let is_open = matches!(self.phase, Phase::Open | Phase::StrandNext | Phase::CutWhenSent);
        match order {
            Order::HalfClose if is_open => self.half_close(),
            Order::Strand if is_open => self.strand(),
            Order::StrandNext if is_open && !self.up.is_empty() => self.strand(),
            Order::StrandNext if is_open => self.phase = Phase::StrandNext,
            Order::Deliver if self.phase == Phase::Stranded => {
                self.phase = Phase::Delivering;
                self.delivery_senders.push(done);
            }
            _ => {}
        }
    }

    /// Closes the direction to the client. Bytes from the client still go to the server.
    fn half_close(&mut self) {
        self.is_down_closed = true;
        self.down.clear();
        if let Some(client) = &self.client {
            // If the client has closed the connection, the next read reports it.
            let _ = shutdown(&client.stream, Shutdown::Write);
        }
    }

    /// Reads the bytes that the client has sent so far, and closes the client side.
    fn strand(&mut self) {
        self.phase = Phase::Stranded;
        if let Some(client) = &self.client {
            let sent = client.read_all_sent();
            if !sent.is_empty() {
                self.take_request(sent);
            }
        }
        self.close_client();
        if self.up.is_empty() {
            // No request is stranded, so the server side may close, too.
            self.phase = Phase::Delivering;
        }
    }

    /// Closes the client side. The client gets no more bytes.
    fn close_client(&mut self) {
        self.client = None;
        self.up.is_ended = true;
        self.down.clear();
    }

    /// Makes the closing of both sides a reset.
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
