//! A network between a client and a server that loses, delays and cuts.

mod acceptor;
mod client;
mod connection;
mod counters;
mod lane;
mod loss;
mod pushes;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use acceptor::{Acceptor, Change, Control};
use connection::Order;
use counters::Counters;
pub use loss::Loss;

use crate::wait::DEADLINE;

/// A TCP proxy in front of one server. Dropping it closes all its connections.
///
/// It runs on a thread and a runtime of its own, so it works the same for
/// blocking tests, for current-thread runtimes and under paused time. When a
/// control call returns, what it says is in force, also for a connection the
/// client opened just before.
///
/// "Up" is from client to server, "down" from server to client. A counter can
/// lag behind the bytes it counts by an instant: wait for the value.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    controls: Option<UnboundedSender<Control>>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of `server`, which need not be up.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the system has a free port of 127.0.0.1");
        let addr = listener.local_addr().expect("a listener has an address");
        let counters = Arc::new(Counters::default());
        let (controls, receiver) = unbounded_channel();
        let acceptor = Acceptor::new(server, Arc::clone(&counters));
        let thread = thread::Builder::new()
            .name("testkit-proxy".into())
            .spawn(move || acceptor.run(listener, receiver))
            .expect("the system can start one more thread");
        Self { addr, controls: Some(controls), counters, thread: Some(thread) }
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// While on, what the server sends is read and thrown away.
    pub fn drop_replies(&self, on: bool) {
        self.change(Change::DropReplies(on));
    }

    /// While on, what clients send is read and thrown away.
    pub fn drop_requests(&self, on: bool) {
        self.change(Change::DropRequests(on));
    }

    /// While on, messages that were published are taken out of what the server
    /// sends, in RESP3; they count as thrown away. Everything else passes.
    pub fn drop_pushes(&self, on: bool) {
        self.change(Change::DropPushes(on));
    }

    /// Loses messages that arrive from now on; none any more with `None`.
    pub fn lose(&self, loss: Option<Loss>) {
        self.change(Change::Lose(loss));
    }

    /// While on, bytes and closings wait in the proxy, both ways. Switching it
    /// off delivers them in order.
    pub fn hold(&self, on: bool) {
        self.change(Change::Hold(on));
    }

    /// Delays bytes that arrive from now on by this much each way.
    pub fn delay(&self, delay: Duration) {
        self.change(Change::Delay(delay));
    }

    /// Closes all connections abruptly: both sides get a reset and what waits
    /// in the proxy is lost. Stranded requests stay stranded.
    pub fn cut(&self) {
        self.change(Change::Order(Order::Cut));
    }

    /// Ends what comes down on all connections: clients see the end of the
    /// stream and what waits for them is lost. What they send still goes up.
    pub fn half_close(&self) {
        self.change(Change::Order(Order::HalfClose));
    }

    /// Passes on the next `n` reads from clients, then cuts the connection that
    /// carried the last of them. The server gets that request whole, its client
    /// gets a reset and no byte of the reply.
    pub fn cut_after_requests(&self, n: u64) {
        assert!(n > 0, "to cut at once, call cut()");
        self.change(Change::CutAfterRequests(n));
    }

    /// While on, new connections are closed at once.
    pub fn refuse(&self, on: bool) {
        self.change(Change::Refuse(on));
    }

    /// Sends new connections to another server.
    pub fn retarget(&self, server: SocketAddr) {
        self.change(Change::Retarget(server));
    }

    /// Closes the client side of all connections and keeps the requests that
    /// wait in the proxy, as [`hold`](Self::hold) makes them, for
    /// [`deliver_stranded`](Self::deliver_stranded). Clients see the end of the
    /// stream. New connections pass normally once `hold` is off.
    pub fn strand(&self) {
        self.change(Change::Order(Order::Strand));
    }

    /// Like [`strand`](Self::strand), but a connection without a waiting request
    /// stays open until its client sends one, which is then stranded.
    pub fn strand_next_requests(&self) {
        self.change(Change::Order(Order::StrandNext));
    }

    /// Writes the stranded requests to the server on the connections they were
    /// meant for. The replies are thrown away. Returns when the bytes are
    /// written; the server acts on them soon after.
    pub fn deliver_stranded(&self) {
        self.change(Change::Order(Order::Deliver));
    }

    /// Connections accepted so far, without the refused ones.
    pub fn connections(&self) -> u64 {
        self.counters.connections.get()
    }

    /// Connections whose client side is open now.
    pub fn open_connections(&self) -> u64 {
        self.counters.open.get()
    }

    /// Connections refused so far.
    pub fn refused(&self) -> u64 {
        self.counters.refused.get()
    }

    /// Bytes written to the server so far.
    pub fn bytes_up(&self) -> u64 {
        self.counters.up.get()
    }

    /// Bytes written to clients so far.
    pub fn bytes_down(&self) -> u64 {
        self.counters.down.get()
    }

    /// Bytes from clients thrown away so far.
    pub fn dropped_up(&self) -> u64 {
        self.counters.dropped_up.get()
    }

    /// Bytes from the server thrown away so far.
    pub fn dropped_down(&self) -> u64 {
        self.counters.dropped_down.get()
    }

    /// Bytes from clients that wait in the proxy now: held, delayed or stranded.
    pub fn held_up(&self) -> u64 {
        self.counters.held_up.get()
    }

    /// Every connection that has to act on the change keeps a clone of `done`
    /// until it has, so the channel closes when all of them have.
    #[track_caller]
    fn change(&self, change: Change) {
        let (done, acted) = mpsc::channel();
        self.controls
            .as_ref()
            .expect("the proxy runs until it is dropped")
            .send(Control { change, done })
            .expect("the proxy's thread runs until the proxy is dropped");
        match acted.recv_timeout(DEADLINE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => {
                panic!("the proxy did not act on a control call")
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.controls = None;
        if let Some(thread) = self.thread.take() {
            // No panic here: it would abort a test process that is unwinding.
            let _ = thread.join();
        }
    }
}
